"""Tenants and settings: versioned, and listed with or without a description."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from mainspring.core.schedules.time_zones import EPOCH
from mainspring.protocol.errors import Rejected, VersionMismatch
from mainspring.store.ports.admin import AuditFilter, TenantRow
from mainspring.store.ports.store import Store
from tests.store.admin_builders import a_measure, a_tenant, an_entry
from tests.store.builders import JOB, NOW, a_job
from tests.store.conftest import look
from tests.store.schedule_builders import a_change_of, a_schedule
from tests.store.test_audit import told
from tests.store.test_tokens import a_token


async def names(store: Store, after: str = "", limit: int = 100) -> list[str]:
    """The names of tenants, without that of the job of all runs."""
    return [row.name for row in await store.list_tenants(after, limit) if row.name != JOB.tenant]


def only_named(name: str) -> TenantRow:
    """A tenant without a description."""
    return TenantRow(
        name=name, title="", contact="", note="", version=0, created_at=EPOCH, created_by="", updated_at=EPOCH,
        updated_by="",
    )  # fmt: skip


# tenants


async def test_a_tenant_is_kept_as_it_was_described_with_the_stores_times(store: Store) -> None:
    before = await store.time()

    row = await store.put_tenant(a_tenant(), None, an_entry(action="put_tenant"))

    assert before <= row.created_at == row.updated_at <= await store.time()
    assert row == a_tenant(version=1, created_at=row.created_at, updated_at=row.updated_at)
    assert await store.find_tenant("acme") == row


async def test_who_made_it_first_stays_and_the_version_counts(store: Store) -> None:
    first = await store.put_tenant(a_tenant(), 0, an_entry())
    changed = a_tenant(title="Acme Inc.", created_by="token:bob", updated_by="token:bob")

    second = await store.put_tenant(changed, 1, an_entry())

    assert (second.version, second.title, second.updated_by) == (2, "Acme Inc.", "token:bob")
    assert (second.created_at, second.created_by) == (first.created_at, "token:ann")
    assert second.updated_at >= first.updated_at
    assert (await store.put_tenant(changed, None, an_entry())).version == 3


@pytest.mark.parametrize(("there", "expected"), [(0, 1), (1, 0), (2, 1), (1, 2)])
async def test_a_change_of_another_version_is_outdated_and_nothing_is_written(
    store: Store, there: int, expected: int
) -> None:
    for _ in range(there):
        await store.put_tenant(a_tenant(), None, an_entry())
    before = await store.find_tenant("acme")

    with pytest.raises(VersionMismatch):
        await store.put_tenant(a_tenant(title="new"), expected, an_entry(action="outdated"))

    assert await store.find_tenant("acme") == before
    assert await told(store, AuditFilter(action="outdated")) == []


async def test_of_two_who_change_the_same_version_at_once_one_is_outdated(store: Store) -> None:
    changes = [store.put_tenant(a_tenant(title=title), 0, an_entry()) for title in ("a", "b", "c")]

    ends = await asyncio.gather(*changes, return_exceptions=True)

    assert sorted(type(end).__name__ for end in ends) == ["TenantRow", "VersionMismatch", "VersionMismatch"]
    assert len(await told(store)) == 1


async def test_a_tenant_is_known_by_a_job_a_schedule_or_a_token(store: Store) -> None:
    await store.insert_job(a_job(tenant="of-a-job"))
    schedule = a_schedule(tenant="of-a-schedule")
    await store.insert_schedule(schedule, a_change_of(schedule))
    await store.insert_token(a_token(tenant="of-a-token"))
    await store.insert_token(a_token(tenant="*"))
    described = await store.put_tenant(a_tenant(name="described"), None, an_entry())

    rows = [row for row in await store.list_tenants("", 100) if row.name != JOB.tenant]

    assert rows == [described, only_named("of-a-job"), only_named("of-a-schedule"), only_named("of-a-token")]
    for row in rows:
        assert await store.find_tenant(row.name) == row
    for nobody in ("*", "unknown", ""):
        assert await store.find_tenant(nobody) is None


async def test_tenants_are_listed_by_name_in_pages(store: Store) -> None:
    for number in range(7):
        await store.insert_job(a_job(tenant=f"t{number}", name="a"))
        await store.insert_job(a_job(tenant=f"t{number}", name="b"))
        await store.insert_token(a_token(tenant=f"t{number * 2}"))
    await store.put_tenant(a_tenant(name="t3"), None, an_entry())

    assert await names(store, "t0", 4) == ["t1", "t10", "t12", "t2"]
    assert await names(store, "t2", 3) == ["t3", "t4", "t5"]
    assert await names(store, "t5") == ["t6", "t8"]
    assert await names(store, "t8") == []


async def test_a_tenant_whose_schedules_are_all_deleted_is_not_known_by_them(store: Store) -> None:
    schedule = a_schedule(tenant="gone")
    await store.insert_schedule(replace(schedule, deleted_at=NOW), a_change_of(schedule))

    assert await store.find_tenant("gone") is None
    assert await names(store) == []


# settings


async def test_a_setting_is_changed_in_versions_and_dropped(store: Store) -> None:
    entries = [an_entry() for _ in range(3)]
    first = await store.put_setting_override(a_measure(), 0, entries[0])
    assert first == a_measure(version=1, updated_at=first.updated_at)
    second = await store.put_setting_override(a_measure(value="9", why="quiet"), 1, entries[1])
    other = await store.put_setting_override(a_measure(name="a"), None, an_entry(tenant="*"))

    assert await store.setting_overrides() == [other, second]
    assert (second.version, second.value) == (2, "9")
    with pytest.raises(VersionMismatch):
        await store.put_setting_override(a_measure(), 1, an_entry())

    assert await store.drop_setting_override(second.name, entries[2])
    assert not await store.drop_setting_override(second.name, an_entry())
    assert await store.setting_overrides() == [other]
    assert await told(store, AuditFilter(tenant="acme")) == [entry.id for entry in entries]
    assert (await store.put_setting_override(a_measure(), 0, an_entry())).version == 1


async def test_a_text_with_a_nul_is_rejected(store: Store) -> None:
    with pytest.raises(Rejected):
        await store.put_setting_override(a_measure(value="a\0b"), None, an_entry())
    with pytest.raises(Rejected):
        await store.put_tenant(a_tenant(note="a\0b"), None, an_entry())

    assert await store.setting_overrides() == []
    assert await look(store, "SELECT name FROM tenants") == []
    assert await told(store) == []
