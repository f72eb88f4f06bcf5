"""A store, hosts and workers in one loop with virtual time.

`TroubledStore` is the real SQLite adapter in memory; its commits can be delayed, made to fail, or executed with their
answer lost. `ScriptedWorker` is a worker driven message by message; `VirtualWorker` is a virtual worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobRow, JobSpec
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Priority, Task
from mainspring.host.host import Host
from mainspring.host.links import Link
from mainspring.host.loop import Leader
from mainspring.protocol.errors import Fenced, NotLeading, Unavailable
from mainspring.protocol.ids import new_id
from mainspring.protocol.wire import (
    Answer,
    Assign,
    Assignment,
    Credit,
    FromWorker,
    Heartbeat,
    Offer,
    Outcome,
    Received,
    Register,
    Result,
    Started,
    ToWorker,
    Verdict,
    Welcome,
)
from mainspring.shard.effects import ActionReply
from mainspring.shard.events import RunAction
from mainspring.simulation.inprocess.virtual_time import VirtualClock
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.store.ports.schedules import Decide, EvaluationResult
from mainspring.store.ports.store import ShardRows, Term, Waiting
from mainspring.store.sqlite.store import Lane, SqliteStore

SHARD = "pool"
STEP_SECONDS = 0.01
_M = TypeVar("_M", bound=ToWorker)
_T = TypeVar("_T")


async def at_once(lane: Lane, work: Callable[[], _T]) -> _T:
    """Run the store's work inline: there are no threads."""
    return work()


class Trouble(StrEnum):
    """A simulated failure of a call to the store."""

    GONE = "gone"
    """It is not executed."""
    ANSWER_LOST = "answer lost"
    """It is executed, but its answer is lost."""


class Call(NamedTuple):
    """A recorded commit: time, term, number and batch."""

    at: float
    term: Term
    number: int
    batch: Batch


class TroubledStore(SqliteStore):
    """The real store, with commits that can be slowed down or made to fail."""

    trouble: Callable[[Term, int, Batch], Trouble | None] = staticmethod(lambda term, number, batch: None)
    commit_seconds = 0.0
    read_seconds = 0.0
    reads_that_fail = 0
    calls: list[Call]
    """Every commit requested."""

    async def load(self, shard: str) -> ShardRows:
        """Load a shard, with a delay and simulated failures."""
        await asyncio.sleep(self.read_seconds)
        if self.reads_that_fail > 0:
            self.reads_that_fail -= 1
            raise Unavailable("the store is gone")
        return await super().load(shard)

    async def waiting(self, shard: str, limit: int, after: str = "") -> list[Waiting]:
        """List tenants with intake, with simulated failures."""
        if self.reads_that_fail > 0:
            self.reads_that_fail -= 1
            raise Unavailable("the store is gone")
        return await super().waiting(shard, limit, after)

    async def evaluate_due(self, limit: int, decide: Decide) -> EvaluationResult:
        """Evaluate due schedules, with simulated failures and a delay after the write."""
        if self.reads_that_fail > 0:
            self.reads_that_fail -= 1
            raise Unavailable("the store is gone")
        evaluated = await super().evaluate_due(limit, decide)
        await asyncio.sleep(self.commit_seconds)
        return evaluated

    async def commit(self, term: Term, number: int, batch: Batch) -> datetime:
        """Commit a batch, with simulated failures."""
        self.calls.append(Call(self._clock.monotonic(), term, number, batch))
        if self.commit_seconds:
            await asyncio.sleep(self.commit_seconds)
        trouble = self.trouble(term, number, batch)
        if trouble is Trouble.GONE:
            raise Unavailable("the store is gone")
        at = await super().commit(term, number, batch)
        if trouble is Trouble.ANSWER_LOST:
            raise Unavailable("the answer was lost")
        return at


class ScriptedWorker:
    """A worker that is driven message by message by the test."""

    def __init__(self, name: str, leader: Leader, session: str, holds: Sequence[str] = (), cores: int = 4) -> None:
        self.name = name
        self._leader = leader
        self.received: list[ToWorker] = []
        self.link: Link = leader.open_link(
            Register(name, session, Offer(cores * 1000, cores << 30), {}, "", "", tuple(holds))
        )

    def send(self, *messages: FromWorker) -> None:
        """Send messages."""
        self._leader.receive(self.link, messages)

    async def expect(self, kind: type[_M], *, within: float = 5.0) -> _M:
        """Wait for the next message of a kind; earlier messages are kept in `received`."""
        for place, message in enumerate(self.received):
            if isinstance(message, kind):
                return self.received.pop(place)  # type: ignore[return-value]
        async with asyncio.timeout(within):
            while True:
                new = await self.link.next()
                assert not self.link.closed, "the link was closed"
                self.received += new
                for message in new:
                    if isinstance(message, kind):
                        self.received.remove(message)
                        return message

    async def welcome(self) -> ScriptedWorker:
        """Wait until the session is open and has credit."""
        await self.expect(Welcome)
        await self.expect(Credit)
        return self

    async def next_task(self) -> Assignment:
        """Receive and start the next assignment."""
        assign = await self.expect(Assign)
        self.send(Received(tuple(one.attempt for one in assign.group)), Started(assign.group[0].attempt))
        return assign.group[0]

    async def finish(self, attempt: str, output: str | None = "1") -> Verdict:
        """Report a success, and wait for the answer."""
        self.send(Result(attempt, Outcome.SUCCEEDED, output))
        return (await self.expect(Answer)).verdict

    async def beat(self) -> None:
        """Beat until cancelled."""
        while not self.link.closed:
            self.send(Heartbeat())
            await asyncio.sleep(5)


class HostHarness:
    """Hosts, workers and a store for host tests."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        store = TroubledStore.open(":memory:", clock=self.clock, run=at_once)
        assert isinstance(store, TroubledStore)
        self.store = store
        self.store.calls = []
        self.hosts: dict[str, Host] = {}
        self._nonces = count(1_000)
        self._random = Random(7)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._playing: list[asyncio.Task[None]] = []

    # hosts

    async def start(self, name: str = "h1", lease: float = 5.0) -> Host:
        """Start a host."""
        await self.store.ensure_shard(SHARD)
        host = Host(self.store, self.clock, name, lambda: next(self._nonces), timedelta(seconds=lease))
        self.hosts[name] = host
        self._running[name] = asyncio.create_task(host.run())
        return host

    async def leader(self, name: str = "h1", within: float = 10.0) -> Leader:
        """Wait until this host leads the shard; return the leader."""
        host = self.hosts[name]
        await self.until(lambda: SHARD in host.leaders, within=within)
        return host.leaders[SHARD]

    async def lead(self, name: str = "h1") -> Leader:
        """Start a host, and wait until it leads."""
        await self.start(name)
        return await self.leader(name)

    def kill(self, name: str) -> None:
        """Kill a host: nothing is handed over."""
        self._running.pop(name).cancel()

    async def stop(self, name: str) -> None:
        """Stop a host cleanly."""
        self.hosts[name].stop()
        await self._running.pop(name)

    async def close(self) -> None:
        """Stop everything."""
        for task in [*self._playing, *self._running.values()]:
            task.cancel()
        await asyncio.gather(*self._playing, *self._running.values(), return_exceptions=True)
        await asyncio.sleep(0)
        await self.store.close()

    # time

    async def until(self, condition: Callable[[], bool], *, within: float = 10.0) -> float:
        """Let time pass until a condition holds; return the seconds."""
        began = self.clock.monotonic()
        while not condition():
            assert self.clock.monotonic() < began + within, "timed out"
            await asyncio.sleep(STEP_SECONDS)
        return self.clock.monotonic() - began

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    # runs

    async def submit(
        self, spec: JobSpec, *, runs: int = 1, tenant: str = "acme", priority: Priority = Priority.P1,
        watched: bool = False, start_in: float = 0.0, shard: str = SHARD,
    ) -> list[str]:  # fmt: skip
        """Submit runs of a job, and return their ids."""
        definition = msgspec.json.encode(spec).decode()
        return await self.submit_definition(
            definition, runs=runs, tenant=tenant, priority=priority, watched=watched, tasks=len(spec.tasks),
            start_in=start_in, shard=shard,
        )  # fmt: skip

    async def submit_definition(
        self, definition: str, *, runs: int = 1, tenant: str = "acme", priority: Priority = Priority.P1,
        watched: bool = False, tasks: int = 1, start_in: float = 0.0, shard: str = SHARD,
    ) -> list[str]:  # fmt: skip
        """The same with a stored definition, which may be invalid."""
        now = self.clock.wall()
        job_id = new_id("job", now, self._random)
        job = await self.store.insert_job(
            JobRow(id=job_id, tenant=tenant, name=job_id, version=0, definition=definition)
        )
        rows = [
            Run(
                id=new_id("run", now, self._random), shard=shard, tenant=tenant, job_id=job.id, priority=priority,
                params="{}", task_count=tasks, submitted_by="somebody", watched=watched, created_at=now,
                start_at=now + timedelta(seconds=start_in),
            )
            for _ in range(runs)
        ]  # fmt: skip
        return await self.store.insert_runs(rows)

    async def run(self, run_id: str) -> Run:
        """Return the row of a run."""
        run = await self.store.run(run_id)
        assert run is not None
        return run

    async def tasks(self, run_id: str) -> list[Task]:
        """Return the rows of a run's tasks."""
        return await self.store.tasks(run_id)

    async def ended(self, run_id: str, within: float = 10.0) -> RunState:
        """Wait for the end of a run; return its state."""
        query = f"SELECT 1 FROM runs WHERE id = '{run_id}' AND ended_at IS NOT NULL"
        await self.until(lambda: bool(self.rows(query)), within=within)
        return (await self.run(run_id)).state

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return the rows of a SELECT."""
        return list(self.store._reader.execute(statement))

    # workers and actions

    def play(self, host: str = "h1", name: str = "w1", cores: int = 4) -> VirtualWorker:
        """Start a virtual worker that executes its assignments, for the leader on this host."""
        worker = VirtualWorker(name, Offer(cores * 1000, cores << 30), self.clock)
        self._playing.append(asyncio.create_task(self._serve(worker, host)))
        return worker

    async def _serve(self, worker: VirtualWorker, host: str) -> None:
        while True:
            try:
                await worker.serve(self.hosts[host].leader(SHARD))
            except (NotLeading, Fenced):
                await asyncio.sleep(0.1)

    async def ask(self, kind: type[RunAction], run_id: str, host: str = "h1", **fields: Any) -> ActionReply:
        """Execute an action."""
        return await self.hosts[host].leaders[SHARD].ask(kind(run_id=run_id, by="ann", **fields))
