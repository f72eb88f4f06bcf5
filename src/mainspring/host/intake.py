"""Intake: moves submitted runs from the store into the shard, fairly and as fast as the shard has capacity.

A read may overlap a commit that adopts what it returns. So that no run is handed over twice, runs in transit are
remembered until a read that began after their commit. Until then they are read again, so that only P0 is read while
many are in transit. Actions on a run in transit are remembered by the shard (`Runs.override`).

A run submitted to this process skips the read if nothing of its priority or above waits in the store and there is ample
capacity: it starts two round trips to the store sooner. A read may find such a run before it is offered, so recently
adopted runs are remembered as well.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain

import structlog

from mainspring.background import wait_for
from mainspring.core.admission.intake import UNBOUNDED, IntakeRequest, Waiting, choose, plan_intake, tasks_in_transit
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.host.inbox import Inbox
from mainspring.host.job_cache import JobCache
from mainspring.protocol.errors import Broken, Unavailable
from mainspring.shard.events import RunArrived, RunUnreadable
from mainspring.shard.state.memory import ShardMemory
from mainspring.store.ports.store import Intake

log = structlog.get_logger()

HIGH_WATER_TASKS = 20_000
CHUNK_TASKS = 1_000
MAX_TENANTS = 1_000
FIRST_PAGE_TENANTS = 16
"""Tenants per priority of the first page: 1,000 take 9 ms."""
MAX_IN_TRANSIT = CHUNK_TASKS // 2
POLL_SECONDS = 1.0
MAX_OFFERED = 50
"""Runs per offer that may skip the read; more than that are distributed fairly by a read."""
MAX_REMEMBERED_ADOPTIONS = 2 * CHUNK_TASKS
"""Adopted runs that are remembered: a few turns' worth, since an offer comes shortly after the commit of its run."""
MIN_WAIT_SECONDS = 0.05
"""Limits the reads if the clocks of the store and of this process disagree about a start time."""


class IntakeReader:
    """Reads the intake of one shard for its leader."""

    def __init__(
        self, store: Intake, jobs: JobCache, inbox: Inbox, shard: str, store_time: Callable[[], datetime], *,
        memory: Callable[[], ShardMemory], hold: Callable[[], Priority | None],
    ) -> None:  # fmt: skip
        """`memory` returns the shard's memory, and `hold` the priority from which on work is held, if any."""
        self._store = store
        self._jobs = jobs
        self._inbox = inbox
        self._shard = shard
        self._store_time = store_time
        self._in_transit: dict[str, Run] = {}
        self._committed: set[str] = set()
        """Runs whose rows were committed since the latest read began."""
        self._after = ""
        """Where the next read continues, if there are too many tenants for one read."""
        self._remaining: Priority | None = Priority.P0
        """The highest priority that may have more runs in the store than the latest read handed over; None: none has.
        """
        self._has_new_work = True
        """Whether new work was announced since the latest read began."""
        self._offered: list[Run] = []
        """Runs offered during a read."""
        self._adopted: dict[str, None] = {}
        """Recently adopted runs."""
        self._is_reading = False
        self._memory = memory
        self._hold = hold
        self._wake = asyncio.Event()

    def offer(self, runs: Sequence[Run]) -> bool:
        """Take newly submitted runs without a read, all or none; False: they have to be read.

        Runs that are offered during a read wait for its end, so that they overtake nothing that the read finds.
        """
        if not runs or len(self._offered) + len(runs) > MAX_OFFERED or self._has_new_work:
            return False
        if self._is_reading:
            self._offered.extend(runs)
            return True
        return self._take(runs)

    def _take(self, runs: Sequence[Run]) -> bool:
        """Hand over runs without a read, all or none."""
        if not (self._may_skip_read(runs) and self._have_capacity(runs)):
            return False
        jobs = [job for run in runs if (job := self._jobs.cached(run.job_id)) is not None]
        if len(jobs) < len(runs):
            return False
        for run, job in zip(runs, jobs, strict=True):
            if run.id not in self._in_transit and run.id not in self._adopted:
                self._hand_over_run(run, job)
        return True

    def _may_skip_read(self, runs: Iterable[Run]) -> bool:
        """Return whether runs may start now and everything in the store has a lower priority."""
        limits = [limit for limit in (self._remaining, self._hold()) if limit is not None]
        return all(run.start_at <= run.created_at and all(run.priority < limit for limit in limits) for run in runs)

    def _have_capacity(self, runs: Sequence[Run]) -> bool:
        """Return whether the share of each run's tenant certainly has capacity for it."""
        marked = [run for run in runs if run.priority not in UNBOUNDED]
        if not marked:
            return True
        in_memory = self._memory().runs.unstarted
        coming = sum(run.task_count for run in chain(self._in_transit.values(), marked))
        tenants = sum(len(in_memory.tenants(priority)) for priority in Priority) + 1
        capacity = HIGH_WATER_TASKS // tenants - coming
        return all(in_memory.of(run.priority, run.tenant) <= capacity for run in marked)

    def wake(self) -> None:
        """Signal that there may be work."""
        self._has_new_work = True
        self._wake.set()

    def mark_committed(self, runs: Iterable[Run]) -> None:
        """Record that the rows of these runs are committed: they left intake, or changed.

        This may free capacity for waiting runs of the same or a lower priority.
        """
        for run in runs:
            self._committed.add(run.id)
            if self._remaining is not None and run.priority >= self._remaining:
                self._wake.set()
        if not self._is_reading:
            self._forget_committed()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            self._wake.clear()
            self._has_new_work = False
            wait = POLL_SECONDS
            try:
                if await self._read():
                    continue
                if not self._wake.is_set():
                    wait = await self._seconds_to_start()
            except Unavailable:
                self._has_new_work = True  # the announced work was not read
            except Broken as fault:  # an unreadable row: the runs in memory continue
                log.warning("intake.broken", shard=self._shard, fault=str(fault))
            await wait_for(self._wake, wait)

    async def _read(self) -> bool:
        """Hand over as many runs as there is capacity for; True if there were any, and there may be more."""
        self._forget_committed()
        self._is_reading = True
        try:
            return await self._read_waiting(self._memory(), self._hold())
        finally:
            self._is_reading = False
            offered, self._offered = self._offered, []
            if offered and not self._take(offered):
                self.wake()

    async def _read_waiting(self, memory: ShardMemory, hold: Priority | None) -> bool:
        """Read a short page of tenants first: usually there are no more, and P0 does not wait for a longer read."""
        below = Priority.P1 if len(self._in_transit) >= MAX_IN_TRANSIT else hold
        few = await self._list_waiting(below, FIRST_PAGE_TENANTS)
        if not _is_truncated(few, FIRST_PAGE_TENANTS):
            if below is None:
                self._after = ""
            return await self._hand_over(few, memory, None if below is None else Priority.P1)
        urgent = _urgent(few)
        others = Priority.P0 if _is_truncated(urgent, FIRST_PAGE_TENANTS) else Priority.P1
        if urgent:
            await self._hand_over(urgent, memory, others)
        waiting, is_all = await self._waiting(below, urgent)
        return await self._hand_over(waiting, memory, None if is_all and below is None else others)

    async def _hand_over(self, waiting: list[Waiting], memory: ShardMemory, others: Priority | None) -> bool:
        """Hand over as many of the waiting runs as there is capacity for; True if any, and there may be more.

        `others` is the highest priority at which other tenants may wait; None: there are none.
        """
        self._remaining = _most_urgent(others, *(one.priority for one in waiting))
        coming = tasks_in_transit(self._in_transit.values(), memory.runs)
        wants = plan_intake(waiting, memory.runs.unstarted, coming, HIGH_WATER_TASKS, CHUNK_TASKS)
        if not wants:
            return False
        asked = self._add_in_transit(wants)
        read = await self._store.intake(self._shard, asked)
        new = [run for run in read if run.id not in self._in_transit]
        fresh = choose(new, wants)
        self._remaining = _most_urgent(
            others,
            *_skipped_priorities(waiting, wants),
            *_truncated_priorities(asked, read),
            *_refused_priorities(new, fresh),
        )
        jobs, faults = await self._jobs.get(run.job_id for run in fresh)
        fresh = [run for run in fresh if run.id not in self._committed]
        for run in fresh:
            if run.job_id in jobs:
                self._hand_over_run(run, jobs[run.job_id])
            else:
                self._in_transit[run.id] = run
                self._inbox.put(RunUnreadable(run=run, fault=faults[run.job_id]), urgent=run.priority is Priority.P0)
        return bool(fresh) and self._remaining is not None

    def _hand_over_run(self, run: Run, job: Job) -> None:
        self._in_transit[run.id] = run
        self._inbox.put(RunArrived(run=run, job=job), urgent=run.priority is Priority.P0)

    def _forget_committed(self) -> None:
        """Forget runs in transit whose commit precedes the next read: that read no longer finds them."""
        for run_id in self._committed:
            if self._in_transit.pop(run_id, None) is not None:
                self._adopted[run_id] = None
        self._committed.clear()
        while len(self._adopted) > MAX_REMEMBERED_ADOPTIONS:
            del self._adopted[next(iter(self._adopted))]

    async def _seconds_to_start(self) -> float:
        """Return how long to wait without a signal: until the next delayed start, at most POLL_SECONDS."""
        start_at = await self._store.next_start(self._shard)
        if start_at is None:
            return POLL_SECONDS
        return min(max((start_at - self._store_time()).total_seconds(), MIN_WAIT_SECONDS), POLL_SECONDS)

    async def _waiting(self, below: Priority | None, urgent: list[Waiting]) -> tuple[list[Waiting], bool]:
        """Return tenants with readable intake, and whether these are all.

        With too many tenants for one read, each read continues where the last one ended. `urgent` are the P0 entries
        of the first page: all of them, unless the page is full.
        """
        after = self._after
        found = await self._list_waiting(below, MAX_TENANTS, after)
        is_all = not after and not _is_truncated(found, MAX_TENANTS)
        if after and (_is_truncated(urgent, FIRST_PAGE_TENANTS) or not _is_truncated(found, MAX_TENANTS)):
            first = await self._list_waiting(below, MAX_TENANTS)
            if not _is_truncated(first, MAX_TENANTS):
                self._after = ""
                return first, True
            urgent, found = _urgent(first), found or first
        counts = Counter(one.priority for one in found)
        self._after = max((one.tenant for one in found if counts[one.priority] >= MAX_TENANTS), default="")
        return list(dict.fromkeys([*urgent, *found])), is_all

    async def _list_waiting(self, below: Priority | None, max_tenants: int, after: str = "") -> list[Waiting]:
        """List tenants with readable intake, at most `max_tenants` per priority."""
        found = await self._store.waiting(self._shard, max_tenants, after)
        return [one for one in found if below is None or one.priority < below]

    def _add_in_transit(self, wants: list[IntakeRequest]) -> list[IntakeRequest]:
        """Ask for as many more runs as are in transit: those are read again."""
        handed = Counter((run.priority, run.tenant) for run in self._in_transit.values())
        return [
            IntakeRequest(want.priority, want.tenant, want.runs + handed[want.priority, want.tenant]) for want in wants
        ]


def _urgent(waiting: list[Waiting]) -> list[Waiting]:
    return [one for one in waiting if one.priority is Priority.P0]


def _is_truncated(found: list[Waiting], max_tenants: int) -> bool:
    """Return whether a priority may have more tenants than were listed."""
    return max(Counter(one.priority for one in found).values(), default=0) >= max_tenants


def _most_urgent(*priorities: Priority | None) -> Priority | None:
    """Return the highest of these priorities."""
    return min((one for one in priorities if one is not None), default=None)


def _skipped_priorities(waiting: list[Waiting], wants: list[IntakeRequest]) -> set[Priority]:
    """Return the priorities of waiting tenants whose runs are not requested."""
    wanted = {(want.priority, want.tenant) for want in wants}
    return {one.priority for one in waiting if (one.priority, one.tenant) not in wanted}


def _truncated_priorities(asked: list[IntakeRequest], read: list[Run]) -> set[Priority]:
    """Return the priorities of requests that got all they asked for: there may be more runs."""
    got = Counter((run.priority, run.tenant) for run in read)
    return {want.priority for want in asked if got[want.priority, want.tenant] >= want.runs}


def _refused_priorities(new: list[Run], chosen: list[Run]) -> set[Priority]:
    """Return the priorities of all runs read, if there was no capacity for some: there may be more of each."""
    return {run.priority for run in new} if len(chosen) < len(new) else set()
