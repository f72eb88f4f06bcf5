"""Degradation level of each pool, as one server sees it, and its effect on submissions (HA-5, ADM-6).

    every second   check the store: does it answer, which shards have no leader, do leaders here hold work back
    every 2 s      count the waiting runs of each pool; less often if counting is slow

For admission:

    verdict(pool, priority)    accept, slow down, shed (429) or close (503) (`core/admission/backpressure.py`)
    part(pool, priority)       factor for the normal rate limits: 1.0, 0.5, ..
    of(pool), now()            the level of a pool, and the worst level of all pools
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import structlog

from mainspring.core.admission.backpressure import Verdict, decide_admission, shed_classes
from mainspring.core.admission.degradation import PoolLevel, PoolObservation, accepted_fraction, decide_level
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.core.model.task import Priority
from mainspring.host.batch_sizer import HOLD_P2_SECONDS
from mainspring.host.loop import Leader
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.sharing import SharedLimits
from mainspring.store.ports.store import Leases

log = structlog.get_logger()

POLL_SECONDS = 1.0
ANSWER_TIMEOUT_SECONDS = 2.0
"""Timeout of a check of the store."""
COUNT_SECONDS = 2.0
COUNT_TIME_DIVISOR = 20
"""Counting takes at most 1/20 of the time."""
_UNKNOWN = ""
"""The entry for pools that have not been seen yet: only the state of the store counts for them."""


class MonitoredStore(Leases, SharedLimits, Protocol):
    """The parts of the store that are monitored."""


class DegradationMonitor:
    """The degradation levels of all pools, as one server sees them."""

    def __init__(
        self, store: MonitoredStore, clock: Clock, leaders: Callable[[], Mapping[str, Leader]] = dict,
        scheduler_settings: Callable[[], SchedulerSettings] = lambda: DEFAULTS,
    ) -> None:  # fmt: skip
        """`scheduler_settings` is called for each decision."""
        self._store = store
        self._clock = clock
        self._leaders = leaders
        self._scheduler_settings = scheduler_settings
        self._levels = {_UNKNOWN: PoolLevel(since=clock.monotonic())}
        self._waiting: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        self._checked_at = clock.monotonic()
        self._slow_checks = 0
        """Consecutive slow checks."""
        self._silent_seconds: float | None = None
        """Seconds since the first check that the store did not answer; None: it answers."""
        self._leaderless: dict[str, float] = {}
        """Pools without a leader: seconds since that was first seen."""

    # for admission

    def now(self) -> PoolLevel:
        """Return the worst level of any pool."""
        return max(self._levels.values(), key=lambda level: level.severity)

    def of(self, pool: str) -> PoolLevel:
        """Return the level of a pool."""
        return self._levels.get(pool) or self._levels[_UNKNOWN]

    def pools(self) -> Mapping[str, PoolLevel]:
        """Return the level of each known pool."""
        return {pool: level for pool, level in self._levels.items() if pool != _UNKNOWN}

    def waiting(self, pool: str) -> int:
        """Return the number of waiting runs of a pool, as last counted."""
        return self._waiting.get(pool, 0)

    def shedding(self, pool: str) -> str:
        """Describe what a pool refuses or slows down because of its backlog; empty: nothing."""
        return shed_classes(self.waiting(pool), self._scheduler_settings())

    def part(self, pool: str, priority: Priority) -> float:
        """Return the factor for the normal rate limits of a priority."""
        return accepted_fraction(self.of(pool), priority)

    def verdict(self, pool: str, priority: Priority) -> Verdict:
        """Decide on a submission. Call once for each: shedding half of the P2 submissions means every second call."""
        scheduler_settings, waiting = self._scheduler_settings(), self.waiting(pool)
        turn = self._turns.get(pool, 0)
        if priority is Priority.P2 and waiting >= scheduler_settings.shed_half_p2_at:
            self._turns[pool] = turn + 1
        return decide_admission(
            priority, pool=pool, waiting=waiting, turn=turn, scheduler_settings=scheduler_settings, level=self.of(pool)
        )

    # monitoring

    async def run(self) -> None:
        """Monitor until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._count_loop())
            while True:
                await self.check_store()
                await self._clock.sleep(POLL_SECONDS)

    async def check_store(self) -> None:
        """Check whether the store answers, and which shards have a leader."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                rows = await self._store.shards()
                now = await self._store.time()
        except (Unavailable, TimeoutError) as fault:
            log.warning("degradation.store_unavailable", fault=str(fault))
            passed = self._seconds_since_check()
            self._silent_seconds = 0.0 if self._silent_seconds is None else self._silent_seconds + passed
            self._leaderless.clear()
            self._decide(self._levels.keys())
            return
        passed = self._seconds_since_check()
        self._silent_seconds = None
        self._slow_checks = self._slow_checks + 1 if self._clock.monotonic() - began > HOLD_P2_SECONDS else 0
        lost = [row.id for row in rows if row.lease_until <= now]
        self._leaderless = {pool: self._leaderless.get(pool, -passed) + passed for pool in lost}
        self._decide(row.id for row in rows)

    def _seconds_since_check(self) -> float:
        """Return the seconds since the last check, capped: a process that was stopped can't have seen failures."""
        at = self._clock.monotonic()
        passed, self._checked_at = at - self._checked_at, at
        return min(passed, POLL_SECONDS + ANSWER_TIMEOUT_SECONDS)

    def _decide(self, pools: Iterable[str]) -> None:
        at = self._clock.monotonic()
        for pool in sorted({_UNKNOWN, *pools}):
            before = self.of(pool)
            seen = PoolObservation(
                silent_seconds=self._silent_seconds or 0.0,
                leaderless_seconds=self._leaderless.get(pool, 0.0),
                trouble=self._trouble(pool),
            )
            level = self._levels[pool] = decide_level(before, seen, at)
            if level.degree is not before.degree and pool != _UNKNOWN:
                say = log.warning if level.severity > before.severity else log.info
                say("degradation.level_changed", pool=pool, level=level.degree.value, because=level.why)

    def _trouble(self, pool: str) -> str:
        leader = self._leaders().get(pool)
        if leader is not None and leader.batch_sizer.hold is not None:
            return f"the store is slow; {leader.batch_sizer.hold.name} and lower priorities are held"
        if self._slow_checks > 1:
            return "the store is slow"
        if self.waiting(pool) >= self._scheduler_settings().shed_half_p2_at:
            return "too many runs are waiting"
        return ""

    # counting

    async def _count_loop(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                await self.count()
            except Unavailable as fault:
                log.warning("degradation.store_unavailable", fault=str(fault))
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(COUNT_SECONDS, COUNT_TIME_DIVISOR * took))

    async def count(self) -> None:
        """Count the waiting runs of each pool. Raises Unavailable."""
        most = self._scheduler_settings().slow_p1_at
        for pool in sorted(self.pools()):
            in_intake = await self._store.count_intake(pool, most)
            self._waiting[pool] = sum(in_intake.values()) + self._waiting_in_memory(pool)

    def _waiting_in_memory(self, pool: str) -> int:
        """Estimate the runs in the memory of a leader here that have queued tasks; an upper bound."""
        leader = self._leaders().get(pool)
        if leader is None:
            return 0
        memory = leader.shard.memory
        return min(len(memory.runs), sum(memory.queues.depth.values()))
