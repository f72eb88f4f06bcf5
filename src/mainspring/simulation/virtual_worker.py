"""Virtual workers: the real state machine and messages, and attempts without processes.

    messages ─► state machine ─► instructions ─► `send`, `begin`, `interrupt`, `persist`

`SimulatedWorker` runs the attempts of a lease one after another, returns attempts that have not started, and ends each
as a policy function says. It reads no clock and has no transport. Its subclasses add these, or replace the attempts:

    VirtualWorker              a link of a leader in this process: benchmarks, tests of the host
    inprocess/worker.py        attempts call functions
    capacity/virtual_workers   all workers of a pool on one virtual clock
    tests/sim/worker.py        a spool that survives crashes, a faulty network, unreliable processes
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar, assert_never

from mainspring.protocol.clock import Clock
from mainspring.protocol.wire import (
    Artifacts,
    Assignment,
    Extended,
    FileProbed,
    FromWorker,
    Offer,
    Outcome,
    ProbeFile,
    Register,
    ToWorker,
)
from mainspring.worker.agent.instructions import Instruction, Persist, Record, Send
from mainspring.worker.agent.state_machine import StateMachine
from mainspring.worker.supervisor.supervisor_wire import EndAttempt, LaunchRequest, WithdrawAttempts

BEAT_SECONDS = 5.0


class Ending(NamedTuple):
    """How an attempt ends, and after how many seconds."""

    seconds: float = 0.0
    outcome: Outcome = Outcome.SUCCEEDED
    output: str | None = "null"
    error: str | None = None


STOPPED = Ending(outcome=Outcome.STOPPED, output=None)
EndingOf = Callable[[Assignment], Ending]


def at_once(_assignment: Assignment) -> Ending:
    """Succeed at once."""
    return Ending()


class SimulatedWorker:
    """A worker whose attempts take as long as a policy says. A stopped attempt takes its full grace period."""

    def __init__(
        self, name: str, offer: Offer, labels: dict[str, str] | None = None, zone: str = "",
        ending_of: EndingOf = at_once,
    ) -> None:  # fmt: skip
        self.name = name
        self.offer = offer
        self.labels = labels or {}
        self.zone = zone
        self.done = 0
        """Number of attempts that succeeded."""
        self.session = ""
        self._ending_of = ending_of
        self._sessions = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything, as a restarted agent does."""
        self.state_machine = StateMachine()
        self.running: dict[str, Assignment] = {}
        """Attempts that were begun and have not ended."""
        self._leases: dict[str, deque[Assignment]] = {}
        """The first attempt of each lease runs, or is about to."""
        self._lease_of: dict[str, str] = {}
        self._pending: deque[Instruction] = deque()
        self._is_executing = False
        self._said: list[FromWorker] = []
        self._holding = 0

    def register(self) -> Register:
        """Open the next session."""
        self._sessions += 1
        self.session = self.next_session()
        return self.state_machine.register(Register(self.name, self.session, self.offer, self.labels, self.zone))

    def take(self, messages: Iterable[ToWorker]) -> None:
        """Handle messages of the server, and send what follows together."""
        with self.in_one_frame():
            for message in messages:
                self.execute(self.state_machine.take(message))

    @contextmanager
    def in_one_frame(self) -> Iterator[None]:
        """Send the messages of this block together, at its end."""
        self._holding += 1
        yield
        self._holding -= 1
        self._flush()

    def execute(self, instructions: Iterable[Instruction]) -> None:
        """Execute instructions of the state machine, and those that follow from them; then send the messages."""
        self._pending.extend(instructions)
        if self._is_executing:
            return
        self._is_executing = True
        try:
            while self._pending:
                self._execute(self._pending.popleft())
        finally:
            self._is_executing = False
        self._flush()

    def _flush(self) -> None:
        if self._said and not self._holding:
            said, self._said = self._said, []
            self.send(said)

    def end(
        self, attempt: str, outcome: Outcome, output: str | None = None, error: str | None = None, left: Artifacts = ()
    ) -> None:
        """End an attempt, and begin the next one of its lease."""
        self.running.pop(attempt, None)
        self.done += outcome is Outcome.SUCCEEDED
        lease = self._leave_lease(attempt)
        self.execute(self.state_machine.ended(attempt, outcome, output, error, left))
        self._begin_first(lease)

    def end_as(self, attempt: str, ending: Ending) -> None:
        """End an attempt as planned, unless it has ended already."""
        if attempt in self.running:
            self.end(attempt, ending.outcome, ending.output, ending.error)

    # replaced by subclasses

    def next_session(self) -> str:
        """Name of the session that opens."""
        return f"{self.name}:{self._sessions}"

    def send(self, messages: Sequence[FromWorker]) -> None:
        """Send messages to the server."""
        raise NotImplementedError

    def end_after(self, seconds: float, attempt: str, ending: Ending) -> None:
        """Call `end_as` after some seconds. If several calls are planned for an attempt, the first one counts."""
        raise NotImplementedError

    def begin(self, assignment: Assignment) -> None:
        """Start an attempt, and plan its end."""
        self.execute(self.state_machine.started(assignment.attempt))
        ending = self._ending_of(assignment)
        if ending.seconds > 0:
            self.end_after(ending.seconds, assignment.attempt, ending)
        else:
            self.end_as(assignment.attempt, ending)

    def interrupt(self, attempt: str, grace_seconds: float) -> None:
        """Stop an attempt that runs."""
        self.end_after(grace_seconds, attempt, STOPPED)

    def withdraw(self, attempts: Iterable[str]) -> None:
        """Give those of these attempts back that have not begun."""
        back = [(attempt, self._leave_lease(attempt)) for attempt in attempts if attempt not in self.running]
        self.execute(self.state_machine.withdrawn([attempt for attempt, lease in back if lease is not None]))
        for _, lease in back:
            self._begin_first(lease)

    def persist(self, record: Record) -> bool:
        """Write a spool record; False if the worker dies meanwhile."""
        return True

    def prolong(self, message: Extended) -> None:
        """Change the time limit of an attempt."""

    def file_exists(self, path: str) -> bool:
        """Whether a file exists on this worker."""
        return False

    # instructions

    def _execute(self, instruction: Instruction) -> None:
        match instruction:
            case Send():
                self._said.append(instruction.message)
            case Persist():
                if not self.persist(instruction.record):
                    self._pending.clear()
                    self._said.clear()
            case LaunchRequest():
                self._launch(instruction.assignment, instruction.lease)
            case EndAttempt():
                if instruction.attempt in self.running:
                    self.interrupt(instruction.attempt, instruction.grace_seconds)
                elif instruction.attempt in self._lease_of:
                    self.end(instruction.attempt, Outcome.STOPPED)
            case WithdrawAttempts():
                self.withdraw(instruction.attempts)
            case Extended():
                self.prolong(instruction)
            case ProbeFile():
                self._said.append(FileProbed(instruction.question, exists=self.file_exists(instruction.path)))
            case _:
                assert_never(instruction)

    def _launch(self, assignment: Assignment, lease: str) -> None:
        """Begin an attempt after the earlier ones of its lease."""
        self._lease_of[assignment.attempt] = lease
        queue = self._leases.setdefault(lease, deque())
        queue.append(assignment)
        if len(queue) == 1:
            self._begin_first(lease)

    def _begin_first(self, lease: str | None) -> None:
        """Begin the first attempt of a lease, unless it runs."""
        queue = self._leases.get(lease) if lease is not None else None
        if queue and queue[0].attempt not in self.running:
            self.running[queue[0].attempt] = queue[0]
            self.begin(queue[0])

    def _leave_lease(self, attempt: str) -> str | None:
        """Take an attempt out of its lease. Returns the lease, or None if the attempt is in none."""
        lease = self._lease_of.pop(attempt, None)
        if lease is not None:
            queue = self._leases[lease]
            if queue[0].attempt == attempt:
                queue.popleft()
            else:
                queue.remove(next(one for one in queue if one.attempt == attempt))
            if not queue:
                del self._leases[lease]
        return lease


class Session(Protocol):
    """One end of a link, as a virtual worker sees it."""

    closed: bool

    async def next(self) -> list[ToWorker]:
        """Wait for messages of the server."""
        ...


S = TypeVar("S", bound=Session)


class Server(Protocol[S]):
    """Where a virtual worker registers: a leader."""

    def open_link(self, hello: Register) -> S:
        """Open a session."""
        ...

    def receive(self, link: S, messages: Sequence[FromWorker]) -> None:
        """Receive the worker's messages."""
        ...


class VirtualWorker(SimulatedWorker):
    """A simulated worker on a link of a leader, in virtual or real time."""

    def __init__(
        self, name: str, offer: Offer, clock: Clock, labels: dict[str, str] | None = None,
        ending_of: EndingOf = at_once,
    ) -> None:  # fmt: skip
        super().__init__(name, offer, labels, ending_of=ending_of)
        self._clock = clock
        self._send: Callable[[Sequence[FromWorker]], None] | None = None
        self._ends: list[tuple[float, str, Ending]] = []
        self._next_beat = clock.monotonic() + BEAT_SECONDS
        self._timer: asyncio.TimerHandle | None = None

    async def serve(self, server: Server[S]) -> None:
        """Work for a leader until the link is closed."""
        link = server.open_link(self.register())
        self._send = lambda messages: None if link.closed else server.receive(link, messages)
        try:
            self._set_timer()
            while not link.closed:
                self.take(await link.next())
        finally:
            self._send = None
            self._cancel_timer()
        self.state_machine.lost_session()

    def send(self, messages: Sequence[FromWorker]) -> None:
        """Send messages, unless the link is closed."""
        if self._send is not None:
            self._send(messages)

    def end_after(self, seconds: float, attempt: str, ending: Ending) -> None:
        """End an attempt at its time by the clock."""
        heapq.heappush(self._ends, (self._clock.monotonic() + seconds, attempt, ending))
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer of the next heartbeat or end, during a session.

        A plain timer, not a task: ten thousand of these workers run in one process.
        """
        if self._send is None:
            return
        at = min(self._next_beat, self._ends[0][0]) if self._ends else self._next_beat
        after = max(0.0, at - self._clock.monotonic())
        loop = asyncio.get_running_loop()
        if self._timer is not None and self._timer.when() <= loop.time() + after:
            return
        self._cancel_timer()
        self._timer = loop.call_later(after, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        """Send a heartbeat, and end attempts, if they are due."""
        self._timer = None
        now = self._clock.monotonic()
        with self.in_one_frame():
            if now >= self._next_beat:
                self._next_beat = now + BEAT_SECONDS
                self.execute(self.state_machine.beat())
            while self._ends and self._ends[0][0] <= now:
                _, attempt, ending = heapq.heappop(self._ends)
                self.end_as(attempt, ending)
        self._set_timer()
