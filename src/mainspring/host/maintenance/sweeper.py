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

from mainspring.background import Steps, repeat
from mainspring.core.model.settings import DEFAULT_RETENTION, Retention
from mainspring.host.loop import Leader
from mainspring.host.maintenance.worker_watch import MAX_SILENT_WORKERS, claimant_silent_after, silent_after
from mainspring.protocol.clock import Clock
from mainspring.shard.events import InvariantsDue, RunsExpired, WorkerSilent
from mainspring.store.ports.front import Liveness
from mainspring.store.ports.store import Sweeps

DAYS_AHEAD = 7
RUNS_PER_PASS = 100
POLL_SECONDS = 10.0
PRUNE_EVERY_PASSES = 30
CATCH_UP_EVERY_PASSES = 6
PAUSE_SECONDS = 0.1
MAX_CHUNKS = 100


class SweptStore(Sweeps, Liveness, Protocol):
    """The parts of the store that the sweeper uses."""


class Sweeper:
    """Runs maintenance passes on one host. Passes of several hosts may overlap."""

    def __init__(
        self,
        store: SweptStore,
        clock: Clock,
        leaders: Callable[[], list[Leader]],
        retention: Callable[[], Retention] = lambda: DEFAULT_RETENTION,
        record_run_ends: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`retention` is called for each pass; `record_run_ends` processes missed ends of scheduled runs."""
        self._store = store
        self._clock = clock
        self._leaders = leaders
        self._retention = retention
        self._record_run_ends = record_run_ends
        self._passes = 0

    async def run(self) -> None:
        """Sweep until cancelled."""
        await repeat(self.sweep, self._clock, POLL_SECONDS, "sweep.unavailable")

    async def sweep(self) -> None:
        """Run the steps that are due in this pass. Errors are raised after all steps."""
        passes, self._passes = self._passes, self._passes + 1
        steps = Steps()
        for leader in self._leaders():
            leader.inbox.put(InvariantsDue())
            await steps.attempt(self.report_silent_workers(leader))
            await steps.attempt(self.archive_runs(leader))
        if passes % CATCH_UP_EVERY_PASSES == 0 and self._record_run_ends is not None:
            await steps.attempt(self._record_run_ends())
        if passes % PRUNE_EVERY_PASSES == 0:
            await steps.attempt(self.prune())
        steps.check()

    async def archive_runs(self, leader: Leader) -> int:
        """Ask the shard to archive the runs whose retention has ended; return their number."""
        runs = await self._store.ended_runs(leader.term.shard, self._retention().stay(), RUNS_PER_PASS)
        if runs:
            leader.inbox.put(RunsExpired(run_ids=tuple(runs)))
        return len(runs)

    async def report_silent_workers(self, leader: Leader) -> int:
        """Report workers without a recent heartbeat to the shard; return their number."""
        settings = leader.scheduler_settings
        silent, claimant_silent = silent_after(settings), claimant_silent_after(settings)
        rows = await self._store.silent_workers(leader.term.shard, silent, MAX_SILENT_WORKERS, claimant_silent)
        for row in rows:
            leader.inbox.put(WorkerSilent(row=row))
        return len(rows)

    async def prune(self) -> None:
        """Create the partitions of the next days, and delete what is past its retention."""
        steps = Steps()
        await steps.attempt(self._store.prepare_days(DAYS_AHEAD))
        for what, age in self._retention().ages().items():
            await steps.attempt(self._prune(what, age))
        steps.check()

    async def _prune(self, what: str, age: timedelta) -> None:
        for _ in range(MAX_CHUNKS):
            if not (await self._store.prune(what, age)).more:
                return
            await self._clock.sleep(PAUSE_SECONDS)
