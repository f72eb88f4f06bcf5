"""Server health over the API, also while its store does not answer."""

from __future__ import annotations

from datetime import timedelta

import httpx2

from mainspring.api.services import Role
from mainspring.app.build import POOL
from mainspring.core.model.schedule_rows import ScheduleChange, ScheduleRow
from mainspring.protocol.rest.overviews import CheckupView
from mainspring.store.ports.front import ServerRow
from tests.api.office import Office, read


async def look(caller: httpx2.AsyncClient) -> CheckupView:
    found: CheckupView = read(await caller.get("/api/v1/checkup"), CheckupView)
    return found


async def add_overdue(office: Office, tenant: str, minutes: int) -> None:
    """Add an overdue schedule; no engine runs to fire it."""
    now = await office.store.time()
    row = ScheduleRow(
        id=f"sched_{tenant}", tenant=tenant, name="nightly", job="etl", version=1, spec="{}", pool=POOL,
        enabled_since=now, through_at=now, next_at=now - timedelta(minutes=minutes), created_at=now, created_by="ada",
        updated_at=now, updated_by="ada",
    )  # fmt: skip
    change = ScheduleChange(
        schedule_id=row.id, at=now, act="created", by="ada", why="", version=1, before=None, after="{}"
    )
    await office.store.insert_schedule(row, change)


async def test_leases_are_reported_with_their_remaining_time(office: Office) -> None:
    viewer = office.caller(await office.token(Role.VIEWER, tenant="acme"))
    async with office.led():
        held = await look(viewer)
    given_up = await look(viewer)

    (lease,) = held.leases
    assert (lease.pool, lease.leader) == (POOL, office.engine.host.name)
    assert 0 < lease.seconds <= 5
    assert given_up.leases[0].seconds <= 0
    assert held.store_seconds is not None
    assert (held.name, held.version, held.store_fault) == (office.services.name, office.services.version, "")
    assert abs(held.ahead_seconds) < 1


async def test_overdue_schedules_are_reported_worst_first_and_per_tenant(office: Office) -> None:
    await add_overdue(office, "acme", 3)
    await add_overdue(office, "globex", 7)

    every, own = await look(await office.admin()), await look(await office.admin("acme"))

    assert [(one.tenant, one.schedule, round(one.seconds, -1)) for one in every.overdue] == [
        ("globex", "nightly", 420),
        ("acme", "nightly", 180),
    ]
    assert [one.tenant for one in own.overdue] == ["acme"]


async def test_server_addresses_require_access_to_all_tenants(office: Office) -> None:
    now = await office.store.time()
    row = ServerRow(name="a", address="http://10.1.2.3:8484", version="1", started_at=now, heard_at=now)
    await office.store.server_heard(row)

    every, own = await look(await office.admin()), await look(await office.admin("acme"))

    assert [one.address for one in every.servers] == [row.address]
    assert [(one.name, one.address) for one in own.servers] == [("a", "")]


async def test_an_unreachable_store_is_reported(local_office: Office) -> None:
    caller = local_office.caller()
    await local_office.store.close()

    found = await look(caller)

    assert (found.store_seconds, found.leases, found.servers) == (None, [], [])
    assert found.store_fault
