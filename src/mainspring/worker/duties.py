"""What a worker has in hands, and what it must do next. Decides; starts, stops, writes and sends nothing itself.

    Assign ─► WAITING ──start──► RUNNING ──ended──► OVER ──answer──► (forgotten)
                 │ recalled, or stopped                 │ answer "unknown"
                 ▼                                      ▼
             (forgotten)                            kept aside

Each method takes something that happened and returns the steps that follow, in order. A `Keep` must be on disk before
any later step of the list is carried out: that is how nothing that was promised is lost (I-50).

1. An attempt is started at most once, also after a restart with the same journal (I-17).
2. A result is forgotten only on the server's answer. Nothing waits in memory only.
3. The attempts of one lease run one after another.
4. Results are sent on credit; everything else flows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from mainspring.wire import (
    Answer,
    Assign,
    Assignment,
    Beat,
    Credit,
    FromWorker,
    Offer,
    Outcome,
    Recall,
    Received,
    Register,
    Result,
    Returned,
    Started,
    Stop,
    ToWorker,
    Verdict,
    Welcome,
)

MOST_ASIDE = 1_000


class Mark(StrEnum):
    """What a line of the journal says of an attempt."""

    RECEIVED = "received"
    STARTED = "started"
    ENDED = "ended"
    FORGOTTEN = "forgotten"
    ASIDE = "aside"


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One line of the journal."""

    mark: Mark
    attempt: str
    lease: str = ""
    assignment: Assignment | None = None
    result: Result | None = None


class Step(msgspec.Struct, frozen=True, gc=False):
    """The root of what duties ask for."""


class Keep(Step, frozen=True):
    """Write this to the journal, durably, before going on."""

    record: Record


class Say(Step, frozen=True):
    """Send this to the server, if there is a session."""

    message: FromWorker


class Start(Step, frozen=True):
    """Start the process of this attempt, then call `started`."""

    assignment: Assignment


class Kill(Step, frozen=True):
    """End the process of this attempt: ask it, wait so long, then kill it. Then call `ended`."""

    attempt: str
    grace_seconds: float


class _Held(msgspec.Struct):
    assignment: Assignment
    lease: str
    starting: bool = False
    running: bool = False
    result: Result | None = None


class Duties:
    """The attempts of one worker, from assignment to answer."""

    def __init__(self) -> None:
        self.session = ""
        self._open = False
        self._credit = 0
        self._held: dict[str, _Held] = {}
        self._leases: dict[str, deque[str]] = {}
        """Attempts of each lease that are not over; the first one runs, or is next."""
        self._unsent: deque[str] = deque()
        self.aside: deque[Result] = deque(maxlen=MOST_ASIDE)
        """Results that nobody knew what to do with."""

    def holds(self) -> tuple[str, ...]:
        """All attempts that this worker has in hands."""
        return tuple(self._held)

    def running(self) -> list[str]:
        """Attempts whose process runs."""
        return [attempt for attempt, held in self._held.items() if held.running]

    # the session

    def register(self, worker: str, session: str, offer: Offer, labels: dict[str, str], zone: str = "") -> Register:
        """Open a session: what is left of an older one is void."""
        self.session, self._open, self._credit = session, False, 0
        return Register(worker, session, offer, labels, zone, "", self.holds())

    def lost_session(self) -> None:
        """The connection is gone. Everything goes on without it."""
        self._open = False

    def take(self, message: ToWorker) -> list[Step]:
        """The server says something."""
        match message:
            case Assign():
                return self._assign(message)
            case Answer():
                return self._answer(message)
            case Credit():
                self._credit += message.results
                return self._send_results()
            case Welcome():
                return self._welcome(message)
            case Recall():
                return self._recall(message)
            case Stop():
                return self._stop(message)

    def beat(self) -> list[Step]:
        """Some seconds have passed."""
        return [Say(Beat())] if self._open else []

    # processes

    def started(self, attempt: str) -> list[Step]:
        """The process of an attempt runs."""
        held = self._held.get(attempt)
        if held is None or held.result is not None:
            return []
        held.running = True
        return self._say(Started(attempt))

    def ended(self, attempt: str, outcome: Outcome, output: str | None = None, error: str | None = None) -> list[Step]:
        """The process of an attempt is gone: keep what it left, report it, and start the next one of its lease."""
        held = self._held.get(attempt)
        if held is None or held.result is not None:
            return []
        held.running = False
        held.result = Result(attempt, outcome, output, error)
        self._unsent.append(attempt)
        steps: list[Step] = [Keep(Record(Mark.ENDED, attempt, held.lease, None, held.result))]
        steps += self._send_results()
        return steps + (self._start_next(held.lease) if self._leave_lease(attempt, held.lease) else [])

    def restore(self, journal: Iterable[Record]) -> list[Step]:
        """A new agent has found this journal. What was running is not any more, unless the caller knows better."""
        for record in journal:
            self._replay(record)
        steps: list[Step] = []
        for attempt, held in list(self._held.items()):
            if held.running and held.result is None:
                steps += self.ended(attempt, Outcome.STOPPED, None, '"the worker was restarted"')
        for lease in list(self._leases):
            steps += self._start_next(lease)
        return steps

    # what the server's words mean

    def _welcome(self, message: Welcome) -> list[Step]:
        """A session is open: say again what the server may not have heard."""
        if message.session != self.session:
            return []
        self._open = True
        steps: list[Step] = []
        waiting = tuple(a for a, held in self._held.items() if not held.running and held.result is None)
        if waiting:
            steps += self._say(Received(waiting))
        for attempt in self.running():
            steps += self._say(Started(attempt))
        self._unsent = deque(attempt for attempt, held in self._held.items() if held.result is not None)
        return steps + self._send_results()

    def _assign(self, message: Assign) -> list[Step]:
        steps: list[Step] = []
        fresh = [one for one in message.group if one.attempt not in self._held]
        if not fresh:
            return steps
        for one in fresh:
            self._held[one.attempt] = _Held(one, message.lease)
            steps.append(Keep(Record(Mark.RECEIVED, one.attempt, message.lease, one)))
        self._leases.setdefault(message.lease, deque()).extend(one.attempt for one in fresh)
        steps += self._say(Received(tuple(one.attempt for one in fresh)))
        return steps + self._start_next(message.lease)

    def _answer(self, message: Answer) -> list[Step]:
        held = self._held.get(message.attempt)
        if held is None or held.result is None:
            return []
        del self._held[message.attempt]
        if message.verdict is Verdict.UNKNOWN:
            self.aside.append(held.result)
            return [Keep(Record(Mark.ASIDE, message.attempt))]
        return [Keep(Record(Mark.FORGOTTEN, message.attempt))]

    def _recall(self, message: Recall) -> list[Step]:
        steps: list[Step] = []
        returned = []
        for attempt in message.attempts:
            held = self._held.get(attempt)
            if held is None:
                returned.append(attempt)
            elif held.running:
                steps += self._say(Started(attempt))
            elif held.result is None and self._leases[held.lease][0] != attempt:
                steps.append(Keep(Record(Mark.FORGOTTEN, attempt)))
                self._leases[held.lease].remove(attempt)
                del self._held[attempt]
                returned.append(attempt)
        if returned:
            steps += self._say(Returned(tuple(returned)))
        return steps

    def _stop(self, message: Stop) -> list[Step]:
        held = self._held.get(message.attempt)
        if held is None:
            return self._say(Returned((message.attempt,)))
        if held.result is not None:
            return []
        if held.running or self._leases[held.lease][0] == message.attempt:
            return [Kill(message.attempt, message.grace_seconds)]
        return self.ended(message.attempt, Outcome.STOPPED)

    # helpers

    def _start_next(self, lease: str) -> list[Step]:
        """Start the first attempt of a lease. The journal says so before it happens: never twice."""
        line = self._leases.get(lease)
        if not line:
            return []
        held = self._held[line[0]]
        if held.starting:
            return []
        held.starting = True
        return [Keep(Record(Mark.STARTED, line[0], lease)), Start(held.assignment)]

    def _leave_lease(self, attempt: str, lease: str) -> bool:
        """Take an attempt out of its lease; True if the next one of it may start now."""
        line = self._leases.get(lease)
        if line is None or attempt not in line:
            return False
        first = line[0] == attempt
        line.remove(attempt)
        if not line:
            del self._leases[lease]
        return first and bool(line)

    def _send_results(self) -> list[Step]:
        steps: list[Step] = []
        while self._open and self._unsent and self._credit > 0:
            held = self._held.get(self._unsent.popleft())
            if held is not None and held.result is not None:
                self._credit -= 1
                steps.append(Say(held.result))
        return steps

    def _say(self, message: FromWorker) -> list[Step]:
        return [Say(message)] if self._open else []

    def _replay(self, record: Record) -> None:
        match record.mark:
            case Mark.RECEIVED:
                if record.assignment is not None:
                    self._held[record.attempt] = _Held(record.assignment, record.lease)
                    self._leases.setdefault(record.lease, deque()).append(record.attempt)
            case Mark.STARTED:
                held = self._held[record.attempt]
                held.starting = held.running = True
            case Mark.ENDED:
                held = self._held[record.attempt]
                held.running, held.result = False, record.result
                self._leave_lease(record.attempt, held.lease)
            case Mark.FORGOTTEN | Mark.ASIDE:
                held = self._held.pop(record.attempt)
                self._leave_lease(record.attempt, held.lease)
                if record.mark is Mark.ASIDE and held.result is not None:
                    self.aside.append(held.result)
