"""State machine of a worker's attempts. Pure: it returns instructions and does no I/O itself.

    Assign ─► WAITING ──start──► LAUNCHED ──started──► RUNNING ──ended──► ENDED ──answer──► (forgotten)
                 ▲                   │                                      │
                 └─ while silent ─withdrawn─ recalled, leaving ─► (forgotten)  └─ answer "unknown" ─► kept as unknown

Each method takes an event and returns the instructions that follow, in order. A `Persist` must be on disk before any
later instruction is executed: that is how no promise is lost (I-50).

A group is passed to the supervisor as a whole, which runs the attempts of a lease one after another and reports what
started and what ended. Only the supervisor knows what has not started, so withdrawing an attempt means asking the
supervisor first. An attempt is WAITING only while the server is silent: any message of a server ends that, and launches
the attempt before the message itself is processed.

1. An attempt is launched once. It is launched again only after the supervisor gave it back, and never after a
   restart of the agent: attempts that the supervisor does not know then have ended (I-17).
2. A result is forgotten only after the server's answer. Only work that has not started may exist in memory alone.
3. While the server is silent, and after `leave`, nothing more starts: waiting attempts are withdrawn.
4. Results are sent on credit; everything else is sent at once.
5. A forgotten attempt is not accepted again if its assignment is repeated.

To add a message, handle it in `take`; to add a mark (`instructions.py`), replay it in `AttemptState`, and check
what `spool.py` keeps of it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

import msgspec

from mainspring.protocol import wire
from mainspring.worker.agent.instructions import Instruction, Mark, Persist, Record, Send
from mainspring.worker.supervisor.supervisor_wire import EndAttempt, Inventory, LaunchRequest, WithdrawAttempts

MAX_UNKNOWN_RESULTS = 1_000
MAX_FORGOTTEN = 20_000
"""Forgotten attempts that are still known by id: far more than a session can repeat."""
MAX_NOTE_LENGTH = 1_000
DEFAULT_LOST_AFTER_SECONDS = 15.0
"""Until a server says otherwise."""


class Phase(Enum):
    """Where an attempt is on this worker."""

    WAITING = 1
    LAUNCHED = 2
    RUNNING = 3
    ENDED = 4


NOT_STARTED = frozenset({Phase.WAITING, Phase.LAUNCHED})
WITH_SUPERVISOR = frozenset({Phase.LAUNCHED, Phase.RUNNING})


class AttemptState(msgspec.Struct):
    """One attempt of this worker."""

    phase: Phase
    lease: str = ""
    assignment: wire.Assignment | None = None
    """None after a restart: the spool does not contain it, as it holds a secret and is never started from there."""
    needs: wire.Offer = wire.Offer(0, 0)
    recall_requested: bool = False
    pid: int = 0
    created: float = 0.0
    checkpoint: str | None = None
    progress: wire.Progress | None = None
    extension_requested: float | None = None
    """Seconds of extension that the attempt requested and that are not answered yet."""
    result: wire.Result | None = None

    def unconfirmed(self, attempt: str) -> Iterator[wire.FromWorker]:
        """Messages that the server may have missed, except the result."""
        if self.phase is Phase.RUNNING:
            yield wire.Started(attempt)
            if self.progress is not None:
                yield wire.Heartbeat((self.progress,))
        if self.checkpoint is not None:
            yield wire.Checkpoint(attempt, self.checkpoint)
        if self.extension_requested is not None and self.phase is not Phase.ENDED:
            yield wire.Extend(attempt, self.extension_requested)

    def replay(self, record: Record) -> None:
        """Apply a spool record."""
        match record.mark:
            case Mark.STARTED:
                self.phase, self.pid, self.created = Phase.RUNNING, record.pid, record.created
            case Mark.SAVED:
                self.checkpoint = record.document
            case Mark.ENDED:
                self.phase, self.result = Phase.ENDED, record.result
            case Mark.RECEIVED | Mark.FORGOTTEN | Mark.UNKNOWN:
                pass  # adding and removing attempts is up to the caller


class StateMachine:
    """Attempts of one worker, from assignment to answer."""

    def __init__(self, verify: Callable[[wire.Assignment, wire.Offer], str] = lambda _assignment, _needs: "") -> None:
        """`verify` returns why this worker can't run an assignment with these resources (PLC-7); empty if it can."""
        self.session = ""
        self.lost_after_seconds = DEFAULT_LOST_AFTER_SECONDS
        """Seconds without a heartbeat after which the server reschedules the attempts."""
        self.leaving = False
        """The worker is shutting down: nothing more starts."""
        self.spool_full = False
        """The spool is nearly full: no more work is accepted (I-53)."""
        self._verify = verify
        self._open = False
        self._silent = False
        self._credit = 0
        self._attempts: dict[str, AttemptState] = {}
        self._registered: tuple[str, ...] = ()
        """Attempts listed in this session's `Register`."""
        # Not a plain dict: finding its first key scans all deleted slots, which took a tenth of an agent's time.
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        self._unsent: deque[str] = deque()
        self._progressed: dict[str, None] = {}
        self.unknown_results: deque[wire.Result] = deque(maxlen=MAX_UNKNOWN_RESULTS)
        """Results that the server did not recognize."""

    def holds(self) -> tuple[str, ...]:
        """Return the ids of all attempts."""
        return tuple(self._attempts)

    def running(self) -> list[Record]:
        """Return the attempts whose process is known to run, with their pids."""
        found = [(attempt, one) for attempt, one in self._attempts.items() if one.phase is Phase.RUNNING]
        return [Record(Mark.STARTED, attempt, one.pid, one.created) for attempt, one in found]

    def unfinished(self) -> list[str]:
        """Return the attempts that are launched or running."""
        return [attempt for attempt, state in self._attempts.items() if state.phase in WITH_SUPERVISOR]

    # the session

    def register(self, hello: wire.Register) -> wire.Register:
        """Open a session and list all attempts in it. The previous session is void."""
        self.session, self._open, self._credit = hello.session, False, 0
        self._registered = self.holds()
        return msgspec.structs.replace(hello, holds=self._registered)

    def lost_session(self) -> None:
        """The connection is lost; running attempts continue."""
        self._open = False

    def take(self, message: wire.ToWorker) -> list[Instruction]:
        """Process a message of the server."""
        instructions = self.server_responded()
        match message:
            case wire.Assign():
                instructions += self._take_group(message)
            case wire.Answer():
                instructions += self._answer(message)
            case wire.Credit():
                self._credit += message.results
                instructions += self._send_results()
            case wire.Welcome():
                instructions += self._welcome(message)
            case wire.Recall():
                instructions += self._recall(message)
            case wire.Stop():
                instructions += self._stop(message)
            case wire.Extended():
                instructions += self._prolong(message)
            case wire.ProbeFile():
                instructions.append(message)
            case wire.LogStored() | wire.RunEnds() | wire.Redirect():
                pass  # handled by the log shipper, the artifact sweep and the uplink
        return instructions

    def beat(self) -> list[Instruction]:
        """Send a heartbeat with the progress since the last one."""
        if not self._open:
            return []
        progressed = [self._attempts[attempt].progress for attempt in self._progressed if attempt in self._attempts]
        self._progressed.clear()
        return [Send(wire.Heartbeat(tuple(progress for progress in progressed if progress is not None)))]

    def silence(self) -> list[Instruction]:
        """Start nothing more: the server has been silent for so long that it may have rescheduled the work."""
        if self._silent:
            return []
        self._silent = True
        return self._withdraw(self._in_phase(Phase.LAUNCHED))

    def server_responded(self) -> list[Instruction]:
        """The server responded: launch waiting attempts."""
        if not self._silent:
            return []
        self._silent = False
        return [instruction for attempt in self._in_phase(Phase.WAITING) for instruction in self._launch(attempt)]

    def leave(self) -> list[Instruction]:
        """Drain (WRK-9): start nothing more, return what has not started, finish the rest."""
        self.leaving = True
        instructions = self._send(wire.Leaving()) + self._return(self._in_phase(Phase.WAITING))
        return instructions + self._withdraw(self._in_phase(Phase.LAUNCHED))

    def set_spool_full(self, spool_full: bool) -> list[Instruction]:
        """Set whether the spool is nearly full (I-53). A server assigns work again only in the next session."""
        if spool_full == self.spool_full:
            return []
        self.spool_full = spool_full
        return self._send(wire.Leaving()) if spool_full else []

    # events of attempts

    def started(self, attempt: str, pid: int = 0, created: float = 0.0) -> list[Instruction]:
        """The attempt runs in this process."""
        state = self._attempts.get(attempt)
        if state is None or state.phase not in NOT_STARTED:
            return []
        state.phase, state.pid, state.created = Phase.RUNNING, pid, created
        return [Persist(Record(Mark.STARTED, attempt, pid, created)), *self._send(wire.Started(attempt))]

    def progressed(self, attempt: str, percent: float | None, note: str) -> None:
        """The attempt reported progress; the next heartbeat sends it."""
        state = self._attempts.get(attempt)
        if state is not None and state.phase is Phase.RUNNING:
            state.progress = wire.Progress(attempt, percent, note[:MAX_NOTE_LENGTH])
            self._progressed[attempt] = None

    def checkpoint_saved(self, attempt: str, document: str) -> list[Instruction]:
        """The attempt saved a checkpoint. The latest one is kept until the result is answered (WRK-7)."""
        state = self._attempts.get(attempt)
        if state is None or state.phase is Phase.ENDED:
            return []
        state.checkpoint = document
        return [
            Persist(Record(Mark.SAVED, attempt, document=document)),
            *self._send(wire.Checkpoint(attempt, document)),
        ]

    def extension_requested(self, attempt: str, seconds: float) -> list[Instruction]:
        """The attempt requests more time. Its progress is sent first: extensions require progress (LIV-4)."""
        state = self._attempts.get(attempt)
        if state is None or state.phase is Phase.ENDED:
            return []
        state.extension_requested = seconds
        return [*self.beat(), *self._send(wire.Extend(attempt, seconds))]

    def ended(
        self, attempt: str, outcome: wire.Outcome, output: str | None = None, error: str | None = None,
        artifacts: wire.Artifacts = (), *, just_started: bool = False,
    ) -> list[Instruction]:  # fmt: skip
        """All processes of the attempt have ended: record and report the result.

        `just_started`: its start was not reported yet.
        """
        state = self._attempts.get(attempt)
        if state is None or state.phase is Phase.ENDED:
            return []
        begins = self._send(wire.Started(attempt)) if just_started and state.phase in NOT_STARTED else []
        state.phase = Phase.ENDED
        state.assignment = None
        state.result = wire.Result(attempt, outcome, output, error, artifacts)
        self._progressed.pop(attempt, None)
        self._unsent.append(attempt)
        return [Persist(Record(Mark.ENDED, attempt, result=state.result)), *begins, *self._send_results()]

    def withdrawn(self, attempts: Iterable[str]) -> list[Instruction]:
        """The supervisor gave these back unstarted. Return them to the server, or keep them until it responds."""
        back: list[str] = []
        instructions: list[Instruction] = []
        for attempt in attempts:
            state = self._attempts.get(attempt)
            if state is None or state.phase is not Phase.LAUNCHED:
                continue
            if state.recall_requested or self.leaving or state.assignment is None:
                back.append(attempt)
                continue
            state.phase = Phase.WAITING
            if not self._silent:
                instructions += self._launch(attempt)
        return instructions + self._return(back)

    def restore(self, spool: Iterable[Record]) -> None:
        """Rebuild the state of an earlier agent from its spool. Launched attempts stay so until `adopt`."""
        for record in spool:
            if record.mark is Mark.RECEIVED:
                self._attempts[record.attempt] = AttemptState(Phase.LAUNCHED)
            state = self._attempts[record.attempt]
            state.replay(record)
            if record.mark in (Mark.FORGOTTEN, Mark.UNKNOWN):
                self._forget(record.attempt)
            if record.mark is Mark.UNKNOWN and state.result is not None:
                self.unknown_results.append(state.result)

    def adopt(self, inventory: Inventory, why: str) -> list[Instruction]:
        """Reconcile with a supervisor: continue the attempts that it has, and end the rest.

        An attempt that it does not know may have started under an earlier supervisor, which ended for the reason `why`.
        It is neither started (I-17) nor returned as never started: it is reported as stopped.
        """
        instructions: list[Instruction] = []
        for ended in inventory.ended:
            instructions += self.ended(ended.attempt, ended.outcome, ended.output, ended.error, ended.artifacts)
        began, waiting = set(inventory.began), set(inventory.waiting)
        error = msgspec.json.encode(why).decode()
        for attempt in self.unfinished():
            if attempt in began:
                instructions += self.started(attempt)
            elif attempt not in waiting:
                instructions += self.ended(attempt, wire.Outcome.STOPPED, None, error)
        known = [one for one in inventory.waiting if one in self._attempts]
        unwanted = self._silent or self.leaving
        instructions += self._withdraw([one for one in known if unwanted or self._attempts[one].recall_requested])
        return instructions + [
            EndAttempt(one, 0.0) for one in (*inventory.began, *inventory.waiting) if one not in self._attempts
        ]

    # messages of the server

    def _welcome(self, message: wire.Welcome) -> list[Instruction]:
        """The session is open: resend everything the server may have missed, results last."""
        if message.session != self.session:
            return []
        self._open = True
        self.lost_after_seconds = message.lost_after_seconds
        gone = tuple(attempt for attempt in self._registered if attempt not in self._attempts)
        instructions = self._send(wire.Returned(gone)) if gone else []
        waiting = tuple(attempt for attempt, state in self._attempts.items() if state.phase in NOT_STARTED)
        if waiting:
            instructions += self._send(wire.Received(waiting))
        if self.leaving or self.spool_full:
            instructions += self._send(wire.Leaving())
        for attempt, state in self._attempts.items():
            for unconfirmed in state.unconfirmed(attempt):
                instructions += self._send(unconfirmed)
        self._unsent = deque(self._in_phase(Phase.ENDED))
        return instructions + self._send_results()

    def _take_group(self, message: wire.Assign) -> list[Instruction]:
        """Record a group, confirm it, launch it. Refuse what can't run here; return what is not wanted."""
        fresh = [
            one for one in message.group if one.attempt not in self._attempts and one.attempt not in self._forgotten
        ]
        if self.leaving or self.spool_full:
            self._forget(*(one.attempt for one in fresh))
            return self._send(wire.Returned(tuple(one.attempt for one in fresh))) if fresh else []
        refusals: list[Instruction] = []
        taken: list[str] = []
        for one in fresh:
            why = self._verify(one, message.needs)
            if why:
                self._forget(one.attempt)
                refusals += self._send(wire.Refusal(one.attempt, why[:MAX_NOTE_LENGTH]))
            else:
                self._attempts[one.attempt] = AttemptState(Phase.WAITING, message.lease, one, message.needs)
                taken.append(one.attempt)
        if not taken:
            return refusals
        instructions: list[Instruction] = [Persist(Record(Mark.RECEIVED, attempt)) for attempt in taken]
        instructions += self._send(wire.Received(tuple(taken)))
        for attempt in taken:
            instructions += self._launch(attempt)
        return instructions + refusals

    def _answer(self, message: wire.Answer) -> list[Instruction]:
        state = self._attempts.get(message.attempt)
        if state is None or state.result is None:
            return []
        self._forget(message.attempt)
        if message.verdict is wire.Verdict.UNKNOWN:
            self.unknown_results.append(state.result)
            return [Persist(Record(Mark.UNKNOWN, message.attempt))]
        return [Persist(Record(Mark.FORGOTTEN, message.attempt))]

    def _recall(self, message: wire.Recall) -> list[Instruction]:
        """Return what has not started. For launched attempts the supervisor decides: `Withdrawn`, or a later start."""
        instructions: list[Instruction] = []
        back: list[str] = []
        to_withdraw: list[str] = []
        for attempt in message.attempts:
            state = self._attempts.get(attempt)
            if state is None:
                back.append(attempt)
            elif state.phase is Phase.LAUNCHED:
                state.recall_requested = True
                to_withdraw.append(attempt)
            elif state.phase is Phase.RUNNING:
                instructions += self._send(wire.Started(attempt))
        return instructions + self._return(back) + self._withdraw(to_withdraw)

    def _stop(self, message: wire.Stop) -> list[Instruction]:
        state = self._attempts.get(message.attempt)
        if state is None:
            return self._send(wire.Returned((message.attempt,)))
        return [] if state.phase is Phase.ENDED else [EndAttempt(message.attempt, message.grace_seconds)]

    def _prolong(self, message: wire.Extended) -> list[Instruction]:
        state = self._attempts.get(message.attempt)
        if state is None or state.phase is Phase.ENDED:
            return []
        state.extension_requested = None
        return [message]

    # helpers

    def _in_phase(self, phase: Phase) -> list[str]:
        return [attempt for attempt, state in self._attempts.items() if state.phase is phase]

    def _launch(self, attempt: str) -> list[Instruction]:
        state = self._attempts[attempt]
        if self._silent or state.assignment is None:
            return []
        state.phase = Phase.LAUNCHED
        return [LaunchRequest(state.assignment, state.lease, state.needs)]

    def _withdraw(self, attempts: list[str]) -> list[Instruction]:
        return [WithdrawAttempts(tuple(attempts))] if attempts else []

    def _return(self, attempts: list[str]) -> list[Instruction]:
        """Return attempts that never started and that no one else has."""
        if not attempts:
            return []
        instructions: list[Instruction] = [
            Persist(Record(Mark.FORGOTTEN, attempt)) for attempt in attempts if attempt in self._attempts
        ]
        self._forget(*attempts)
        return instructions + self._send(wire.Returned(tuple(attempts)))

    def _forget(self, *attempts: str) -> None:
        for attempt in attempts:
            self._attempts.pop(attempt, None)
            self._progressed.pop(attempt, None)
            self._forgotten[attempt] = None
            if len(self._forgotten) > MAX_FORGOTTEN:
                self._forgotten.popitem(last=False)

    def _send_results(self) -> list[Instruction]:
        instructions: list[Instruction] = []
        while self._open and self._unsent and self._credit > 0:
            state = self._attempts.get(self._unsent.popleft())
            if state is not None and state.result is not None:
                self._credit -= 1
                instructions.append(Send(state.result))
        return instructions

    def _send(self, message: wire.FromWorker) -> list[Instruction]:
        return [Send(message)] if self._open else []
