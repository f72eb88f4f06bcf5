"""Maintenance passes: archive finished runs, prune old rows and partitions (OPS-7), and report to the shards what needs
a check: invariants (STA-7) and silent workers (LIV-1).

Retention is set in `core/model/settings.py`. Partitions of a day are dropped; other rows are deleted in chunks of 1,000
with a pause in between, never in one long statement. Runs are archived by the shard's own batches: the sweeper only
requests it.
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
    """The parts of the store that the sweeper uses."""


class Sweeper:
    """Runs maintenance passes on one host. Passes of several hosts may overlap."""

    def __init__(
        self,
        store: Swept,
        clock: Clock,
        leaders: Callable[[], list[Leader]],
        retention: Callable[[], Retention] = lambda: USUAL_RETENTION,
        note_ends: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`retention` is called for each pass; `note_ends` processes missed ends of scheduled runs."""
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
        """Run the steps that are due in this pass. Errors are raised after all steps."""
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
        """Ask the shard to archive the runs whose retention has ended; return their number."""
        runs = await self._store.ended_runs(leader.term.shard, self._retention().stay(), RUNS_AT_ONCE)
        if runs:
            leader.inbox.put(RunsAged(run_ids=tuple(runs)))
        return len(runs)

    async def name_unheard(self, leader: Leader) -> int:
        """Report workers without a recent heartbeat to the shard; return their number."""
        silent, claimant_silent = unheard_after(leader.tuning), claimant_unheard_after(leader.tuning)
        rows = await self._store.unheard(leader.term.shard, silent, UNHEARD_AT_ONCE, claimant_silent)
        for row in rows:
            leader.inbox.put(WorkerUnheard(row=row))
        return len(rows)

    async def prune(self) -> list[Pruned]:
        """Create the partitions of the next days, and delete what is past its retention."""
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
