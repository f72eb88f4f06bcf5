"""Any day of a worker's life, against a model: whatever the server says and whenever it crashes, the promises hold.

1. No attempt's process is started twice, also across restarts (I-17).
2. Of one lease at most one process runs.
3. What was promised is on disk before it is said (I-50): a receipt, a result, a return.
4. A result is forgotten on its answer only, and none is sent without credit.
5. Nothing is returned that was started, unless its result was answered long ago and it is forgotten.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainspring.wire import (
    Answer,
    Credit,
    FromWorker,
    Outcome,
    Recall,
    Received,
    Result,
    Returned,
    Started,
    Stop,
    Verdict,
    Welcome,
)
from mainspring.worker.duties import Duties, Keep, Kill, Mark, Record, Say, Start, Step
from tests.worker.words import OFFER, assign


class Day(RuleBasedStateMachine):
    """A worker with a disk, processes, and a server that says what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.duties = Duties()
        self.disk: list[Record] = []
        self.begun: set[str] = set()
        self.running: dict[str, str] = {}
        self.lease_of: dict[str, str] = {}
        self.ended: dict[str, Result] = {}
        self.answered: set[str] = set()
        self.returned: set[str] = set()
        self.credit = 0
        self.open = False
        self.sessions = 0
        self.attempts = 0

    def do(self, steps: list[Step]) -> None:
        """Carry steps out in their order, as an agent does."""
        for step in steps:
            match step:
                case Keep():
                    self.disk.append(step.record)
                case Start():
                    self.begin(step.assignment.attempt)
                case Kill():
                    assert step.attempt not in self.ended
                case Say():
                    self.hear(step.message)

    def begin(self, attempt: str) -> None:
        lease = self.lease_of[attempt]
        assert attempt not in self.begun, f"{attempt} is started twice"
        assert attempt not in self.returned, f"{attempt} was given back"
        assert lease not in self.running.values(), f"two processes of {lease} at once"
        assert self.on_disk(Mark.STARTED, attempt)
        self.begun.add(attempt)
        self.running[attempt] = lease

    def hear(self, message: FromWorker) -> None:
        """What a server checks of each word."""
        assert self.open, "it speaks without a session"
        match message:
            case Received():
                assert all(self.on_disk(Mark.RECEIVED, one) for one in message.attempts)
            case Started():
                assert message.attempt in self.begun
            case Result():
                assert self.on_disk(Mark.ENDED, message.attempt)
                assert self.credit > 0, "it has no credit"
                assert message == self.ended[message.attempt]
                self.credit -= 1
            case Returned():
                for attempt in message.attempts:
                    assert attempt not in self.begun or attempt in self.answered
                    self.returned.add(attempt)
            case _:
                pass

    def on_disk(self, mark: Mark, attempt: str) -> bool:
        return any(record.mark is mark and record.attempt == attempt for record in self.disk)

    def known(self) -> list[str]:
        return sorted(self.lease_of)

    # what happens

    @rule(many=st.integers(1, 3), again=st.booleans())
    @precondition(lambda self: self.open)
    def work_comes(self, many: int, again: bool) -> None:
        names = [f"a{self.attempts + n:03}" for n in range(many)]
        self.attempts += many
        lease = f"lease{self.attempts}"
        self.lease_of.update((name, lease) for name in names)
        self.do(self.duties.take(assign(lease, *names)))
        if again:
            self.do(self.duties.take(assign(lease, *names)))

    @rule(pick=st.data(), outcome=st.sampled_from([Outcome.SUCCEEDED, Outcome.FAILED]), said=st.booleans())
    @precondition(lambda self: self.running)
    def a_process_ends(self, pick: st.DataObject, outcome: Outcome, said: bool) -> None:
        attempt = pick.draw(st.sampled_from(sorted(self.running)))
        if said:
            self.do(self.duties.started(attempt))
        del self.running[attempt]
        self.ended[attempt] = Result(attempt, outcome, "1")
        self.do(self.duties.ended(attempt, outcome, "1"))

    @rule(pick=st.data())
    @precondition(lambda self: self.running)
    def a_process_is_seen_to_run(self, pick: st.DataObject) -> None:
        self.do(self.duties.started(pick.draw(st.sampled_from(sorted(self.running)))))

    @rule(pick=st.data())
    @precondition(lambda self: self.open and self.lease_of)
    def somebody_recalls(self, pick: st.DataObject) -> None:
        attempts = pick.draw(st.lists(st.sampled_from(self.known()), max_size=4, unique=True))
        self.do(self.duties.take(Recall(tuple(attempts))))

    @rule(pick=st.data())
    @precondition(lambda self: self.open and self.lease_of)
    def somebody_stops(self, pick: st.DataObject) -> None:
        attempt = pick.draw(st.sampled_from(self.known()))
        if attempt not in self.begun:
            self.ended.setdefault(attempt, Result(attempt, Outcome.STOPPED))
        steps = self.duties.take(Stop(attempt, "stop", 30.0))
        if any(isinstance(step, Kill) for step in steps):
            assert attempt in self.begun
        self.do(steps)
        if attempt not in self.begun and not self.on_disk(Mark.ENDED, attempt):
            del self.ended[attempt]

    @rule(pick=st.data(), verdict=st.sampled_from(list(Verdict)))
    @precondition(lambda self: self.open and self.lease_of)
    def an_answer_comes(self, pick: st.DataObject, verdict: Verdict) -> None:
        attempt = pick.draw(st.sampled_from(self.known()))
        steps = self.duties.take(Answer(attempt, verdict))
        if steps:
            assert attempt in self.ended
            self.answered.add(attempt)
        self.do(steps)

    @rule(results=st.integers(1, 3))
    @precondition(lambda self: self.open)
    def credit_comes(self, results: int) -> None:
        self.credit += results
        self.do(self.duties.take(Credit(results)))

    @rule()
    def it_connects(self) -> None:
        self.sessions += 1
        session = f"s{self.sessions}"
        hello = self.duties.register("w1", session, OFFER, {})
        assert set(self.running) <= set(hello.holds)
        assert {one for one in self.ended if one not in self.answered} <= set(hello.holds)
        self.open, self.credit = True, 0
        self.do(self.duties.take(Welcome(session)))

    @rule()
    def the_connection_breaks(self) -> None:
        self.open = False
        self.duties.lost_session()

    @rule()
    def the_agent_is_restarted(self) -> None:
        """Its processes are gone with it; the disk is not."""
        self.open = False
        for attempt in self.running:
            self.ended[attempt] = Result(attempt, Outcome.STOPPED, None, '"the worker was restarted"')
        self.running.clear()
        self.duties = Duties()
        self.do(self.duties.restore(list(self.disk)))

    # what holds

    @invariant()
    def what_ended_and_was_not_answered_is_still_held(self) -> None:
        assert {one for one in self.ended if one not in self.answered} <= set(self.duties.holds())

    @invariant()
    def what_was_answered_or_returned_is_not_held(self) -> None:
        assert not (self.answered | self.returned) & set(self.duties.holds())

    @invariant()
    def every_lease_goes_on_until_it_is_through(self) -> None:
        """No member waits for ever: if one is held and not over, one of its lease runs."""
        for attempt in self.duties.holds():
            if attempt not in self.ended:
                assert self.lease_of[attempt] in self.running.values(), f"{attempt} waits for nobody"


TestAnyDay = Day.TestCase
TestAnyDay.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
