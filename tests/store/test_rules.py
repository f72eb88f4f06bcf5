"""Sharing rules: stored with versions, announced to servers, and counted by one number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.fairness.quotas import Quota
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.protocol.errors import Rejected, VersionMismatch
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.store import Store
from mainspring.store.sqlite.store import SqliteStore
from tests.store.admin_builders import an_entry
from tests.store.builders import HOUR, NOW, Leader
from tests.store.conftest import look
from tests.store.sharing_builders import (
    LIMIT,
    a_freeze,
    a_grant,
    a_group,
    a_policy,
    a_pool,
    a_quota,
)
from tests.store.test_audit import told

Put = Callable[[Store, Any, int | None, AuditEntry], Awaitable[Any]]
Drop = Callable[[Store, AuditEntry], Awaitable[bool]]

VERSIONED: dict[str, tuple[Any, Put]] = {
    "pools": (a_pool(), lambda store, row, expected, audit: store.put_pool(row, expected, audit)),
    "policies": (a_policy(), lambda store, row, expected, audit: store.put_policy(row, expected, audit)),
    "quotas": (a_quota(), lambda store, row, expected, audit: store.put_quota(row, expected, audit)),
    "groups": (a_group(), lambda store, row, expected, audit: store.put_group(row, expected, audit)),
}
REPLACED: dict[str, tuple[Any, Put]] = {
    "grants": (a_grant(), lambda store, row, _, audit: store.grant_p0(row, audit)),
    "freezes": (a_freeze(), lambda store, row, _, audit: store.freeze(row, audit)),
}
DROPS: dict[str, Drop] = {
    "policies": lambda store, audit: store.drop_policy("gdpr", audit),
    "quotas": lambda store, audit: store.drop_quota("acme", "eu", audit),
    "groups": lambda store, audit: store.drop_group("acme", "database", audit),
    "grants": lambda store, audit: store.revoke_p0("acme", audit),
    "freezes": lambda store, audit: store.unfreeze(FreezeKind.TENANT, "acme", audit),
}


async def rows(store: Store, kind: str) -> Sequence[Any]:
    """The stored rules of one kind."""
    found: Sequence[Any] = getattr(await store.rules(), kind)
    return found


async def test_before_anything_was_decided_there_is_nothing_and_the_number_is_0(store: Store) -> None:
    assert await store.rules_version() == 0
    empty: dict[str, Any] = {kind: [] for kind in (*VERSIONED, *REPLACED)}
    assert await store.rules() == AllRules(version=0, **empty)


@pytest.mark.parametrize("kind", VERSIONED)
async def test_a_rule_is_kept_as_it_was_said_with_the_stores_time_and_version(store: Store, kind: str) -> None:
    said, put = VERSIONED[kind]
    before = await store.time()

    row = await put(store, said, None, an_entry(action="put"))

    assert before <= row.updated_at <= await store.time()
    assert row == replace(said, version=1, updated_at=row.updated_at)
    assert await rows(store, kind) == [row]
    assert len(await told(store, AuditFilter(action="put"))) == 1
    again = await put(store, replace(said, updated_by="token:bob"), 1, an_entry())
    assert (again.version, again.updated_by) == (2, "token:bob")
    assert await rows(store, kind) == [again]


@pytest.mark.parametrize("kind", VERSIONED)
@pytest.mark.parametrize(("there", "expected"), [(0, 1), (1, 0), (2, 1), (1, 2)])
async def test_a_change_of_another_version_is_outdated_and_nothing_is_written(
    store: Store, kind: str, there: int, expected: int
) -> None:
    said, put = VERSIONED[kind]
    for _ in range(there):
        await put(store, said, None, an_entry())
    before = await store.rules()

    with pytest.raises(VersionMismatch):
        await put(store, replace(said, updated_by="token:late"), expected, an_entry(action="outdated"))

    assert await store.rules() == before
    assert before.version == there
    assert await told(store, AuditFilter(action="outdated")) == []


async def test_of_two_who_change_the_same_version_at_once_one_is_outdated(store: Store) -> None:
    changes = [store.put_quota(a_quota(updated_by=who), 0, an_entry()) for who in "abc"]

    ends = await asyncio.gather(*changes, return_exceptions=True)

    assert sorted(type(end).__name__ for end in ends) == ["QuotaRow", "VersionMismatch", "VersionMismatch"]
    assert await store.rules_version() == len(await told(store)) == 1


async def test_what_an_optional_part_of_a_rule_does_not_say_is_kept_as_that(store: Store) -> None:
    pool = await store.put_pool(a_pool(zones=(), max_resources=None), None, an_entry())
    quota = await store.put_quota(a_quota(pool="", quota=Quota(), raised=None), None, an_entry())
    rate = await store.put_group(a_group(per_seconds=0.5), None, an_entry())

    found = await store.rules()

    assert (found.pools, found.quotas, found.groups) == ([pool], [quota], [rate])
    assert (pool.zones, pool.max_resources, quota.raised, rate.per_seconds) == ((), None, None, 0.5)


@pytest.mark.parametrize("kind", REPLACED)
async def test_a_grant_or_a_freeze_takes_the_place_of_an_earlier_one(store: Store, kind: str) -> None:
    said, put = REPLACED[kind]
    before = await store.time()
    first = await put(store, said, None, an_entry(action="put"))
    assert before <= first.since <= await store.time()
    assert first == replace(said, since=first.since)

    second = await put(store, replace(said, why="still", until=NOW + 2 * HOUR), None, an_entry(action="put"))

    assert (second.why, second.until) == ("still", NOW + 2 * HOUR)
    assert second.since >= first.since
    assert await rows(store, kind) == [second]
    assert len(await told(store, AuditFilter(action="put"))) == 2


@pytest.mark.parametrize("kind", DROPS)
async def test_what_is_taken_away_is_gone_and_told_of_once(store: Store, kind: str) -> None:
    said, put = (VERSIONED | REPLACED)[kind]
    await put(store, said, None, an_entry())

    assert await DROPS[kind](store, an_entry(action="drop")) is True
    assert await rows(store, kind) == []
    assert await store.rules_version() == 2

    assert await DROPS[kind](store, an_entry(action="drop")) is False
    assert await store.rules_version() == 2
    assert len(await told(store, AuditFilter(action="drop"))) == 1


async def test_each_change_of_a_rule_adds_1_to_one_number(store: Store) -> None:
    for number, (kind, (said, put)) in enumerate((VERSIONED | REPLACED).items(), 1):
        await put(store, said, None, an_entry())
        assert await store.rules_version() == number, kind
    at_once = [store.put_policy(a_policy(name=name), None, an_entry()) for name in "abcdefgh"]

    await asyncio.gather(*at_once)

    assert (await store.rules()).version == await store.rules_version() == 6 + len(at_once)


async def test_each_kind_is_listed_in_the_order_of_its_key(store: Store) -> None:
    for name in ("b", "a", "É", "Z"):
        await store.put_pool(a_pool(name=name), None, an_entry())
        await store.put_policy(a_policy(name=name), None, an_entry())
        await store.grant_p0(a_grant(tenant=name), an_entry())
        for part in ("y", "", "x"):
            await store.put_quota(a_quota(tenant=name, pool=part), None, an_entry())
            await store.put_group(a_group(tenant=name, name=part), None, an_entry())
    for kind in (FreezeKind.TENANT, FreezeKind.POOL, FreezeKind.JOB, FreezeKind.ALL):
        await store.freeze(a_freeze(kind=kind, subject="b"), an_entry())
        await store.freeze(a_freeze(kind=kind, subject="a"), an_entry())

    found = await store.rules()

    names = ["Z", "a", "b", "É"]
    assert [row.name for row in found.pools] == [row.name for row in found.policies] == names
    assert [row.tenant for row in found.grants] == names
    pairs = [(name, part) for name in names for part in ("", "x", "y")]
    assert [(row.tenant, row.pool) for row in found.quotas] == pairs
    assert [(row.tenant, row.name) for row in found.groups] == pairs
    kinds = [FreezeKind.ALL, FreezeKind.JOB, FreezeKind.POOL, FreezeKind.TENANT]
    assert [(row.kind, row.subject) for row in found.freezes] == [(kind, name) for kind in kinds for name in "ab"]


async def test_a_pool_makes_its_shard_known_and_leaves_one_that_is(store: Store) -> None:
    leader = await Leader.of(store, "eu")
    await leader.commit()

    for name in ("eu", "us"):
        await store.put_pool(a_pool(name=name), None, an_entry())

    assert [(row.id, row.epoch, row.batch_no) for row in await store.shards()] == [("eu", 1, 1), ("us", 0, 0)]


async def test_a_pool_that_is_outdated_makes_no_shard_known(store: Store) -> None:
    with pytest.raises(VersionMismatch):
        await store.put_pool(a_pool(), 7, an_entry())

    assert await store.shards() == []


async def test_the_shares_of_a_group_go_with_it_and_those_of_others_stay(store: Store) -> None:
    leader = await Leader.of(store)
    await store.put_group(a_group(), None, an_entry())
    for limit in (LIMIT, "group:acme/other"):
        await store.take_share(leader.term, limit, 3, 2)

    assert await store.drop_group("acme", "database", an_entry())

    assert [share.limit for share in (await store.load("main")).shares] == ["group:acme/other"]


async def test_shares_stay_if_there_is_no_such_group(store: Store) -> None:
    leader = await Leader.of(store)
    share = await store.take_share(leader.term, LIMIT, 3, 2)

    assert not await store.drop_group("acme", "database", an_entry())

    assert await store.shares([LIMIT]) == [share]


async def test_an_entry_that_the_store_refuses_takes_the_rule_with_it(store: Store) -> None:
    for said, put in (VERSIONED | REPLACED).values():
        with pytest.raises(Rejected):
            await put(store, said, None, an_entry(object="a\0b"))
    await store.put_group(a_group(), None, an_entry())
    with pytest.raises(Rejected):
        await store.drop_group("acme", "database", an_entry(object="a\0b"))

    found = await store.rules()

    assert (found.version, len(found.groups)) == (1, 1)
    assert [*found.pools, *found.policies, *found.quotas, *found.grants, *found.freezes] == []


@pytest.mark.parametrize(
    "bad", [a_quota(tenant="a\0b"), a_quota(pool="\udc80"), a_quota(quota=Quota(max_tasks=2**70), tenant="a\0")]
)
async def test_a_rule_that_the_store_refuses_changes_nothing(store: Store, bad: Any) -> None:
    with pytest.raises(Rejected):
        await store.put_quota(bad, None, an_entry())

    assert (await store.rules()).version == 0
    assert await told(store) == []


async def test_a_rule_that_nobody_can_read_keeps_no_other_back(store: Store) -> None:
    """Written by a later release, or by hand."""
    for tenant in ("acme", "other"):
        await store.put_quota(a_quota(tenant=tenant), None, an_entry())
    await write(store, """UPDATE quotas SET quota = '{"weight":1,"new":true}' WHERE tenant = 'acme'""")

    assert [row.tenant for row in await rows(store, "quotas")] == ["other"]


async def test_rules_are_as_they_were_at_one_moment(store: Store) -> None:
    """A reader between two changes gets the rules and the number of the same version."""

    async def change() -> None:
        for name in "abcdefgh":
            await store.put_group(a_group(name=name), None, an_entry())

    async def follow() -> None:
        version = 0
        while version < 8:
            found = await store.rules()
            version = found.version
            assert len(found.groups) == version

    await asyncio.gather(change(), follow(), follow())


async def write(store: Store, statement: str) -> None:
    """Change a row below the port, as by hand."""
    if isinstance(store, SqliteStore):
        await store._write(lambda db: db.execute(statement))
    else:
        await look(store, statement)
