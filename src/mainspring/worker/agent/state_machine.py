"""What a worker has in hands, and what it must do next. Decides; starts, stops, writes and sends nothing itself.

    Assign ─► WAITING ──start──► HANDED OVER ──began──► RUNNING ──ended──► OVER ──answer──► (forgotten)
                 ▲                    │                                     │
                 └─── in silence ──unbegun── recalled, left ─► (forgotten)  └─ answer "unknown" ─► kept aside

Each method takes something that happened and returns the steps that follow, in order. A `Keep` must be on disk before
any later step of the list is carried out: that is how nothing that was promised is lost (I-50).

A group is handed to the guard whole, which runs the members of a lease one after another and says what began and what
ended. Whoever wants an attempt back therefore asks the guard first: only the guard knows what has not begun. Something
is WAITING only in silence: any word of a server ends that, and hands it over, before the word itself is taken.

1. An attempt is handed over once. It is handed over again only after the guard gave it back, and never after a restart
   of the agent: what the guard does not know then is over (I-17).
2. A result is forgotten only on the server's answer. Nothing waits in memory only, but for work that has not begun.
3. In silence, and after `leave`, nothing more begins: what waits is asked back.
4. Results are sent on credit; everything else flows.
5. An attempt that was forgotten is not taken again, should its assignment be repeated.

When you add a message, take it in `take`; when you add a mark (`instructions.py`), replay it in `attempt_state.py`, and
see what `spool.py` keeps of it.
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
    """The attempts of one worker, from assignment to answer."""

    def __init__(self, verify: Verify = takes_all) -> None:
        self.session = ""
        self.leaving = False
        """The worker was asked to leave: nothing more begins."""
        self.crowded = False
        """The journal is nearly full: nothing more is taken (I-53)."""
        self._verify = verify
        self._open = False
        self._silent = False
        self._credit = 0
        self._held: dict[str, Held] = {}
        self._told: tuple[str, ...] = ()
        """What this session's `Register` said is held."""
        self._forgotten = Forgotten()
        self._unsent: deque[str] = deque()
        self._moved: dict[str, None] = {}
        self.aside: deque[Result] = deque(maxlen=MOST_ASIDE)
        """Results that nobody knew what to do with."""

    def holds(self) -> tuple[str, ...]:
        """All attempts that this worker has in hands."""
        return tuple(self._held)

    def running(self) -> list[Running]:
        """Attempts whose process runs, as far as is known."""
        held = self._held.items()
        return [Running(attempt, one.pid, one.created) for attempt, one in held if one.phase is Phase.RUNNING]

    def unfinished(self) -> list[str]:
        """Attempts that are handed over or run."""
        return [attempt for attempt, held in self._held.items() if held.phase in WITH_GUARD]

    # the session

    def register(self, hello: Register) -> Register:
        """Open a session, and say all that is held in it: what is left of an older one is void."""
        self.session, self._open, self._credit = hello.session, False, 0
        self._told = self.holds()
        return msgspec.structs.replace(hello, holds=self._told)

    def lost_session(self) -> None:
        """The connection is gone. Everything goes on without it."""
        self._open = False

    def take(self, message: ToWorker) -> list[Step]:
        """The server says something."""
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
                pass  # for those who look after files, and for the uplink
        return steps

    def beat(self) -> list[Step]:
        """Some seconds have passed: say so, and how far those are that moved."""
        if not self._open:
            return []
        moved = [self._held[attempt].progress for attempt in self._moved if attempt in self._held]
        self._moved.clear()
        return [Say(Beat(tuple(progress for progress in moved if progress is not None)))]

    def silence(self) -> list[Step]:
        """No server has been heard of for so long that it may have given this work to others: begin nothing more."""
        if self._silent:
            return []
        self._silent = True
        return self._ask_back(self._in_phase(Phase.HANDED_OVER))

    def heard(self) -> list[Step]:
        """A server was heard of: what waits may begin."""
        if not self._silent:
            return []
        self._silent = False
        return [step for attempt in self._in_phase(Phase.WAITING) for step in self._hand_over(attempt)]

    def leave(self) -> list[Step]:
        """Begin nothing more, give back what has not begun, finish the rest (WRK-9)."""
        self.leaving = True
        steps = self._say(Leaving()) + self._give_back(self._in_phase(Phase.WAITING))
        return steps + self._ask_back(self._in_phase(Phase.HANDED_OVER))

    def crowd(self, crowded: bool) -> list[Step]:
        """Whether the journal is nearly full (I-53). A server gives work again only in the next session."""
        if crowded == self.crowded:
            return []
        self.crowded = crowded
        return self._say(Leaving()) if crowded else []

    # what becomes of attempts

    def started(self, attempt: str, pid: int = 0, created: float = 0.0) -> list[Step]:
        """An attempt runs, in this process."""
        held = self._held.get(attempt)
        if held is None or held.phase not in NOT_BEGUN:
            return []
        held.phase, held.pid, held.created = Phase.RUNNING, pid, created
        return [Keep(Record(Mark.STARTED, attempt, pid, created)), *self._say(Started(attempt))]

    def moved(self, attempt: str, percent: float | None, note: str) -> None:
        """An attempt says how far it is. The next beat tells."""
        held = self._held.get(attempt)
        if held is not None and held.phase is Phase.RUNNING:
            held.progress = Progress(attempt, percent, note[:LONGEST_NOTE])
            self._moved[attempt] = None

    def saved(self, attempt: str, document: str) -> list[Step]:
        """An attempt has saved a checkpoint. The latest one is kept until the result is answered (WRK-7)."""
        held = self._held.get(attempt)
        if held is None or held.phase is Phase.OVER:
            return []
        held.checkpoint = document
        return [Keep(Record(Mark.SAVED, attempt, document=document)), *self._say(Checkpoint(attempt, document))]

    def asked(self, attempt: str, seconds: float) -> list[Step]:
        """An attempt needs more time. Its progress goes first: more is given only while there is some (LIV-4)."""
        held = self._held.get(attempt)
        if held is None or held.phase is Phase.OVER:
            return []
        held.asked = seconds
        return [*self.beat(), *self._say(Extend(attempt, seconds))]

    def ended(
        self, attempt: str, outcome: Outcome, output: str | None = None, error: str | None = None, left: Artifacts = (),
        *, passed: bool = False,
    ) -> list[Step]:  # fmt: skip
        """Nothing of an attempt runs any more: keep what it left, and report it. What `passed` began just now, too."""
        held = self._held.get(attempt)
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
        """The guard gave these back: they never began. Give them back too, or hold them until a server is heard of."""
        back: list[str] = []
        steps: list[Step] = []
        for attempt in attempts:
            held = self._held.get(attempt)
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
        """A new agent has found this journal. What was handed over is, until `adopt` says what became of it."""
        for record in journal:
            if record.mark is Mark.RECEIVED:
                self._held[record.attempt] = Held(Phase.HANDED_OVER)
            held = self._held[record.attempt]
            held.replay(record)
            if record.mark in (Mark.FORGOTTEN, Mark.ASIDE):
                self._forget(record.attempt)
            if record.mark is Mark.ASIDE and held.result is not None:
                self.aside.append(held.result)

    def adopt(self, holding: Holding, why: str) -> list[Step]:
        """A guard is here, an older or a new one, and this is all it has: go on with that, and end the rest.

        An attempt that it does not know may have begun under another one, which is gone for the reason `why`. It is not
        started (I-17), and not given back as if it never had begun: it is reported as stopped.
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
            [one for one in holding.waiting if one in self._held and (unwanted or self._held[one].recalled)]
        )
        return steps + [Kill(one, 0.0) for one in (*holding.began, *holding.waiting) if one not in self._held]

    # what the server's words mean

    def _welcome(self, message: Welcome) -> list[Step]:
        """A session is open: say again what the server may not have heard, results last."""
        if message.session != self.session:
            return []
        self._open = True
        gone = tuple(attempt for attempt in self._told if attempt not in self._held)
        steps = self._say(Returned(gone)) if gone else []
        waiting = tuple(attempt for attempt, held in self._held.items() if held.phase in NOT_BEGUN)
        if waiting:
            steps += self._say(Received(waiting))
        if self.leaving or self.crowded:
            steps += self._say(Leaving())
        for attempt, held in self._held.items():
            for word in held.words(attempt):
                steps += self._say(word)
        self._unsent = deque(self._in_phase(Phase.OVER))
        return steps + self._send_results()

    def _assign(self, message: Assign) -> list[Step]:
        """Keep a group, confirm it, hand it over whole. What can't be run is refused, what is not wanted returned."""
        fresh = [one for one in message.group if one.attempt not in self._held and one.attempt not in self._forgotten]
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
                self._held[one.attempt] = Held(Phase.WAITING, message.lease, one, message.needs)
                taken.append(one.attempt)
        if not taken:
            return refusals
        steps: list[Step] = [Keep(Record(Mark.RECEIVED, attempt)) for attempt in taken]
        steps += self._say(Received(tuple(taken)))
        for attempt in taken:
            steps += self._hand_over(attempt)
        return steps + refusals

    def _answer(self, message: Answer) -> list[Step]:
        held = self._held.get(message.attempt)
        if held is None or held.result is None:
            return []
        self._forget(message.attempt)
        if message.verdict is Verdict.UNKNOWN:
            self.aside.append(held.result)
            return [Keep(Record(Mark.ASIDE, message.attempt))]
        return [Keep(Record(Mark.FORGOTTEN, message.attempt))]

    def _recall(self, message: Recall) -> list[Step]:
        """Give back what has not begun. For what the guard has, its answer is ours: `Unbegun`, or the coming start."""
        steps: list[Step] = []
        back: list[str] = []
        to_withdraw: list[str] = []
        for attempt in message.attempts:
            held = self._held.get(attempt)
            if held is None:
                back.append(attempt)
            elif held.phase is Phase.HANDED_OVER:
                held.recalled = True
                to_withdraw.append(attempt)
            elif held.phase is Phase.RUNNING:
                steps += self._say(Started(attempt))
        return steps + self._give_back(back) + self._ask_back(to_withdraw)

    def _stop(self, message: Stop) -> list[Step]:
        held = self._held.get(message.attempt)
        if held is None:
            return self._say(Returned((message.attempt,)))
        return [] if held.phase is Phase.OVER else [Kill(message.attempt, message.grace_seconds)]

    def _prolong(self, message: Extended) -> list[Step]:
        held = self._held.get(message.attempt)
        if held is None or held.phase is Phase.OVER:
            return []
        held.asked = None
        return [Prolong(message.attempt, message.seconds, message.because)]

    # what is common to them

    def _in_phase(self, phase: Phase) -> list[str]:
        return [attempt for attempt, held in self._held.items() if held.phase is phase]

    def _hand_over(self, attempt: str) -> list[Step]:
        held = self._held[attempt]
        if self._silent or held.assignment is None:
            return []
        held.phase = Phase.HANDED_OVER
        return [Start(held.assignment, held.lease, held.needs)]

    def _ask_back(self, attempts: list[str]) -> list[Step]:
        return [TakeBack(tuple(attempts))] if attempts else []

    def _give_back(self, attempts: list[str]) -> list[Step]:
        """Return attempts that never began, and that nobody else has."""
        if not attempts:
            return []
        steps: list[Step] = [Keep(Record(Mark.FORGOTTEN, attempt)) for attempt in attempts if attempt in self._held]
        self._forget(*attempts)
        return steps + self._say(Returned(tuple(attempts)))

    def _forget(self, *attempts: str) -> None:
        for attempt in attempts:
            self._held.pop(attempt, None)
            self._moved.pop(attempt, None)
            self._forgotten.add(attempt)

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
