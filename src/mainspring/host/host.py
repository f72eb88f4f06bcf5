"""A host: acquires the leases of shards without a leader, leads them, and hands them over (HA-1, HA-2).

Any number of hosts share one store; each shard has one leader at a time, by a lease in the store. A host that stops
cleanly releases its leases, so that another takes over at once; a host that dies is replaced when its leases expire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from mainspring.background import BackgroundLoops, wait_for
from mainspring.core.fairness.sharing_rules import AllRules, rules_for
from mainspring.core.model.run import Run
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.host.introspection_budget import IntrospectionBudget
from mainspring.host.job_cache import JobCache
from mainspring.host.loop import Leader
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Fenced, NotLeading, Unavailable
from mainspring.store.ports.store import ShardRow, Store

log = structlog.get_logger()

LEASE = timedelta(seconds=5)
POLL_SECONDS = 0.5
"""Interval of the checks for shards without a leader; a clean handover takes about as long."""


class Host:
    """Leader election and leadership on one server."""

    def __init__(
        self, store: Store, clock: Clock, name: str, draw_nonce: Callable[[], int], lease: timedelta = LEASE,
        scheduler_settings: SchedulerSettings = DEFAULTS, *, background: BackgroundLoops | None = None,
        on_lead: Callable[[Leader], None] = lambda leader: None,
    ) -> None:  # fmt: skip
        """`background` has all background loops of this server. `on_lead` is called with each new leader before its
        first turn."""
        self.name = name
        self.leaders: dict[str, Leader] = {}
        self._store = store
        self._clock = clock
        self.background = background or BackgroundLoops(clock)
        self.introspection_budget = IntrospectionBudget(clock)
        self._draw_nonce = draw_nonce
        self._lease = lease
        self._scheduler_settings = scheduler_settings
        self._jobs = JobCache(store)
        self._leading: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._on_lead = on_lead
        store.on_work(self._wake)

    def leader(self, shard: str) -> Leader:
        """Return the leader of a shard if it is on this host. Raises NotLeading."""
        leader = self.leaders.get(shard)
        if leader is None:
            raise NotLeading(f"{self.name} does not lead {shard}")
        return leader

    def update_settings(self, scheduler_settings: SchedulerSettings) -> None:
        """Apply new settings: in effect for leaders from their next turn, and for later leaders (OPS-5).

        Timers that were set with the old settings may still fire once (`ShardMemory.retune`).
        """
        self._scheduler_settings = scheduler_settings
        for leader in self.leaders.values():
            leader.update_settings(scheduler_settings)

    def set_rules(self, rules: AllRules) -> None:
        """Apply new sharing rules: in effect for leaders from their next turn. Later leaders read them."""
        for shard, leader in self.leaders.items():
            leader.set_rules(rules_for(shard, rules))

    async def run(self) -> None:
        """Run until `stop`, or until cancelled; cancellation is like a crash: nothing is handed over."""
        try:
            await self.background.supervise("leadership", self._campaign_loop, until=self._stopping)
            for leader in list(self.leaders.values()):
                leader.stop()
            await asyncio.gather(*self._leading.values(), return_exceptions=True)
        finally:
            for leading in self._leading.values():
                leading.cancel()

    def stop(self) -> None:
        """Finish the current turns, release all leases, and end `run`."""
        self._stopping.set()

    async def _campaign_loop(self) -> None:
        while not self._stopping.is_set():
            await self._campaign_for_free_shards()
            await wait_for(self._stopping, POLL_SECONDS)

    async def _campaign_for_free_shards(self) -> None:
        """Campaign for every shard whose lease has expired."""
        try:
            rows = await self._store.shards()
            now = await self._store.time()
            for row in rows:
                if row.id not in self._leading and row.lease_until <= now:
                    await self._campaign(row)
        except Unavailable as fault:
            log.warning("campaign.store_unavailable", host=self.name, fault=str(fault))

    async def _campaign(self, row: ShardRow) -> None:
        began = self._clock.monotonic()
        term = await self._store.campaign(row.id, self.name, self._draw_nonce(), self._lease)
        if term is None:
            return
        leader = Leader(
            self._store, self._clock, term, self._lease, self._jobs, began=began,
            scheduler_settings=self._scheduler_settings, background=self.background,
        )  # fmt: skip
        self.leaders[row.id] = leader
        self._on_lead(leader)
        log.info("lead.begun", host=self.name, shard=row.id, epoch=term.epoch)
        self._leading[row.id] = asyncio.create_task(self._lead(leader))

    async def _lead(self, leader: Leader) -> None:
        shard = leader.term.shard
        try:
            await leader.lead()
            await self._store.release(leader.term)
            log.info("lead.released", host=self.name, shard=shard, epoch=leader.term.epoch)
        except Fenced as fault:
            log.warning("lead.lost", host=self.name, shard=shard, epoch=leader.term.epoch, fault=str(fault))
        except Unavailable as fault:
            log.warning("lead.not_released", host=self.name, shard=shard, fault=str(fault))
        except Exception as fault:
            log.exception("lead.broken", host=self.name, shard=shard, epoch=leader.term.epoch, fault=repr(fault))
        finally:
            del self.leaders[shard], self._leading[shard]

    def _wake(self, shard: str, runs: Sequence[Run]) -> None:
        leader = self.leaders.get(shard)
        if leader is not None and not leader.intake.offer(runs):
            leader.intake.wake()
