"""What batches say of runs and attempts, handed to whoever tells others of it (OpenTelemetry, OpenLineage).

    leader ──committed(batch)──► a bounded queue ──► teller.tell(pieces)

Telling is a courtesy: it never holds a leader up. What a full queue does not take is counted and dropped, and a server
that dies takes what is in its queue along. What must reach somebody goes through the outbox (webhooks, alerts).
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
    """A run was taken up. After a change of leaders this may be said again."""

    run: Run
    job: str


class AttemptOver(msgspec.Struct, frozen=True, gc=False):
    """An attempt that had started is over."""

    attempt: Attempt
    job: str
    task: str
    """The task's name."""


class RunEnded(msgspec.Struct, frozen=True, gc=False):
    """A run is over."""

    run: Run
    job: str


Piece: TypeAlias = RunBegun | AttemptOver | RunEnded


class Teller(Protocol):
    """Tells others, by its own means."""

    def tell(self, pieces: Sequence[Piece]) -> None:
        """Some things that happened, in order. Called in a thread; may take its time, and may fail."""
        ...

    def close(self) -> None:
        """Nothing more comes: send what is left."""
        ...


class Stories:
    """One server's queue of what is to be told."""

    def __init__(self, tellers: Sequence[Teller], most_waiting: int = MOST_WAITING) -> None:
        self._tellers = tellers
        self._waiting: asyncio.Queue[Piece] = asyncio.Queue(most_waiting)
        self._begun: OrderedDict[str, None] = OrderedDict()
        self.dropped = 0
        """How much a full queue did not take."""

    @property
    def is_wanted(self) -> bool:
        """Whether there is anybody who tells."""
        return bool(self._tellers)

    def follow(self, leader: Leader) -> None:
        """Hear what a leader commits, besides whoever else is told of it. For `Host.on_lead`."""
        others = leader.on_commit

        def committed(number: int, batch: Batch) -> None:
            for piece in self.pieces_of(leader, batch):
                self._put(piece)
            if others is not None:
                others(number, batch)

        leader.on_commit = committed

    def pieces_of(self, leader: Leader, batch: Batch) -> Iterator[Piece]:
        """What a batch has to tell: beginnings, attempts, ends."""
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
        """Tell until cancelled, and then what is left."""
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
        """Finish what is being told, tell what is left, and close the tellers."""
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
            except Exception as fault:  # noqa: BLE001 - whatever a collector does, the server goes on
                log.warning("telemetry.not_told", pieces=len(pieces), fault=repr(fault))

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
