"""State machine of a worker's attempts. Pure: it returns instructions and does no I/O itself.

    Assign ─► WAITING ──start──► LAUNCHED ──started──► RUNNING ──ended──► ENDED ──answer──► (forgotten)
                 ▲                   │                                      │
                 └─ while silent ─withdrawn─ recalled, leaving ─► (forgotten)  └─ answer "unknown" ─► kept as unknown

Each method takes an event and returns the instructions that follow, in order. A `Keep` must be on disk before any later
instruction is executed: that is how no promise is lost (I-50).

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

To add a message, handle it in `take`; to add a mark (`instructions.py`), replay it in `attempt_state.py`, and check
what `spool.py` keeps of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from mainspring.protocol.wire import (
    Answer,
    Artifacts,
    Assign,
    Beat,
    Checkpoint,
    Credit,
    Elsewhere,
    Ends,
    Extend,
    Extended,
    FromWorker,
    Leaving,
    LogKept,
    Look,
    Outcome,
    Progress,
    Recall,
    Received,
    Refusal,
    Register,
    Result,
    Returned,
    Started,
    Stop,
    ToWorker,
    Verdict,
    Welcome,
)
from mainspring.worker.agent.attempt_state import NOT_BEGUN, WITH_GUARD, Forgotten, Held, Phase, Running
from mainspring.worker.agent.instructions import Keep, Kill, LookFor, Mark, Prolong, Record, Say, Start, Step, TakeBack
from mainspring.worker.agent.verify import Verify, takes_all
from mainspring.worker.supervisor.supervisor_wire import Holding

MOST_ASIDE = 1_000
LONGEST_NOTE = 1_000


class Duties:
    """Attempts of one worker, from assignment to answer."""

    def __init__(self, verify: Verify = takes_all) -> None:
        self.session = ""
        self.leaving = False
        """The worker is shutting down: nothing more starts."""
        self.crowded = False
        """The spool is nearly full: no more work is accepted (I-53)."""
        self._verify = verify
        self._open = False
        self._silent = False
        self._credit = 0
        self._attempts: dict[str, Held] = {}
        self._told: tuple[str, ...] = ()
        """Attempts listed in this session's `Register`."""
        self._forgotten = Forgotten()
        self._unsent: deque[str] = deque()
        self._moved: dict[str, None] = {}
        self.aside: deque[Result] = deque(maxlen=MOST_ASIDE)
        """Results that the server did not recognize."""

    def holds(self) -> tuple[str, ...]:
        """Return the ids of all attempts."""
        return tuple(self._attempts)

    def running(self) -> list[Running]:
        """Return the attempts whose process is known to run."""
        held = self._attempts.items()
        return [Running(attempt, one.pid, one.created) for attempt, one in held if one.phase is Phase.RUNNING]

    def unfinished(self) -> list[str]:
        """Return the attempts that are launched or running."""
        return [attempt for attempt, held in self._attempts.items() if held.phase in WITH_GUARD]

    # the session

    def register(self, hello: Register) -> Register:
        """Open a session and list all attempts in it. The previous session is void."""
        self.session, self._open, self._credit = hello.session, False, 0
        self._told = self.holds()
        return msgspec.structs.replace(hello, holds=self._told)

    def lost_session(self) -> None:
        """The connection is lost; running attempts continue."""
        self._open = False

    def take(self, message: ToWorker) -> list[Step]:
        """Process a message of the server."""
        steps = self.heard()
        match message:
            case Assign():
                steps += self._assign(message)
            case Answer():
                steps += self._answer(message)
            case Credit():
                self._credit += message.results
                steps += self._send_results()
            case Welcome():
                steps += self._welcome(message)
            case Recall():
                steps += self._recall(message)
            case Stop():
                steps += self._stop(message)
            case Extended():
                steps += self._prolong(message)
            case Look():
                steps.append(LookFor(message.question, message.path))
            case LogKept() | Ends() | Elsewhere():
                pass  # handled by the log shipper, the artifact sweep and the uplink
        return steps

    def beat(self) -> list[Step]:
        """Send a heartbeat with the progress since the last one."""
        if not self._open:
            return []
        moved = [self._attempts[attempt].progress for attempt in self._moved if attempt in self._attempts]
        self._moved.clear()
        return [Say(Beat(tuple(progress for progress in moved if progress is not None)))]

    def silence(self) -> list[Step]:
        """Start nothing more: the server has been silent for so long that it may have rescheduled the work."""
        if self._silent:
            return []
        self._silent = True
        return self._ask_back(self._in_phase(Phase.HANDED_OVER))

    def heard(self) -> list[Step]:
        """The server responded: launch waiting attempts."""
        if not self._silent:
            return []
        self._silent = False
        return [step for attempt in self._in_phase(Phase.WAITING) for step in self._hand_over(attempt)]

    def leave(self) -> list[Step]:
        """Drain (WRK-9): start nothing more, return what has not started, finish the rest."""
        self.leaving = True
        steps = self._say(Leaving()) + self._give_back(self._in_phase(Phase.WAITING))
        return steps + self._ask_back(self._in_phase(Phase.HANDED_OVER))

    def crowd(self, crowded: bool) -> list[Step]:
        """Set whether the spool is nearly full (I-53). A server assigns work again only in the next session."""
        if crowded == self.crowded:
            return []
        self.crowded = crowded
        return self._say(Leaving()) if crowded else []

    # events of attempts

    def started(self, attempt: str, pid: int = 0, created: float = 0.0) -> list[Step]:
        """The attempt runs in this process."""
        held = self._attempts.get(attempt)
        if held is None or held.phase not in NOT_BEGUN:
            return []
        held.phase, held.pid, held.created = Phase.RUNNING, pid, created
        return [Keep(Record(Mark.STARTED, attempt, pid, created)), *self._say(Started(attempt))]

    def moved(self, attempt: str, percent: float | None, note: str) -> None:
        """The attempt reported progress; the next heartbeat sends it."""
        held = self._attempts.get(attempt)
        if held is not None and held.phase is Phase.RUNNING:
            held.progress = Progress(attempt, percent, note[:LONGEST_NOTE])
            self._moved[attempt] = None

    def saved(self, attempt: str, document: str) -> list[Step]:
        """The attempt saved a checkpoint. The latest one is kept until the result is answered (WRK-7)."""
        held = self._attempts.get(attempt)
        if held is None or held.phase is Phase.OVER:
            return []
        held.checkpoint = document
        return [Keep(Record(Mark.SAVED, attempt, document=document)), *self._say(Checkpoint(attempt, document))]

    def asked(self, attempt: str, seconds: float) -> list[Step]:
        """The attempt requests more time. Its progress is sent first: extensions require progress (LIV-4)."""
        held = self._attempts.get(attempt)
        if held is None or held.phase is Phase.OVER:
            return []
        held.asked = seconds
        return [*self.beat(), *self._say(Extend(attempt, seconds))]

    def ended(
        self, attempt: str, outcome: Outcome, output: str | None = None, error: str | None = None, left: Artifacts = (),
        *, passed: bool = False,
    ) -> list[Step]:  # fmt: skip
        """All processes of the attempt have ended: record and report the result. `passed`: its start was not reported
        yet."""
        held = self._attempts.get(attempt)
        if held is None or held.phase is Phase.OVER:
            return []
        begins = self._say(Started(attempt)) if passed and held.phase in NOT_BEGUN else []
        held.phase = Phase.OVER
        held.assignment = None
        held.result = Result(attempt, outcome, output, error, left)
        self._moved.pop(attempt, None)
        self._unsent.append(attempt)
        return [Keep(Record(Mark.ENDED, attempt, result=held.result)), *begins, *self._send_results()]

    def unbegun(self, attempts: Iterable[str]) -> list[Step]:
        """The supervisor gave these back unstarted. Return them to the server, or keep them until it responds."""
        back: list[str] = []
        steps: list[Step] = []
        for attempt in attempts:
            held = self._attempts.get(attempt)
            if held is None or held.phase is not Phase.HANDED_OVER:
                continue
            if held.recalled or self.leaving or held.assignment is None:
                back.append(attempt)
                continue
            held.phase = Phase.WAITING
            if not self._silent:
                steps += self._hand_over(attempt)
        return steps + self._give_back(back)

    def restore(self, journal: Iterable[Record]) -> None:
        """Rebuild the state of an earlier agent from its spool. Launched attempts stay so until `adopt`."""
        for record in journal:
            if record.mark is Mark.RECEIVED:
                self._attempts[record.attempt] = Held(Phase.HANDED_OVER)
            held = self._attempts[record.attempt]
            held.replay(record)
            if record.mark in (Mark.FORGOTTEN, Mark.ASIDE):
                self._forget(record.attempt)
            if record.mark is Mark.ASIDE and held.result is not None:
                self.aside.append(held.result)

    def adopt(self, holding: Holding, why: str) -> list[Step]:
        """Reconcile with a supervisor: continue the attempts that it has, and end the rest.

        An attempt that it does not know may have started under an earlier supervisor, which ended for the reason `why`.
        It is neither started (I-17) nor returned as never started: it is reported as stopped.
        """
        steps: list[Step] = []
        for ended in holding.ended:
            steps += self.ended(ended.attempt, ended.outcome, ended.output, ended.error, ended.artifacts)
        began, waiting = set(holding.began), set(holding.waiting)
        error = msgspec.json.encode(why).decode()
        for attempt in self.unfinished():
            if attempt in began:
                steps += self.started(attempt)
            elif attempt not in waiting:
                steps += self.ended(attempt, Outcome.STOPPED, None, error)
        unwanted = self._silent or self.leaving
        steps += self._ask_back(
            [one for one in holding.waiting if one in self._attempts and (unwanted or self._attempts[one].recalled)]
        )
        return steps + [Kill(one, 0.0) for one in (*holding.began, *holding.waiting) if one not in self._attempts]

    # messages of the server

    def _welcome(self, message: Welcome) -> list[Step]:
        """The session is open: resend everything the server may have missed, results last."""
        if message.session != self.session:
            return []
        self._open = True
        gone = tuple(attempt for attempt in self._told if attempt not in self._attempts)
        steps = self._say(Returned(gone)) if gone else []
        waiting = tuple(attempt for attempt, held in self._attempts.items() if held.phase in NOT_BEGUN)
        if waiting:
            steps += self._say(Received(waiting))
        if self.leaving or self.crowded:
            steps += self._say(Leaving())
        for attempt, held in self._attempts.items():
            for word in held.words(attempt):
                steps += self._say(word)
        self._unsent = deque(self._in_phase(Phase.OVER))
        return steps + self._send_results()

    def _assign(self, message: Assign) -> list[Step]:
        """Record a group, confirm it, launch it. Refuse what can't run here; return what is not wanted."""
        fresh = [
            one for one in message.group if one.attempt not in self._attempts and one.attempt not in self._forgotten
        ]
        if self.leaving or self.crowded:
            self._forget(*(one.attempt for one in fresh))
            return self._say(Returned(tuple(one.attempt for one in fresh))) if fresh else []
        refusals: list[Step] = []
        taken: list[str] = []
        for one in fresh:
            why = self._verify(one, message.needs)
            if why:
                self._forget(one.attempt)
                refusals += self._say(Refusal(one.attempt, why[:LONGEST_NOTE]))
            else:
                self._attempts[one.attempt] = Held(Phase.WAITING, message.lease, one, message.needs)
                taken.append(one.attempt)
        if not taken:
            return refusals
        steps: list[Step] = [Keep(Record(Mark.RECEIVED, attempt)) for attempt in taken]
        steps += self._say(Received(tuple(taken)))
        for attempt in taken:
            steps += self._hand_over(attempt)
        return steps + refusals

    def _answer(self, message: Answer) -> list[Step]:
        held = self._attempts.get(message.attempt)
        if held is None or held.result is None:
            return []
        self._forget(message.attempt)
        if message.verdict is Verdict.UNKNOWN:
            self.aside.append(held.result)
            return [Keep(Record(Mark.ASIDE, message.attempt))]
        return [Keep(Record(Mark.FORGOTTEN, message.attempt))]

    def _recall(self, message: Recall) -> list[Step]:
        """Return what has not started. For launched attempts the supervisor decides: `Unbegun`, or a later start."""
        steps: list[Step] = []
        back: list[str] = []
        to_withdraw: list[str] = []
        for attempt in message.attempts:
            held = self._attempts.get(attempt)
            if held is None:
                back.append(attempt)
            elif held.phase is Phase.HANDED_OVER:
                held.recalled = True
                to_withdraw.append(attempt)
            elif held.phase is Phase.RUNNING:
                steps += self._say(Started(attempt))
        return steps + self._give_back(back) + self._ask_back(to_withdraw)

    def _stop(self, message: Stop) -> list[Step]:
        held = self._attempts.get(message.attempt)
        if held is None:
            return self._say(Returned((message.attempt,)))
        return [] if held.phase is Phase.OVER else [Kill(message.attempt, message.grace_seconds)]

    def _prolong(self, message: Extended) -> list[Step]:
        held = self._attempts.get(message.attempt)
        if held is None or held.phase is Phase.OVER:
            return []
        held.asked = None
        return [Prolong(message.attempt, message.seconds, message.because)]

    # helpers

    def _in_phase(self, phase: Phase) -> list[str]:
        return [attempt for attempt, held in self._attempts.items() if held.phase is phase]

    def _hand_over(self, attempt: str) -> list[Step]:
        held = self._attempts[attempt]
        if self._silent or held.assignment is None:
            return []
        held.phase = Phase.HANDED_OVER
        return [Start(held.assignment, held.lease, held.needs)]

    def _ask_back(self, attempts: list[str]) -> list[Step]:
        return [TakeBack(tuple(attempts))] if attempts else []

    def _give_back(self, attempts: list[str]) -> list[Step]:
        """Return attempts that never started and that no one else has."""
        if not attempts:
            return []
        steps: list[Step] = [Keep(Record(Mark.FORGOTTEN, attempt)) for attempt in attempts if attempt in self._attempts]
        self._forget(*attempts)
        return steps + self._say(Returned(tuple(attempts)))

    def _forget(self, *attempts: str) -> None:
        for attempt in attempts:
            self._attempts.pop(attempt, None)
            self._moved.pop(attempt, None)
            self._forgotten.add(attempt)

    def _send_results(self) -> list[Step]:
        steps: list[Step] = []
        while self._open and self._unsent and self._credit > 0:
            held = self._attempts.get(self._unsent.popleft())
            if held is not None and held.result is not None:
                self._credit -= 1
                steps.append(Say(held.result))
        return steps

    def _say(self, message: FromWorker) -> list[Step]:
        return [Say(message)] if self._open else []
