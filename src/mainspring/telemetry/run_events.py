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

MOST_WAITING = 20_000
AT_ONCE = 500
_BEGUN_REMEMBERED = 100_000


class RunBegun(msgspec.Struct, frozen=True, gc=False):
    """A run was adopted. May be repeated after a change of leaders."""

    run: Run
    job: str


class AttemptOver(msgspec.Struct, frozen=True, gc=False):
    """A started attempt ended."""

    attempt: Attempt
    job: str
    task: str
    """The task's name."""


class RunEnded(msgspec.Struct, frozen=True, gc=False):
    """A run ended."""

    run: Run
    job: str


Piece: TypeAlias = RunBegun | AttemptOver | RunEnded


class Teller(Protocol):
    """Exports events to another system."""

    def tell(self, pieces: Sequence[Piece]) -> None:
        """Export events in order. Called in a thread; may be slow, and may fail."""
        ...

    def close(self) -> None:
        """Flush and close."""
        ...


class Stories:
    """One server's queue of events to export."""

    def __init__(self, tellers: Sequence[Teller], most_waiting: int = MOST_WAITING) -> None:
        self._tellers = tellers
        self._waiting: asyncio.Queue[Piece] = asyncio.Queue(most_waiting)
        self._begun: OrderedDict[str, None] = OrderedDict()
        self.dropped = 0
        """Events dropped because the queue was full."""

    @property
    def is_wanted(self) -> bool:
        """Whether there are exporters."""
        return bool(self._tellers)

    def follow(self, leader: Leader) -> None:
        """Queue events of a leader's commits, in addition to existing listeners. For `Host.on_lead`."""
        others = leader.on_commit

        def committed(number: int, batch: Batch) -> None:
            for piece in self.pieces_of(leader, batch):
                self._put(piece)
            if others is not None:
                others(number, batch)

        leader.on_commit = committed

    def pieces_of(self, leader: Leader, batch: Batch) -> Iterator[Piece]:
        """Yield the events of a batch: starts of runs, attempts, ends of runs."""
        jobs = {run.id: leader.job_name(run.job_id) or "" for run in batch.runs}
        for run in batch.runs:
            if run.adopted_at is not None and run.id not in self._begun:
                self._remember(run.id)
                yield RunBegun(run, jobs[run.id])
        names = {change.task.id: change.task.name for change in batch.tasks}
        for attempt in batch.attempts:
            if attempt.started_at is not None:
                job = jobs.get(attempt.run_id)
                if job is None:
                    memory = leader.shard.memory.runs.get(attempt.run_id)
                    job = memory.job.spec.name if memory is not None else ""
                yield AttemptOver(attempt, job, names.get(attempt.task_id, ""))
        for run in batch.runs:
            if run.state in FINAL_RUN:
                self._begun.pop(run.id, None)
                yield RunEnded(run, jobs[run.id])

    async def run(self) -> None:
        """Export until cancelled, then flush the queue."""
        telling: asyncio.Task[None] | None = None
        try:
            while True:
                telling = asyncio.create_task(self._tell(await self._some()))
                await asyncio.shield(telling)
        except asyncio.CancelledError:
            left = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
            await asyncio.shield(self._finish(telling, left))
            raise

    async def _finish(self, telling: asyncio.Task[None] | None, left: Sequence[Piece]) -> None:
        """Finish the export in progress, export the rest, and close the exporters."""
        if telling is not None:
            await telling
        await self._tell(left)
        for teller in self._tellers:
            await asyncio.to_thread(teller.close)

    async def _some(self) -> list[Piece]:
        pieces = [await self._waiting.get()]
        while len(pieces) < AT_ONCE and not self._waiting.empty():
            pieces.append(self._waiting.get_nowait())
        return pieces

    async def _tell(self, pieces: Sequence[Piece]) -> None:
        for teller in self._tellers if pieces else ():
            try:
                await asyncio.to_thread(teller.tell, pieces)
            except Exception as fault:  # noqa: BLE001 - a failing exporter must not affect the server
                log.warning("telemetry.export_failed", events=len(pieces), fault=repr(fault))

    def _put(self, piece: Piece) -> None:
        try:
            self._waiting.put_nowait(piece)
        except asyncio.QueueFull:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("telemetry.queue_full", waiting=self._waiting.qsize())

    def _remember(self, run_id: str) -> None:
        self._begun[run_id] = None
        if len(self._begun) > _BEGUN_REMEMBERED:
            self._begun.popitem(last=False)
