"""A worker of the simulation: the real duties, with a journal, processes and sessions that are played.

A crash ends the agent with all its processes. The journal survives it, or is lost with the disk. An agent that has
heard nothing for 10 s starts nothing more; after 15 s it looks for another server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.wire import Assignment, Offer, Outcome
from mainspring.worker.duties import Duties, Keep, Kill, Mark, Record, Say, Start, Step
from tests.sim.loop import Process
from tests.sim.network import CLOSED, PONG, Session
from tests.sim.store import POISON

if TYPE_CHECKING:
    from tests.sim.server import SimServer
    from tests.sim.world import World

BEAT_SECONDS = 5.0
CAUTIOUS_AFTER = 10.0
DEAF_AFTER = 15.0
LONGEST_BACKOFF = 5.0


class Work(msgspec.Struct, frozen=True):
    """How a task behaves, as its definition says."""

    seconds: float = 1.0
    fails: float = 0.0
    stubborn: bool = False


class SimWorker:
    """One agent after another, on one machine."""

    def __init__(self, world: World, name: str, offer: Offer, labels: dict[str, str], zone: str) -> None:
        self.name = name
        self.offer = offer
        self.labels = labels
        self.zone = zone
        self.process = Process(name)
        self.process.dead = True
        self.duties = Duties()
        self.journal: list[Record] = []
        self._world = world
        self._random = Random(f"worker:{world.mix.seed}:{name}")
        self._boots = 0
        self._sessions = 0
        self._session: Session | None = None
        self._closed = asyncio.Event()
        self._heard = -1e9
        self._running: dict[str, bool] = {}
        """Processes by attempt: whether it has begun."""
        self._waiting: deque[Assignment] = deque()
        """What is to be started once a server has been heard of."""

    def boot(self) -> None:
        """Start an agent on what the disk holds."""
        self._boots += 1
        self.process = Process(f"{self.name}#{self._boots}")
        self.duties = Duties()
        self._running, self._waiting = {}, deque()
        self._session, self._heard = None, -1e9
        self._world.trace.note("worker.boot", self.process.name)
        self.process.context.run(self._start)

    def crash(self, *, wiped: bool) -> None:
        """The agent dies with its processes; `wiped`: so does its disk."""
        self.process.dead = True
        if wiped:
            self.journal.clear()
            self._world.checker.wiped(self.name)
        if self._session is not None:
            self._session.tear()
        self._session = None

    def hear(self, session: Session, frame: list[Any]) -> None:
        """A server says something. What belongs to an older session is ignored."""
        if session is not self._session:
            return
        if frame[0] is CLOSED:
            self._drop()
            return
        self._heard = self._world.loop.now
        while self._waiting:
            self._run(self._waiting.popleft())
        for message in frame:
            if message is not PONG and not self.process.dead:
                self._carry_out(self.duties.take(message))

    # the agent

    def _start(self) -> None:
        self._carry_out(self.duties.restore(list(self.journal)))
        self._world.loop.create_task(self._agent())

    async def _agent(self) -> None:
        failures = 0
        while True:
            opened = await self._serve()
            failures = 0 if opened else min(failures + 1, 6)
            longest = min(0.1 * 2**failures, LONGEST_BACKOFF)
            await asyncio.sleep(longest * (0.5 + 0.5 * self._random.random()))

    async def _serve(self) -> bool:
        """Keep one session for as long as it lasts; False if it never was any good."""
        world = self._world
        server: SimServer = self._random.choice(world.servers)
        self._sessions += 1
        hello = self.duties.register(
            self.name, f"{self.name}:{self._boots}.{self._sessions}", self.offer, self.labels, self.zone
        )
        self._closed = asyncio.Event()
        session = self._session = world.network.connect(self, server, hello)
        began = world.loop.now
        while not self._closed.is_set():
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._closed.wait()
            except TimeoutError:
                pass
            if world.loop.now - max(self._heard, began) > DEAF_AFTER:
                session.tear()
                self._drop()
            elif not self._closed.is_set():
                self._carry_out(self.duties.beat())
        return self._heard > began

    def _drop(self) -> None:
        self._session = None
        self.duties.lost_session()
        self._closed.set()

    def _carry_out(self, steps: list[Step]) -> None:
        said: list[Any] = []
        mix = self._world.mix
        for step in steps:
            match step:
                case Keep():
                    self._keep(step.record)
                    if self._random.random() < mix.crash_after_write and not self._world.is_calm():
                        self._world.nemesis.crash_worker(self, wiped=False, kind="worker_killed_after_write")
                        return
                case Say():
                    said.append(step.message)
                case Start():
                    self._run(step.assignment)
                case Kill():
                    self._kill(step.attempt, step.grace_seconds)
        if said and self._session is not None:
            self._session.up.send(said)

    def _keep(self, record: Record) -> None:
        self.journal.append(record)
        checker = self._world.checker
        if record.mark is Mark.ENDED and record.result is not None:
            checker.process_left(self.name, record.result)
        elif record.mark in (Mark.FORGOTTEN, Mark.ASIDE):
            checker.forgotten(self.name, record.attempt, aside=record.mark is Mark.ASIDE)

    # processes

    def _run(self, assignment: Assignment) -> None:
        now = self._world.loop.now
        if now - self._heard > CAUTIOUS_AFTER:
            self._waiting.append(assignment)
            return
        self._world.checker.process_begun(self.name, assignment)
        self._running[assignment.attempt] = False
        self._world.loop.call_later(0.001 + self._random.random() * 0.1, self._begun, assignment)

    def _begun(self, assignment: Assignment) -> None:
        attempt = assignment.attempt
        if attempt not in self._running:
            return
        self._running[attempt] = True
        work = msgspec.json.decode(assignment.work, type=Work)
        seconds = work.seconds * self._random.choice((0.2, 0.5, 1.0, 1.0, 1.5))
        if self._world.is_calm():
            seconds /= 10  # what is left is to be done soon
        self._world.loop.call_later(seconds, self._over, attempt, work)
        self._carry_out(self.duties.started(attempt))

    def _over(self, attempt: str, work: Work) -> None:
        """A process ends by itself."""
        if self._running.pop(attempt, None) is None:
            return
        random, mix = self._random, self._world.mix
        if not self._world.is_calm() and random.random() < mix.poison:
            poison = random.choice(('"\\u0000"', f'"{POISON}"', '"' + POISON + ' again"', "{not json", '"\ud800"'))
            self._world.trace.fault("poison_result", attempt)
            self._carry_out(self.duties.ended(attempt, Outcome.SUCCEEDED, poison))
        elif random.random() < work.fails:
            self._carry_out(self.duties.ended(attempt, Outcome.FAILED, None, '{"exit": 1}'))
        else:
            output = f'{{"n": {random.randint(0, 9)}, "ok": {random.choice(("true", "true", "false"))}}}'
            self._carry_out(self.duties.ended(attempt, Outcome.SUCCEEDED, output))

    def _kill(self, attempt: str, grace: float) -> None:
        for assignment in self._waiting:
            if assignment.attempt == attempt:
                self._waiting.remove(assignment)
                self._carry_out(self.duties.ended(attempt, Outcome.STOPPED))
                return
        stubborn = self._random.random() < self._world.mix.stubborn
        self._world.loop.call_later(grace if stubborn else min(grace, self._random.random()), self._killed, attempt)

    def _killed(self, attempt: str) -> None:
        if self._running.pop(attempt, None) is not None:
            self._carry_out(self.duties.ended(attempt, Outcome.STOPPED))
