"""Rule operators: quotas, P0 grants, freezes, groups, policies, the pool.

They write through the port, as the API does. After the faults they remove all restrictions, so that everything can end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from mainspring.core.fairness.capacity_bookings import Booking
from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import Ceiling, P0Grant, Quota, QuotaOverride, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.resources import Resources
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import Store
from tests.sim.server import SHARD
from tests.sim.store import HostStore

if TYPE_CHECKING:
    from tests.sim.world import World

GROUPS = ("license", "partner")
LARGEST = Resources(cpu_millis=2000, memory_bytes=2 << 30)
"""The largest request of a task, which quotas allow after the faults."""
_EU = {"region": "eu"}


class RuleOperators:
    """Change rules at random times, and once more after the faults."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"rulers:{world.mix.seed}")
        self._store = cast("Store", HostStore(world, "rulers"))
        self._decided = 0
        self._let_go = False

    async def run(self) -> None:
        """Change rules at random times; some of them before anything else happens."""
        world, random, mix = self._world, self._random, self._world.mix.sharing
        acts: list[Callable[[], Coroutine[Any, Any, Any]]] = [self._set_quota] * mix.quotas
        acts += [self._freeze] * mix.freezes + [self._define] * mix.group_acts + [self._describe] * mix.policies
        acts += [self._grant] * mix.grants
        times = sorted(random.choice((0.05, 1.0)) * random.uniform(1.0, world.mix.chaos_seconds) for _ in acts)
        random.shuffle(acts)
        for at, action in zip(times, acts, strict=True):
            await asyncio.sleep(max(0.0, at - world.loop.now))
            world.loop.create_task(self._decide(action))

    def resolve_faults(self) -> None:
        """Remove freezes, policies and small limits. Repeated for servers that missed it."""
        self._world.loop.create_task(self._resolve_faults(), context=self._world.loop.outside)

    async def _decide(self, action: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            await action()
        except Unavailable:
            return  # The outcome is visible in the rules.
        self._world.trace.note("ruled", action.__name__.strip("_"))
        self._refresh()

    def _refresh(self) -> None:
        """Let the called server read the rules immediately, if it still runs."""
        server = self._random.choice(self._world.servers)
        if server.rules is not None and not server.process.dead:
            self._world.loop.create_task(_quietly(server.rules.refresh), context=server.process.context)

    async def _resolve_faults(self) -> None:
        try:
            rules = await self._store.rules()
            for frozen in rules.freezes:
                await self._store.unfreeze(frozen.kind, frozen.subject, self._entry("unfreeze"))
            for policy in rules.policies:
                await self._store.drop_policy(policy.name, self._entry("drop_policy"))
            for pool in rules.pools:
                if pool.zones:
                    await self._store.put_pool(_pool({}, ()), None, self._entry("put_pool"))
            for row in rules.quotas:
                if _is_too_small(row.quota) or row.raised is not None or row.bookings:
                    await self._store.put_quota(_quota(row.tenant, row.pool, _enough(row.quota), None), None,
                                                self._entry("put_quota"))  # fmt: skip
            for group in rules.groups:
                if group.per_seconds is not None:
                    await self._store.drop_group(group.tenant, group.name, self._entry("drop_group"))
        except Unavailable:
            return

    def _entry(self, action: str) -> AuditEntry:
        self._decided += 1
        return AuditEntry(
            id=f"req_rule{self._decided:06}",
            tenant="everybody",
            actor="person:ruler",
            source="",
            action=action,
            object="",
        )

    def _tenant(self) -> str:
        return f"tenant{self._random.randrange(self._world.mix.tenants)}"

    # quotas

    async def _set_quota(self) -> None:
        random = self._random
        tenant, pool = self._tenant(), random.choice(("", SHARD, SHARD))
        if random.random() < 0.15:
            await self._store.drop_quota(tenant, pool, self._entry("drop_quota"))
            return
        raised = None
        if random.random() < 0.25:
            until = self._world.store_clock.wall() + timedelta(seconds=random.choice((5.0, 40.0, 120.0)))
            raised = QuotaOverride(quota=self._draw_quota(), until=until, by="person:ruler", why="a rush")
        row = replace(_quota(tenant, pool, self._draw_quota(), raised), bookings=self._draw_bookings())
        await self._store.put_quota(row, None, self._entry("put_quota"))

    def _draw_bookings(self) -> tuple[Booking, ...]:
        """Bookings that begin and end within a seed."""
        if self._random.random() >= self._world.mix.sharing.bookings:
            return ()
        lead, cpu_millis = self._random.choice((0, 5)), self._random.choice((2000, 8000))
        promised = Resources(cpu_millis=cpu_millis)
        return (Booking(name="b", cron="* * * * *", zone="UTC", seconds=20, lead_seconds=lead, guaranteed=promised),)

    async def _grant(self) -> None:
        tenant = self._tenant()
        if self._random.random() < 0.4:
            await self._store.revoke_p0(tenant, self._entry("revoke_p0"))
            return
        until = self._world.store_clock.wall() + timedelta(seconds=self._random.choice((5.0, 60.0, 600.0)))
        row = P0Grant(tenant=tenant, by="person:ruler", why="", since=EPOCH, until=until)
        await self._store.grant_p0(row, self._entry("grant_p0"))

    def _draw_quota(self) -> Quota:
        random, mix = self._random, self._world.mix.sharing
        promised = Resources()
        if mix.promises and random.random() < 0.7:
            promised = Resources(
                cpu_millis=random.choice((0, 1000, 4000, 8000)), memory_bytes=random.choice((0, 0, 256 << 20))
            )
        burst, most = Ceiling(), None
        if mix.ceilings:
            burst = random.choice((Ceiling(), Ceiling(cpu_millis=2000), Ceiling(cpu_millis=500, memory_bytes=1 << 28)))
            most = random.choice((None, None, 1, 3, 8))
        failures = random.choice((3, 1_000)) if mix.budgets else 1_000
        weight = random.choice((0.5, 1.0, 1.0, 4.0))
        return Quota(weight=weight, max_tasks=most, guaranteed=promised, burst=burst, failures_per_hour=failures)

    # freezes

    async def _freeze(self) -> None:
        random, model = self._random, self._world.checker.model
        jobs = sorted({f"{run.tenant}/{model.job_of(run.id).spec.name}" for run in model.runs.values()})
        kind = random.choice((FreezeKind.ALL, FreezeKind.POOL, FreezeKind.TENANT, FreezeKind.TENANT, FreezeKind.JOB))
        subjects = {
            FreezeKind.ALL: "", FreezeKind.POOL: random.choice((SHARD, "elsewhere")),
            FreezeKind.TENANT: self._tenant(), FreezeKind.JOB: random.choice(jobs or ["nobody/nothing"]),
        }  # fmt: skip
        if random.random() < 0.3:
            await self._store.unfreeze(kind, subjects[kind], self._entry("unfreeze"))
            return
        seconds = random.choice((3.0, 15.0, 40.0))
        until = self._world.store_clock.wall() + timedelta(seconds=seconds)
        forever = kind in (FreezeKind.TENANT, FreezeKind.JOB) and random.random() < 0.5
        row = FreezeRow(kind=kind, subject=subjects[kind], by="person:ruler", why="", since=EPOCH,
                        until=None if forever else until)  # fmt: skip
        await self._store.freeze(row, self._entry("freeze"))

    # groups

    async def _define(self) -> None:
        random = self._random
        tenant, name = self._tenant(), random.choice(GROUPS[: self._world.mix.sharing.groups])
        if random.random() < 0.15:
            await self._store.drop_group(tenant, name, self._entry("drop_group"))
            return
        per_seconds = random.choice((None, None, 2.0, 10.0))
        row = GroupRow(tenant=tenant, name=name, most=random.choice((1, 2, 5)), per_seconds=per_seconds, note="",
                       version=0, updated_at=EPOCH, updated_by="person:ruler")  # fmt: skip
        await self._store.put_group(row, None, self._entry("put_group"))

    # policies and the pool

    async def _describe(self) -> None:
        random = self._random
        match random.randrange(4):
            case 0:
                row = Policy(name="residency", label="eu_data", value="", requires=msgspec.json.encode(_EU).decode(),
                             note="", version=0, updated_at=EPOCH, updated_by="person:ruler")  # fmt: skip
                await self._store.put_policy(row, None, self._entry("put_policy"))
            case 1:
                await self._store.drop_policy("residency", self._entry("drop_policy"))
            case _:
                zones = random.choice(((), (), ("z0",), ("z1",), ("z0", "z1")))
                await self._store.put_pool(_pool(random.choice(({}, _EU)), zones), None, self._entry("put_pool"))


async def _quietly(call: Callable[[], Awaitable[object]]) -> None:
    try:
        await call()
    except Unavailable:
        return  # It reads them within a second anyway.


def _pool(labels: dict[str, str], zones: tuple[str, ...]) -> PoolRow:
    return PoolRow(
        name=SHARD, labels=msgspec.json.encode(labels).decode(), zones=zones, max_resources=None, note="", version=0,
        updated_at=EPOCH, updated_by="person:ruler",
    )  # fmt: skip


def _quota(tenant: str, pool: str, quota: Quota, raised: QuotaOverride | None) -> QuotaRow:
    return QuotaRow(
        tenant=tenant, pool=pool, quota=quota, raised=raised, version=0, updated_at=EPOCH, updated_by="person:ruler"
    )


def _is_too_small(quota: Quota) -> bool:
    return quota != _enough(quota)


def _enough(quota: Quota) -> Quota:
    """The same quota, with which any task can start."""
    burst = {
        name: None if most is None else max(most, getattr(LARGEST, name) or 0)
        for name, most in msgspec.structs.asdict(quota.burst).items()
    }
    return msgspec.structs.replace(quota, burst=Ceiling(**burst))
