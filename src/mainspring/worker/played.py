"""A worker that is played inside the server's process: the real duties and messages, and processes that take no time.

It stands in for the real agent where only the engine is of interest: `make up`, the benchmarks, and tests of the host.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeVar

from mainspring.clock import Clock
from mainspring.wire import FromWorker, Offer, Outcome, Register, Seen, ToWorker
from mainspring.worker.duties import Duties
from mainspring.worker.steps import Keep, Kill, LookFor, Prolong, Say, Start, Step, TakeBack

BEAT_SECONDS = 5.0


class Session(Protocol):
    """One end of a link, as a played worker sees it."""

    closed: bool

    async def next(self) -> list[ToWorker]:
        """What the server says."""
        ...


S = TypeVar("S", bound=Session)


class Server(Protocol[S]):
    """Where a played worker registers: a leader."""

    def open_link(self, hello: Register) -> S:
        """Open a session."""
        ...

    def receive(self, link: S, messages: Sequence[FromWorker]) -> None:
        """Take what the worker says."""
        ...


class PlayedWorker:
    """A worker whose tasks succeed at once."""

    def __init__(self, name: str, offer: Offer, clock: Clock, labels: dict[str, str] | None = None) -> None:
        self.name = name
        self.done = 0
        self._offer = offer
        self._clock = clock
        self._labels = labels or {}
        self._duties = Duties()
        self._sessions = 0
        self._next_beat = clock.monotonic() + BEAT_SECONDS

    async def serve(self, server: Server[S]) -> None:
        """Work for a leader until the link is closed."""
        self._sessions += 1
        hello = self._duties.register(Register(self.name, f"{self.name}:{self._sessions}", self._offer, self._labels))
        link = server.open_link(hello)
        while not link.closed:
            said: list[FromWorker] = []
            for message in await self._hear(link):
                self._carry_out(self._duties.take(message), said)
            if self._clock.monotonic() >= self._next_beat:
                self._next_beat = self._clock.monotonic() + BEAT_SECONDS
                self._carry_out(self._duties.beat(), said)
            if said:
                server.receive(link, said)
        self._duties.lost_session()

    async def _hear(self, link: Session) -> list[ToWorker]:
        """What the server says; nothing if it is time for a beat first."""
        try:
            async with asyncio.timeout(max(0.0, self._next_beat - self._clock.monotonic())):
                return await link.next()
        except TimeoutError:
            return []

    def _carry_out(self, steps: list[Step], said: list[FromWorker]) -> None:
        """Do what duties ask for. Starting and ending take no time, and the journal is this object."""
        waiting = deque(steps)
        while waiting:
            step = waiting.popleft()
            match step:
                case Say():
                    said.append(step.message)
                case Start():
                    attempt = step.assignment.attempt
                    waiting.extend(self._duties.started(attempt))
                    waiting.extend(self._duties.ended(attempt, Outcome.SUCCEEDED, "null"))
                    self.done += 1
                case Kill():
                    waiting.extend(self._duties.ended(step.attempt, Outcome.STOPPED))
                case LookFor():
                    said.append(Seen(step.question, exists=False))
                case Keep() | TakeBack() | Prolong():
                    pass  # what was started is over by now
                case _:
                    raise TypeError(f"nobody carries out {step}")
