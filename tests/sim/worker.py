"""A simulated worker: the real state machine, with a simulated journal, processes and sessions.

A crash ends the agent and its guard with all their processes. The journal survives it, or is lost with the disk. An
agent that has heard nothing for 10 s starts nothing more; after 15 s it looks for another server. Its guard runs the
members of a lease one after another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.protocol.wire import Assignment, FileProbed, Goodbye, Offer, Outcome, Register
from mainspring.worker.agent.instructions import (
    Instruction,
    Mark,
    Persist,
    Prolong,
    Record,
    RunFileProbe,
    Send,
    Start,
    StopAttempt,
    Withdraw,
)
from mainspring.worker.agent.state_machine import StateMachine
from mainspring.worker.supervisor.supervisor_wire import Inventory
from tests.sim.check_artifacts import left_by
from tests.sim.failure_modes import FailureMode
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
    failure_mode: FailureMode | None = None
    items: int | None = None
    """How many its output lists, for others to fan out over; fewer than none: something that is no list."""
    grows: str | None = None
    """The expansion in its output, as JSON."""
    stalls: float = 0.0
    """Probability of a stall: it stays alive, and never ends."""


class SimWorker:
    """One agent after another, on one machine."""

    def __init__(self, world: World, name: str, offer: Offer, labels: dict[str, str], zone: str) -> None:
        self.name = name
        self.offer = offer
        self.labels = labels
        self.zone = zone
        self.process = Process(name)
        self.process.dead = True
        self.state_machine = StateMachine()
        self.spool: list[Record] = []
        self._world = world
        self._random = Random(f"worker:{world.mix.seed}:{name}")
        self._boots = 0
        self._sessions = 0
        self._session: Session | None = None
        self._closed = asyncio.Event()
        self._heard = -1e9
        self._running: dict[str, bool] = {}
        """Processes by attempt: whether it has begun."""
        self._leases: dict[str, deque[Assignment]] = {}
        """Leases given to the supervisor: the first task of each runs, or is about to."""

    def boot(self) -> None:
        """Start an agent on the content of the disk."""
        self._boots += 1
        self.process = Process(f"{self.name}#{self._boots}")
        self.state_machine = StateMachine()
        self._running, self._leases = {}, {}
        self._session, self._heard = None, -1e9
        self._world.trace.note("worker.boot", self.process.name)
        self.process.context.run(self._start)

    def crash(self, *, wiped: bool) -> None:
        """The agent dies with its processes; `wiped`: so does its disk."""
        self.process.dead = True
        if wiped:
            self.spool.clear()
            self._world.checker.wiped(self.name)
        if self._session is not None:
            self._session.tear()
        self._session = None

    def hear(self, session: Session, frame: list[Any]) -> None:
        """Receive a message. Messages of an older session are ignored."""
        if session is not self._session:
            return
        if frame[0] is CLOSED:
            self._drop()
            return
        self._heard = self._world.loop.now
        self._carry_out(self.state_machine.server_responded())
        for message in frame:
            if message is not PONG and not self.process.dead:
                self._carry_out(self.state_machine.take(message))

    def running(self) -> list[str]:
        """Attempts whose process runs."""
        return [] if self.process.dead else [attempt for attempt, begun in self._running.items() if begun]

    def save(self, attempt: str, document: str) -> None:
        """A process saves a checkpoint."""
        self._carry_out(self.state_machine.checkpoint_saved(attempt, document))

    def leave(self) -> None:
        """Finish running tasks, return the rest, shut down, and restart later."""
        if not self.state_machine.leaving:
            self._carry_out(self.state_machine.leave())
            self._go()

    # the agent

    def _go(self) -> None:
        """Shut down once nothing is held, or the wait is over."""
        if self.state_machine.holds() and not self._world.is_calm():
            self._world.loop.call_later(0.5, self._go)
            return
        if not self.state_machine.holds() and self._session is not None:
            self._session.up.send([Goodbye()])
        self._world.loop.call_later(1.0, self._gone)

    def _gone(self) -> None:
        self._world.nemesis.crash_worker(self, wiped=False, kind="worker_left")

    def _start(self) -> None:
        self.state_machine.restore(list(self.spool))
        self._carry_out(self.state_machine.adopt(Inventory((), (), ()), "the worker was restarted"))
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
        session_name = f"{self.name}:{self._boots}.{self._sessions}"
        hello = self.state_machine.register(Register(self.name, session_name, self.offer, self.labels, self.zone))
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
                self._carry_out(self.state_machine.beat())
            if self._is_silent():
                self._carry_out(self.state_machine.silence())
        return self._heard > began

    def _drop(self) -> None:
        self._session = None
        self.state_machine.lost_session()
        self._closed.set()

    def _carry_out(self, instructions: list[Instruction]) -> None:
        said: list[Any] = []
        mix = self._world.mix
        for instruction in instructions:
            match instruction:
                case Persist():
                    self._keep(instruction.record)
                    if self._random.random() < mix.crash_after_write and not self._world.is_calm():
                        self._world.nemesis.crash_worker(self, wiped=False, kind="worker_killed_after_write")
                        return
                case Send():
                    said.append(instruction.message)
                case Start():
                    self._launch(instruction.assignment, instruction.lease)
                case Withdraw():
                    self._world.loop.call_later(0.001, self._give_back, instruction.attempts)
                case StopAttempt():
                    self._kill(instruction.attempt, instruction.grace_seconds)
                case RunFileProbe():
                    said.append(FileProbed(instruction.question, instruction.path == "there"))
                case Prolong():
                    self._world.trace.note("prolonged", f"{instruction.attempt} {instruction.because}")
        if said and self._session is not None:
            self._session.up.send(said)

    def _keep(self, record: Record) -> None:
        self.spool.append(record)
        checker = self._world.checker
        if record.mark is Mark.ENDED and record.result is not None:
            checker.process_left(self.name, record.result)
        elif record.mark in (Mark.FORGOTTEN, Mark.UNKNOWN):
            checker.forgotten(self.name, record.attempt, discarded=record.mark is Mark.UNKNOWN)

    # the guard, and its processes

    def _is_silent(self) -> bool:
        return self._world.loop.now - self._heard > CAUTIOUS_AFTER

    def _launch(self, assignment: Assignment, lease: str) -> None:
        line = self._leases.setdefault(lease, deque())
        line.append(assignment)
        if len(line) == 1:
            self._run(assignment)

    def _run(self, assignment: Assignment) -> None:
        if self._is_silent():
            self._carry_out(self.state_machine.silence())
            return
        self._world.checker.process_begun(self.name, assignment.attempt)
        self._running[assignment.attempt] = False
        self._world.loop.call_later(0.001 + self._random.random() * 0.1, self._begun, assignment)

    def _give_back(self, attempts: tuple[str, ...]) -> None:
        """Return those attempts for which no process was started."""
        given = [attempt for attempt in attempts if attempt not in self._running and self._leave_lease(attempt)]
        self._carry_out(self.state_machine.withdrawn(given))

    def _leave_lease(self, attempt: str) -> bool:
        """Take an attempt out of its lease; False if it is in none."""
        for lease, line in self._leases.items():
            for assignment in line:
                if assignment.attempt == attempt:
                    line.remove(assignment)
                    if not line:
                        del self._leases[lease]
                    return True
        return False

    def _end(self, attempt: str, outcome: Outcome, output: str | None = None, error: str | None = None) -> None:
        """Nothing of an attempt runs any more: the next one of its lease begins."""
        self._leave_lease(attempt)
        left = () if outcome is Outcome.STOPPED else left_by(attempt)
        self._carry_out(self.state_machine.ended(attempt, outcome, output, error, left))
        for line in list(self._leases.values()):
            if line[0].attempt not in self._running and not self.process.dead:
                self._run(line[0])

    def _begun(self, assignment: Assignment) -> None:
        attempt = assignment.attempt
        if attempt not in self._running:
            return
        self._running[attempt] = True
        work = read_work(assignment.work)
        seconds = work.seconds * self._random.choice((0.2, 0.5, 1.0, 1.0, 1.5))
        if self._world.is_calm():
            seconds /= 10  # the rest ends soon
        gets_nowhere = work.stalls and self._random.random() < work.stalls and not self._world.is_calm()
        if work.stalls:
            self._move(attempt, 0, seconds / 2 if gets_nowhere else seconds)
        if not gets_nowhere:
            self._world.loop.call_later(seconds, self._over, assignment, work)
        self._carry_out(self.state_machine.started(attempt))

    def _move(self, attempt: str, percent: int, left: float) -> None:
        """A process says how far it is, every few seconds as long as it gets on."""
        if attempt in self._running and left > 0:
            self.state_machine.progressed(attempt, float(percent % 100), "")
            self._world.loop.call_later(3.0, self._move, attempt, percent + 1, left - 3.0)

    def _over(self, assignment: Assignment, work: Work) -> None:
        """End a process."""
        attempt = assignment.attempt
        if self._running.pop(attempt, None) is None:
            return
        random, mix, now = self._random, self._world.mix, self._world.loop.now
        if not self._world.is_calm() and random.random() < mix.poison:
            poison = random.choice(('"\\u0000"', f'"{POISON}"', '"' + POISON + ' again"', "{not json", '"\ud800"'))
            self._world.trace.fault("poison_result", attempt)
            self._end(attempt, Outcome.SUCCEEDED, poison)
        elif work.failure_mode is not None and work.failure_mode.strikes(now, assignment.memory_bytes):
            self._end(attempt, Outcome.FAILED, None, work.failure_mode.error(attempt))
        elif random.random() < work.fails:
            self._end(attempt, Outcome.FAILED, None, '{"exit": 1}')
        else:
            self._end(attempt, Outcome.SUCCEEDED, output_of(work, random))

    def _kill(self, attempt: str, grace: float) -> None:
        if attempt not in self._running:
            if self._leave_lease(attempt):
                self._carry_out(self.state_machine.ended(attempt, Outcome.STOPPED))
            return
        stubborn = self._random.random() < self._world.mix.stubborn
        self._world.loop.call_later(grace if stubborn else min(grace, self._random.random()), self._killed, attempt)

    def _killed(self, attempt: str) -> None:
        if self._running.pop(attempt, None) is not None:
            self._end(attempt, Outcome.STOPPED)


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
    """Behavior of a task. A task added by an output has it in the text of a real kind of work."""
    fields = msgspec.json.decode(text)
    return msgspec.convert(fields.get("args", fields), type=Work)
