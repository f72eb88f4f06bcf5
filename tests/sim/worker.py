"""A simulated worker: the real state machine, with a simulated spool, processes and sessions.

A crash ends the agent and its supervisor with all their processes. The spool survives it, or is lost with the disk. An
agent that has received nothing for 10 s starts nothing more; after 15 s it looks for another server. Its supervisor
runs the members of a lease one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.protocol.wire import Artifacts, Assignment, Extended, FromWorker, Goodbye, Offer, Outcome
from mainspring.simulation.virtual_worker import BEAT_SECONDS, STOPPED, Ending, SimulatedWorker
from mainspring.worker.agent.instructions import Mark, Record
from mainspring.worker.supervisor.supervisor_wire import Inventory
from tests.sim.check_artifacts import left_by
from tests.sim.failure_modes import FailureMode
from tests.sim.loop import Process
from tests.sim.network import CLOSED, PONG, Session
from tests.sim.store import POISON

if TYPE_CHECKING:
    from tests.sim.server import SimServer
    from tests.sim.world import World

CAUTIOUS_AFTER = 10.0
DEAF_AFTER = 15.0
LONGEST_BACKOFF = 5.0


class Work(msgspec.Struct, frozen=True):
    """The behavior of a task, from its definition."""

    seconds: float = 1.0
    fails: float = 0.0
    stubborn: bool = False
    failure_mode: FailureMode | None = None
    items: int | None = None
    """Length of the list in its output, for fan-outs; negative: not a list."""
    grows: str | None = None
    """The expansion in its output, as JSON."""
    stalls: float = 0.0
    """Probability of a stall: it stays alive, and never ends."""


class SimWorker(SimulatedWorker):
    """A worker: successive agents on one machine."""

    def __init__(self, world: World, name: str, offer: Offer, labels: dict[str, str], zone: str) -> None:
        super().__init__(name, offer, labels, zone)
        self.process = Process(name)
        self.process.dead = True
        self.spool: list[Record] = []
        self._world = world
        self._random = Random(f"worker:{world.mix.seed}:{name}")
        self._boots = 0
        self._link: Session | None = None
        self._closed = asyncio.Event()
        self._heard = -1e9
        self._begun: set[str] = set()
        """Attempts whose process has begun."""

    def boot(self) -> None:
        """Start an agent on the content of the disk."""
        self._boots += 1
        self.process = Process(f"{self.name}#{self._boots}")
        self.reset()
        self._begun.clear()
        self._link, self._heard = None, -1e9
        self._world.trace.note("worker.boot", self.process.name)
        self.process.context.run(self._start)

    def crash(self, *, wiped: bool) -> None:
        """Kill the agent with its processes. `wiped`: the disk is lost too."""
        self.process.dead = True
        if wiped:
            self.spool.clear()
            self._world.checker.wiped(self.name)
        if self._link is not None:
            self._link.tear()
        self._link = None

    def hear(self, session: Session, frame: list[Any]) -> None:
        """Receive a message. Messages of an older session are ignored."""
        if session is not self._link:
            return
        if frame[0] is CLOSED:
            self._drop()
            return
        self._heard = self._world.loop.now
        self.execute(self.state_machine.server_responded())
        for message in frame:
            if message is not PONG and not self.process.dead:
                self.execute(self.state_machine.take(message))

    def processes(self) -> list[str]:
        """Attempts whose process runs."""
        return [] if self.process.dead else [attempt for attempt in self.running if attempt in self._begun]

    def save(self, attempt: str, document: str) -> None:
        """Save a checkpoint of a process."""
        self.execute(self.state_machine.checkpoint_saved(attempt, document))

    def leave(self) -> None:
        """Finish running tasks, return the rest, shut down, and restart later."""
        if not self.state_machine.leaving:
            self.execute(self.state_machine.leave())
            self._go()

    # the agent

    def _go(self) -> None:
        """Shut down once nothing is held, or when faults have stopped."""
        if self.state_machine.holds() and not self._world.is_calm():
            self._world.loop.call_later(0.5, self._go)
            return
        if not self.state_machine.holds():
            self.send([Goodbye()])
        self._world.loop.call_later(1.0, self._gone)

    def _gone(self) -> None:
        self._world.nemesis.crash_worker(self, wiped=False, kind="worker_left")

    def _start(self) -> None:
        self.state_machine.restore(list(self.spool))
        self.execute(self.state_machine.adopt(Inventory((), (), ()), "the worker was restarted"))
        self._world.loop.create_task(self._agent())

    async def _agent(self) -> None:
        failures = 0
        while True:
            opened = await self._serve()
            failures = 0 if opened else min(failures + 1, 6)
            longest = min(0.1 * 2**failures, LONGEST_BACKOFF)
            await asyncio.sleep(longest * (0.5 + 0.5 * self._random.random()))

    def next_session(self) -> str:
        """Name of the new session, which counts restarts."""
        return f"{self.name}:{self._boots}.{self._sessions}"

    async def _serve(self) -> bool:
        """Serve one session until it ends; False if it was never accepted."""
        world = self._world
        server: SimServer = self._random.choice(world.servers)
        hello = self.register()
        self._closed = asyncio.Event()
        session = self._link = world.network.connect(self, server, hello)
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
                self.execute(self.state_machine.beat())
            if self._is_silent():
                self.execute(self.state_machine.silence())
        return self._heard > began

    def _drop(self) -> None:
        self._link = None
        self.state_machine.lost_session()
        self._closed.set()

    def send(self, messages: Sequence[FromWorker]) -> None:
        """Send messages in the session, if there is one."""
        if self._link is not None:
            self._link.up.send(list(messages))

    def persist(self, record: Record) -> bool:
        """Write a spool record. The worker may crash after the write."""
        self.spool.append(record)
        world, checker = self._world, self._world.checker
        if record.mark is Mark.ENDED and record.result is not None:
            checker.process_left(self.name, record.result)
        elif record.mark in (Mark.FORGOTTEN, Mark.UNKNOWN):
            checker.forgotten(self.name, record.attempt, discarded=record.mark is Mark.UNKNOWN)
        if self._random.random() < world.mix.crash_after_write and not world.is_calm():
            world.nemesis.crash_worker(self, wiped=False, kind="worker_killed_after_write")
            return False
        return True

    def prolong(self, message: Extended) -> None:
        """Record the new time limit."""
        self._world.trace.note("prolonged", f"{message.attempt} {message.because}")

    def file_exists(self, path: str) -> bool:
        """Answer a file probe by the name of the file."""
        return path == "there"

    # the supervisor, and its processes

    def _is_silent(self) -> bool:
        return self._world.loop.now - self._heard > CAUTIOUS_AFTER

    def begin(self, assignment: Assignment) -> None:
        """Start a process, unless the server is silent."""
        if self.process.dead:
            return
        if self._is_silent():
            del self.running[assignment.attempt]
            self.execute(self.state_machine.silence())
            return
        self._world.checker.process_begun(self.name, assignment.attempt)
        self._world.loop.call_later(0.001 + self._random.random() * 0.1, self._process_begun, assignment)

    def withdraw(self, attempts: Iterable[str]) -> None:
        """Reply of the supervisor, after a moment."""
        self._world.loop.call_later(0.001, super().withdraw, attempts)

    def end(
        self, attempt: str, outcome: Outcome, output: str | None = None, error: str | None = None, left: Artifacts = ()
    ) -> None:
        """End an attempt. A process that was not stopped leaves artifacts."""
        super().end(attempt, outcome, output, error, () if outcome is Outcome.STOPPED else left_by(attempt))

    def _process_begun(self, assignment: Assignment) -> None:
        attempt = assignment.attempt
        if attempt not in self.running:
            return
        self._begun.add(attempt)
        work = read_work(assignment.work)
        seconds = work.seconds * self._random.choice((0.2, 0.5, 1.0, 1.0, 1.5))
        if self._world.is_calm():
            seconds /= 10  # remaining processes end soon
        gets_nowhere = work.stalls and self._random.random() < work.stalls and not self._world.is_calm()
        if work.stalls:
            self._move(attempt, 0, seconds / 2 if gets_nowhere else seconds)
        if not gets_nowhere:
            self._world.loop.call_later(seconds, self._process_ended, assignment, work)
        self.execute(self.state_machine.started(attempt))

    def _move(self, attempt: str, percent: int, left: float) -> None:
        """Report progress every few seconds, unless the process has stalled."""
        if attempt in self.running and left > 0:
            self.state_machine.progressed(attempt, float(percent % 100), "")
            self._world.loop.call_later(3.0, self._move, attempt, percent + 1, left - 3.0)

    def _process_ended(self, assignment: Assignment, work: Work) -> None:
        if assignment.attempt in self.running:
            self.end_as(assignment.attempt, self._ending(assignment, work))

    def _ending(self, assignment: Assignment, work: Work) -> Ending:
        """Draw how a process ends."""
        random, mix, now = self._random, self._world.mix, self._world.loop.now
        if not self._world.is_calm() and random.random() < mix.poison:
            poison = random.choice(('"\\u0000"', f'"{POISON}"', '"' + POISON + ' again"', "{not json", '"\ud800"'))
            self._world.trace.fault("poison_result", assignment.attempt)
            return Ending(output=poison)
        if work.failure_mode is not None and work.failure_mode.strikes(now, assignment.memory_bytes):
            return Ending(0.0, Outcome.FAILED, None, work.failure_mode.error(assignment.attempt))
        if random.random() < work.fails:
            return Ending(0.0, Outcome.FAILED, None, '{"exit": 1}')
        return Ending(output=output_of(work, random))

    def interrupt(self, attempt: str, grace_seconds: float) -> None:
        """Stop a process: it takes its whole grace period, or a part of it."""
        is_stubborn = self._random.random() < self._world.mix.stubborn
        after = grace_seconds if is_stubborn else min(grace_seconds, self._random.random())
        self._world.loop.call_later(after, self.end_as, attempt, STOPPED)


def output_of(work: Work, random: Random) -> str:
    """Output of a successful process."""
    if work.grows is not None:
        return work.grows
    output = f'{{"n": {random.randint(0, 9)}, "ok": {random.choice(("true", "true", "false"))}'
    if work.items is not None:
        items = '"none"' if work.items < 0 else list(range(work.items))
        output += f', "items": {items}'
    return output + "}"


def read_work(text: str) -> Work:
    """Behavior of a task. Tasks added by outputs have it in the text of a real kind of work."""
    fields = msgspec.json.decode(text)
    return msgspec.convert(fields.get("args", fields), type=Work)
