"""Keeping the store small (OPS-7): finished runs move to history, old days and old rows go. And looking whether a task
can't be explained (STA-7), or a worker has been silent for long (LIV-1): what is found, the shard is told.

What is swept, and when, is `Retention` in `core/model/settings.py`. Days are dropped whole; the rest goes in chunks of
1,000 rows with a pause in between; nothing is ever deleted in one long statement. Runs are moved by the shard's own
batches: the sweep only names them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol

import structlog

from mainspring.core.model.settings import USUAL_RETENTION, Retention
from mainspring.host.background import Steps
from mainspring.host.loop import Leader
from mainspring.host.maintenance.worker_watch import UNHEARD_AT_ONCE, claimant_unheard_after, unheard_after
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.shard.events import Audited, RunsAged, WorkerUnheard
from mainspring.store.ports.front import Liveness
from mainspring.store.ports.store import Pruned, Sweeps

log = structlog.get_logger()

DAYS_AHEAD = 7
RUNS_AT_ONCE = 100
LOOK_SECONDS = 10.0
PRUNE_EVERY_LOOKS = 30
NOTE_EVERY_LOOKS = 6
PAUSE_SECONDS = 0.1
MOST_CHUNKS = 100


class Swept(Sweeps, Liveness, Protocol):
    """The parts of the store that are swept."""


class Sweeper:
    """One host's part in the sweeping. Two hosts that sweep at once do no harm."""

    def __init__(
        self,
        store: Swept,
        clock: Clock,
        leaders: Callable[[], list[Leader]],
        retention: Callable[[], Retention] = lambda: USUAL_RETENTION,
        note_ends: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`retention` is asked anew each time, `note_ends` looks for ends of scheduled runs that nobody has noted."""
        self._store = store
        self._clock = clock
        self._leaders = leaders
        self._retention = retention
        self._note_ends = note_ends
        self._looks = 0

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.sweep()
            except Unavailable as fault:
                log.warning("sweep.unavailable", fault=str(fault))
            await self._clock.sleep(LOOK_SECONDS)

    async def sweep(self) -> None:
        """Do what is due in this pass. A step that fails does not stop the others; raises its error after them."""
        looks, self._looks = self._looks, self._looks + 1
        steps = Steps()
        for leader in self._leaders():
            leader.inbox.put(Audited())
            await steps.attempt(self.name_unheard(leader))
            await steps.attempt(self.age_runs(leader))
        if looks % NOTE_EVERY_LOOKS == 0 and self._note_ends is not None:
            await steps.attempt(self._note_ends())
        if looks % PRUNE_EVERY_LOOKS == 0:
            await steps.attempt(self.prune())
        steps.check()

    async def age_runs(self, leader: Leader) -> int:
        """Name the runs that have stayed their time; the shard moves them. How many there were."""
        runs = await self._store.ended_runs(leader.term.shard, self._retention().stay(), RUNS_AT_ONCE)
        if runs:
            leader.inbox.put(RunsAged(run_ids=tuple(runs)))
        return len(runs)

    async def name_unheard(self, leader: Leader) -> int:
        """Tell the shard which workers nobody has noted for long; how many there were."""
        silent, claimant_silent = unheard_after(leader.tuning), claimant_unheard_after(leader.tuning)
        rows = await self._store.unheard(leader.term.shard, silent, UNHEARD_AT_ONCE, claimant_silent)
        for row in rows:
            leader.inbox.put(WorkerUnheard(row=row))
        return len(rows)

    async def prune(self) -> list[Pruned]:
        """Make room for the days to come, and take away what is past its time."""
        steps = Steps()
        await steps.attempt(self._store.prepare_days(DAYS_AHEAD))
        taken: list[Pruned] = []
        for what, age in self._retention().ages().items():
            await steps.attempt(self._prune(what, age, taken))
        steps.check()
        return taken

    async def _prune(self, what: str, age: timedelta, taken: list[Pruned]) -> None:
        for _ in range(MOST_CHUNKS):
            pruned = await self._store.prune(what, age)
            taken.append(pruned)
            if not pruned.more:
                return
            await self._clock.sleep(PAUSE_SECONDS)
