"""Server health over the API, also while its store does not answer."""

from __future__ import annotations

from datetime import timedelta

import httpx2

from mainspring.api.auth.principal import Role
from mainspring.app.build import POOL
from mainspring.core.model.schedule_rows import ScheduleChange, ScheduleRow
from mainspring.protocol.rest.overviews import ServerHealthView
from mainspring.store.ports.front import ServerRow
from tests.api.api_harness import ApiHarness, read


async def look(caller: httpx2.AsyncClient) -> ServerHealthView:
    found: ServerHealthView = read(await caller.get("/api/v1/server-health"), ServerHealthView)
    return found


async def add_overdue(harness: ApiHarness, tenant: str, minutes: int) -> None:
    """Add an overdue schedule; no engine runs to fire it."""
    now = await harness.store.time()
    row = ScheduleRow(
        id=f"sched_{tenant}", tenant=tenant, name="nightly", job="etl", version=1, spec="{}", pool=POOL,
        enabled_since=now, planned_through=now, next_at=now - timedelta(minutes=minutes), created_at=now,
        created_by="ada",
        updated_at=now, updated_by="ada",
    )  # fmt: skip
    change = ScheduleChange(
        schedule_id=row.id, at=now, action="created", by="ada", why="", version=1, before=None, after="{}"
    )
    await harness.store.insert_schedule(row, change)


async def test_leases_are_reported_with_their_remaining_time(harness: ApiHarness) -> None:
    viewer = harness.caller(await harness.token(Role.VIEWER, tenant="acme"))
    async with harness.led():
        held = await look(viewer)
    given_up = await look(viewer)

    (lease,) = held.leases
    assert (lease.pool, lease.leader) == (POOL, harness.engine.host.name)
    assert 0 < lease.seconds <= 5
    assert given_up.leases[0].seconds <= 0
    assert held.store_seconds is not None
    assert (held.name, held.version, held.store_fault) == (
        harness.services.server.name,
        harness.services.server.version,
        "",
    )
    assert abs(held.ahead_seconds) < 1


async def test_overdue_schedules_are_reported_worst_first_and_per_tenant(harness: ApiHarness) -> None:
    await add_overdue(harness, "acme", 3)
    await add_overdue(harness, "globex", 7)

    every, own = await look(await harness.admin()), await look(await harness.admin("acme"))

    assert [(one.tenant, one.schedule, round(one.seconds, -1)) for one in every.overdue] == [
        ("globex", "nightly", 420),
        ("acme", "nightly", 180),
    ]
    assert [one.tenant for one in own.overdue] == ["acme"]


async def test_server_addresses_require_access_to_all_tenants(harness: ApiHarness) -> None:
    now = await harness.store.time()
    row = ServerRow(name="a", address="http://10.1.2.3:8484", version="1", started_at=now, last_heartbeat_at=now)
    await harness.store.record_server_heartbeat(row)

    every, own = await look(await harness.admin()), await look(await harness.admin("acme"))

    assert [one.address for one in every.servers] == [row.address]
    assert [(one.name, one.address) for one in own.servers] == [("a", "")]


async def test_an_unreachable_store_is_reported(local_harness: ApiHarness) -> None:
    caller = local_harness.caller()
    await local_harness.store.close()

    found = await look(caller)

    assert (found.store_seconds, found.leases, found.servers) == (None, [], [])
    assert found.store_fault
