"""Pool status over the API: read from the leader, without names of other tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import pytest

from mainspring.api.auth.principal import Role
from mainspring.app.build import POOL
from mainspring.core.admission.degradation import PARTIAL_AFTER_SECONDS
from mainspring.host.loop import Leader
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.sharing import LevelView, QueueView, TenantUseView
from tests.api.api_harness import ApiHarness, all_pages, problem, read, submit, until
from tests.host.host_harness import ScriptedWorker

LARGE: dict[str, object] = {
    "name": "large",
    "tasks": [{"name": "only", "resources": {"cpu_millis": 2_000, "memory_bytes": 2**20}}],
}


@asynccontextmanager
async def crowded(harness: ApiHarness) -> AsyncIterator[Leader]:
    """A worker with four cores and two tasks of acme; one more of acme and one of globex are queued."""
    acme, globex = await harness.admin("acme"), await harness.admin("globex")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        beating = asyncio.create_task(hand.beat())
        for _ in range(2):
            await submit(acme, LARGE)
            await hand.next_task()
        for caller in (acme, globex):
            await submit(caller, LARGE, priority="P1" if caller is acme else "P2")

        async def all_wait() -> bool:
            pool_status = await harness.services.leaders.pool_status(POOL)
            return sum(line.waiting for line in pool_status.queues) == 2

        await until(all_wait)
        yield leader
        beating.cancel()


async def queue(caller: httpx2.AsyncClient, **params: str) -> QueueView:
    """Return the queues."""
    found: QueueView = read(await caller.get("/api/v1/queue", params=params), QueueView)
    return found


async def test_the_queue_shows_capacity_and_queued_tasks(harness: ApiHarness) -> None:
    async with crowded(harness):
        found = await queue(await harness.admin(), pool=POOL)

    assert (found.pool, found.workers, found.dispatch_paused_from, found.stopping) == (POOL, 1, None, 0)
    assert (found.capacity.cpu, found.used.cpu) == (4.0, 4.0)
    assert [(line.priority, line.tenant, line.waiting) for line in found.queues] == [
        ("P1", "acme", 1),
        ("P2", "globex", 1),
    ]
    assert {name: count for name, count in found.waiting.items() if count} == {"P1": 1, "P2": 1}
    assert not any(found.intake.values())


async def test_other_tenants_are_shown_as_totals(harness: ApiHarness) -> None:
    async with crowded(harness):
        every, own = await queue(await harness.admin()), await queue(await harness.admin("acme"))
        answer = await (await harness.admin("acme")).get("/api/v1/use")

    assert {line.tenant for line in own.queues} == {"acme"}
    assert (own.waiting, own.used) == (every.waiting, every.used)
    assert [one.tenant for one in read(answer, Page[TenantUseView]).items] == ["acme"]


async def test_usage_and_limits_are_listed_by_tenant(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await everybody.put("/api/v1/tenants/acme/quota", json={"weight": 3, "guaranteed": {"cpu": 1}})
    await everybody.put("/api/v1/tenants/acme/p0-grant", json={})
    async with crowded(harness):
        pages = [page async for page in all_pages(everybody, "/api/v1/use", TenantUseView, limit=1)]
        own = read(await (await harness.admin("acme")).get("/api/v1/tenants/acme/use"), TenantUseView)
        idle = read(await everybody.get("/api/v1/tenants/nobody/use", params={"pool": POOL}), TenantUseView)

    acme, globex = [one for page in pages for one in page]
    assert (acme.tenant, acme.pool, acme.running, acme.use.cpu, acme.share) == ("acme", POOL, 2, 4.0, 1.0)
    assert (acme.is_on_burst, acme.p0, acme.quota.weight, acme.quota.guaranteed.cpu) == (True, True, 3.0, 1.0)
    assert (globex.tenant, globex.running, globex.use.cpu, globex.p0) == ("globex", 0, 0.0, False)
    assert acme.fair_share == pytest.approx(0.75)
    assert own == acme
    assert (idle.running, idle.share, idle.quota.weight) == (0, 0.0, 1.0)


async def test_another_tenants_usage_is_not_found(harness: ApiHarness) -> None:
    async with harness.led():
        problem(await (await harness.admin("globex")).get("/api/v1/tenants/acme/use"), 404)


async def test_without_a_leader_the_client_is_told_to_retry(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await harness.store.ensure_shard("lonely")

    for path in ("queue", "use", "tenants/acme/use"):
        assert problem(await everybody.get(f"/api/v1/{path}", params={"pool": "lonely"}), 503)["code"] == "not_leading"
        problem(await everybody.get(f"/api/v1/{path}", params={"pool": "never"}), 404)


async def test_a_cursor_of_another_list_is_rejected(harness: ApiHarness) -> None:
    async with harness.led():
        problem(await (await harness.admin()).get("/api/v1/use", params={"cursor": "WyJ4Il0"}), 422)


async def test_the_level_is_that_of_the_named_or_worst_pool(harness: ApiHarness) -> None:
    viewer = harness.caller(await harness.token(Role.VIEWER, tenant="acme"))
    for pool in (POOL, "lonely"):
        await harness.store.ensure_shard(pool)
    await harness.store.campaign(POOL, "other", 1, timedelta(hours=1))
    for _ in range(int(PARTIAL_AFTER_SECONDS) + 2):
        harness.clock.ahead += 1.0
        await harness.services.degradation.check_store()

    worst = read(await viewer.get("/api/v1/level"), LevelView)
    named = read(await viewer.get("/api/v1/level", params={"pool": POOL}), LevelView)

    assert (worst.pool, worst.level, worst.accepts, worst.shedding) == ("lonely", "partial", 0.0, "")
    assert (named.pool, named.level) == (POOL, "normal")
    problem(await viewer.get("/api/v1/level", params={"pool": "never"}), 404)
