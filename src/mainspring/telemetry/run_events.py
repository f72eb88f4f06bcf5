"""Starts and ends of runs and attempts from committed batches, for the exporters (OpenTelemetry, OpenLineage).

    leader ──committed(batch)──► bounded queue ──► exporter

Best effort: exporting never delays a leader. Events that a full queue does not take are counted and dropped, and a
crash loses the queue. Messages that must arrive go through the outbox (webhooks, alerts).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec
import structlog

from mainspring.core.model.batch import Batch
from mainspring.core.model.run import FINAL_RUN, Run
from mainspring.core.model.task import Attempt
from mainspring.host.loop import Leader

log = structlog.get_logger()

MAX_WAITING = 20_000
MAX_EVENTS_PER_CALL = 500
_MAX_REMEMBERED_RUNS = 100_000


class RunStarted(msgspec.Struct, frozen=True, gc=False):
    """A run was adopted. May be repeated after a change of leaders."""

    run: Run
    job: str


class AttemptFinished(msgspec.Struct, frozen=True, gc=False):
    """A started attempt ended."""

    attempt: Attempt
    job: str
    task: str
    """The task's name."""


class RunEnded(msgspec.Struct, frozen=True, gc=False):
    """A run ended."""

    run: Run
    job: str


TelemetryEvent: TypeAlias = RunStarted | AttemptFinished | RunEnded


class Exporter(Protocol):
    """Exports events to another system."""

    def export(self, events: Sequence[TelemetryEvent]) -> None:
        """Export events in order. Called in a thread; may be slow, and may fail."""
        ...

    def close(self) -> None:
        """Flush and close."""
        ...


class RunEventQueue:
    """One server's queue of events to export."""

    def __init__(self, exporters: Sequence[Exporter], max_queued: int = MAX_WAITING) -> None:
        self._exporters = exporters
        self._waiting: asyncio.Queue[TelemetryEvent] = asyncio.Queue(max_queued)
        self._started: OrderedDict[str, None] = OrderedDict()
        self.dropped = 0
        """Events dropped because the queue was full."""

    def follow(self, leader: Leader) -> None:
        """Queue events of a leader's commits."""

        def committed(batch: Batch, _seconds: float) -> None:
            for event in self.events_of(leader, batch):
                self._put(event)

        leader.add_listener(committed)

    def events_of(self, leader: Leader, batch: Batch) -> Iterator[TelemetryEvent]:
        """Yield the events of a batch: starts of runs, attempts, ends of runs."""
        jobs = {run.id: leader.job_name(run.job_id) or "" for run in batch.runs}
        for run in batch.runs:
            if run.adopted_at is not None and run.id not in self._started:
                self._remember(run.id)
                yield RunStarted(run, jobs[run.id])
        names = {change.task.id: change.task.name for change in batch.tasks}
        for attempt in batch.attempts:
            if attempt.started_at is not None:
                job = jobs.get(attempt.run_id)
                if job is None:
                    memory = leader.shard.memory.runs.get(attempt.run_id)
                    job = memory.job.spec.name if memory is not None else ""
                yield AttemptFinished(attempt, job, names.get(attempt.task_id, ""))
        for run in batch.runs:
            if run.state in FINAL_RUN:
                self._started.pop(run.id, None)
                yield RunEnded(run, jobs[run.id])

    async def run(self) -> None:
        """Export until cancelled, then flush the queue."""
        exporting: asyncio.Task[None] | None = None
        try:
            while True:
                exporting = asyncio.create_task(self._export(await self._some()))
                await asyncio.shield(exporting)
        except asyncio.CancelledError:
            left = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
            await asyncio.shield(self._finish(exporting, left))
            raise

    async def _finish(self, exporting: asyncio.Task[None] | None, left: Sequence[TelemetryEvent]) -> None:
        """Finish the export in progress, export the rest, and close the exporters."""
        if exporting is not None:
            await exporting
        await self._export(left)
        for exporter in self._exporters:
            await asyncio.to_thread(exporter.close)

    async def _some(self) -> list[TelemetryEvent]:
        events = [await self._waiting.get()]
        while len(events) < MAX_EVENTS_PER_CALL and not self._waiting.empty():
            events.append(self._waiting.get_nowait())
        return events

    async def _export(self, events: Sequence[TelemetryEvent]) -> None:
        for exporter in self._exporters if events else ():
            try:
                await asyncio.to_thread(exporter.export, events)
            except Exception as fault:  # noqa: BLE001 - a failing exporter must not affect the server
                log.warning("telemetry.export_failed", events=len(events), fault=repr(fault))

    def _put(self, event: TelemetryEvent) -> None:
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("telemetry.queue_full", waiting=self._waiting.qsize())

    def _remember(self, run_id: str) -> None:
        self._started[run_id] = None
        if len(self._started) > _MAX_REMEMBERED_RUNS:
            self._started.popitem(last=False)
