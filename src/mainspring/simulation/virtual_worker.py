"""Virtual worker in the server's process: the real state machine and messages, and processes that do nothing.

It replaces the real agent where only the engine is of interest: in benchmarks, and tests of the host.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from mainspring.protocol.clock import Clock
from mainspring.protocol.wire import Assignment, FileProbed, FromWorker, Offer, Outcome, Register, ToWorker
from mainspring.worker.agent.instructions import (
    Instruction,
    Persist,
    Prolong,
    RunFileProbe,
    Send,
    Start,
    StopAttempt,
    Withdraw,
)
from mainspring.worker.agent.state_machine import StateMachine

BEAT_SECONDS = 5.0


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


def _at_once(_assignment: Assignment) -> float:
    return 0.0


class VirtualWorker:
    """A worker whose tasks succeed, at once or after a given time. A stopped task takes its full grace period."""

    def __init__(
        self, name: str, offer: Offer, clock: Clock, labels: dict[str, str] | None = None,
        seconds_of: Callable[[Assignment], float] = _at_once,
    ) -> None:  # fmt: skip
        self.name = name
        self.done = 0
        self._seconds_of = seconds_of
        self._ends: list[tuple[float, str, Outcome]] = []
        """When each task ends, and how. Of a task that stops earlier the first entry counts."""
        self._running: set[str] = set()
        self._offer = offer
        self._clock = clock
        self._labels = labels or {}
        self._state_machine = StateMachine()
        self._sessions = 0
        self._next_beat = clock.monotonic() + BEAT_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._timed_for = 0.0
        """Time of the current timer, by the clock."""

    async def serve(self, server: Server[S]) -> None:
        """Work for a leader until the link is closed."""
        self._sessions += 1
        hello = self._state_machine.register(
            Register(self.name, f"{self.name}:{self._sessions}", self._offer, self._labels)
        )
        link = server.open_link(hello)
        try:
            self._set_timer(server, link)
            while not link.closed:
                self._work(server, link, await link.next())
                self._set_timer(server, link)
        finally:
            self._cancel_timer()
        self._state_machine.lost_session()

    def _set_timer(self, server: Server[S], link: S) -> None:
        """Set the timer of the next action.

        A plain timer, not a task: ten thousand of these workers run in one process.
        """
        at = self._next_action_at()
        if self._timer is not None and self._timed_for <= at:
            return
        self._cancel_timer()
        after = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(after, self._on_timer, server, link)
        self._timed_for = at

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self, server: Server[S], link: S) -> None:
        """Run what is due."""
        self._timer = None
        if not link.closed:
            self._work(server, link, [])
            self._set_timer(server, link)

    def _next_action_at(self) -> float:
        """Time of the next action: a heartbeat, or the end of a task."""
        return min(self._next_beat, self._ends[0][0]) if self._ends else self._next_beat

    def _work(self, server: Server[S], link: S, messages: Sequence[ToWorker]) -> None:
        """Handle messages and what is due, and send what follows."""
        said: list[FromWorker] = []
        for message in messages:
            self._execute(self._state_machine.take(message), said)
        now = self._clock.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + BEAT_SECONDS
            self._execute(self._state_machine.beat(), said)
        self._end_due(said)
        if said:
            server.receive(link, said)

    def _execute(self, instructions: list[Instruction], said: list[FromWorker]) -> None:
        """Execute instructions of the state machine. This object is the journal."""
        waiting = deque(instructions)
        while waiting:
            instruction = waiting.popleft()
            match instruction:
                case Send():
                    said.append(instruction.message)
                case Start():
                    attempt = instruction.assignment.attempt
                    waiting.extend(self._state_machine.started(attempt))
                    seconds = self._seconds_of(instruction.assignment)
                    if seconds > 0:
                        self._running.add(attempt)
                        self._end_after(seconds, attempt, Outcome.SUCCEEDED)
                    else:
                        waiting.extend(self._end(attempt, Outcome.SUCCEEDED))
                case StopAttempt():
                    if instruction.attempt in self._running:
                        self._end_after(instruction.grace_seconds, instruction.attempt, Outcome.STOPPED)
                    else:
                        waiting.extend(self._end(instruction.attempt, Outcome.STOPPED))
                case RunFileProbe():
                    said.append(FileProbed(instruction.question, exists=False))
                case Persist() | Withdraw() | Prolong():
                    pass  # tasks start at once, and are never late
                case _:
                    raise TypeError(f"no handler for {instruction}")

    def _end_after(self, seconds: float, attempt: str, outcome: Outcome) -> None:
        heapq.heappush(self._ends, (self._clock.monotonic() + seconds, attempt, outcome))

    def _end_due(self, said: list[FromWorker]) -> None:
        """End tasks whose time is over."""
        now = self._clock.monotonic()
        while self._ends and self._ends[0][0] <= now:
            _, attempt, outcome = heapq.heappop(self._ends)
            if attempt in self._running:
                self._running.discard(attempt)
                self._execute(self._end(attempt, outcome), said)

    def _end(self, attempt: str, outcome: Outcome) -> list[Instruction]:
        self.done += outcome is Outcome.SUCCEEDED
        return self._state_machine.ended(attempt, outcome, "null" if outcome is Outcome.SUCCEEDED else None)
