"""Model-based test of a worker's state machine: the promises hold for any messages and crashes.

1. No attempt starts twice, also across restarts of agent and supervisor (I-17).
2. Promises are on disk before they are sent (I-50): receipts, starts, results, returns.
3. A result is forgotten only on its answer, and none is sent without credit.
4. No started attempt is returned, unless its result was answered long ago and it is forgotten.
5. Nothing starts during silence once the supervisor has answered, and nothing new after `leave`.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainspring.protocol.wire import (
    Answer,
    Checkpoint,
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
from mainspring.worker.agent.instructions import Instruction, Mark, Persist, Record, Send
from mainspring.worker.agent.state_machine import StateMachine
from mainspring.worker.supervisor.supervisor_wire import (
    AttemptEnded,
    EndAttempt,
    Inventory,
    LaunchRequest,
    WithdrawAttempts,
)
from tests.worker.message_builders import assign, hello


class FakeSupervisor:
    """A fake supervisor: runs the attempts of a lease one after another, and knows what has started."""

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        self.running: dict[str, str] = {}
        self.ended: dict[str, Result] = {}
        self.extension_requested: set[str] = set()

    def startable(self) -> list[str]:
        """Return the attempts that may start: the first of each idle lease."""
        busy = set(self.running.values())
        first = {lease: attempt for attempt, lease in reversed(self.waiting.items())}
        return sorted(attempt for lease, attempt in first.items() if lease not in busy)

    def inventory(self) -> Inventory:
        ended = tuple(AttemptEnded(one.attempt, one.outcome, one.output, one.error) for one in self.ended.values())
        return Inventory(tuple(self.waiting), tuple(self.running), ended)


class WorkerModel(RuleBasedStateMachine):
    """A worker with a disk, a supervisor, and an arbitrary server."""

    def __init__(self) -> None:
        super().__init__()
        self.state_machine = StateMachine()
        self.supervisor = FakeSupervisor()
        self.disk: list[Record] = []
        self.started_attempts: set[str] = set()
        self.lease_of: dict[str, str] = {}
        self.known_assignments: set[str] = set()
        self.results: dict[str, Result] = {}
        self.answered: set[str] = set()
        self.returned: set[str] = set()
        self.credit = 0
        self.open = False
        self.silent = False
        self.sessions = 0
        self.attempts = 0

    def do(self, instructions: list[Instruction]) -> None:
        """Execute instructions in order, as an agent does."""
        for instruction in instructions:
            match instruction:
                case Persist():
                    self.disk.append(instruction.record)
                    if instruction.record.result is not None:
                        self.results[instruction.record.attempt] = instruction.record.result
                case LaunchRequest():
                    self.launch(instruction.assignment.attempt, instruction.lease)
                case WithdrawAttempts():
                    self.supervisor.extension_requested.update(instruction.attempts)
                case EndAttempt():
                    self.supervisor.waiting.pop(instruction.attempt, None)
                    if (
                        self.supervisor.running.pop(instruction.attempt, None) is not None
                        or instruction.attempt in self.state_machine.holds()
                    ):
                        self.supervisor.ended[instruction.attempt] = Result(instruction.attempt, Outcome.STOPPED)
                case Send():
                    self.check(instruction.message)

    def launch(self, attempt: str, lease: str) -> None:
        assert attempt not in self.started_attempts, f"{attempt} is started twice"
        assert attempt not in self.supervisor.waiting, f"{attempt} is launched twice"
        assert attempt not in self.returned, f"{attempt} was returned"
        assert self.on_disk(Mark.RECEIVED, attempt)
        assert lease == self.lease_of[attempt]
        assert not self.silent, f"{attempt} is started in silence"
        assert not self.state_machine.leaving, f"{attempt} is started while draining"
        self.supervisor.waiting[attempt] = lease

    def check(self, message: FromWorker) -> None:
        """Check a message as a server does."""
        assert self.open, "message without a session"
        match message:
            case Received():
                assert all(self.on_disk(Mark.RECEIVED, one) for one in message.attempts)
            case Started():
                assert message.attempt in self.started_attempts
                assert self.on_disk(Mark.STARTED, message.attempt)
            case Checkpoint():
                assert self.on_disk(Mark.SAVED, message.attempt)
            case Result():
                assert self.on_disk(Mark.ENDED, message.attempt)
                assert self.credit > 0, "result without credit"
                assert message == self.results[message.attempt]
                self.credit -= 1
            case Returned():
                for attempt in message.attempts:
                    assert attempt not in self.started_attempts or attempt in self.answered
                    self.returned.add(attempt)
            case _:
                pass

    def on_disk(self, mark: Mark, attempt: str) -> bool:
        return any(record.mark is mark and record.attempt == attempt for record in self.disk)

    def known(self) -> list[str]:
        return sorted(self.lease_of)

    # events of the supervisor

    @rule(pick=st.data(), seen=st.booleans())
    @precondition(lambda self: self.supervisor.startable())
    def an_attempt_starts(self, pick: st.DataObject, seen: bool) -> None:
        """`seen`: the agent is notified."""
        attempt = pick.draw(st.sampled_from(self.supervisor.startable()))
        assert attempt not in self.started_attempts, f"{attempt} starts twice"
        self.started_attempts.add(attempt)
        self.supervisor.running[attempt] = self.supervisor.waiting.pop(attempt)
        if seen:
            self.do(self.state_machine.started(attempt, 7, 1.0))

    @rule(pick=st.data(), outcome=st.sampled_from([Outcome.SUCCEEDED, Outcome.FAILED]), checkpoint_saved=st.booleans())
    @precondition(lambda self: self.supervisor.running)
    def an_attempt_ends(self, pick: st.DataObject, outcome: Outcome, checkpoint_saved: bool) -> None:
        attempt = pick.draw(st.sampled_from(sorted(self.supervisor.running)))
        if checkpoint_saved:
            self.do(self.state_machine.checkpoint_saved(attempt, "1"))
        del self.supervisor.running[attempt]
        self.supervisor.ended[attempt] = Result(attempt, outcome, "1")

    @rule()
    @precondition(lambda self: self.supervisor.ended)
    def results_are_acknowledged(self) -> None:
        for attempt, one in list(self.supervisor.ended.items()):
            self.do(self.state_machine.ended(attempt, one.outcome, one.output, one.error))
        self.supervisor.ended.clear()

    @rule()
    @precondition(lambda self: self.supervisor.extension_requested)
    def the_supervisor_withdraws(self) -> None:
        given = [attempt for attempt in self.supervisor.waiting if attempt in self.supervisor.extension_requested]
        for attempt in given:
            del self.supervisor.waiting[attempt]
        self.supervisor.extension_requested.clear()
        self.do(self.state_machine.withdrawn(given))

    @rule()
    def the_supervisor_dies(self) -> None:
        """Its processes are killed; its written results remain."""
        ended = self.supervisor.ended
        self.supervisor = FakeSupervisor()
        self.supervisor.ended = ended
        self.do(self.state_machine.adopt(self.supervisor.inventory(), "the supervisor died"))

    # events of the server

    @rule(many=st.integers(1, 3), again=st.booleans())
    @precondition(lambda self: self.open)
    def work_is_assigned(self, many: int, again: bool) -> None:
        names = [f"a{self.attempts + n:03}" for n in range(many)]
        self.attempts += many
        lease = f"lease{self.attempts}"
        self.lease_of.update((name, lease) for name in names)
        self.known_assignments.update(names)
        self.silent = False
        self.do(self.state_machine.take(assign(lease, *names)))
        if again:
            self.do(self.state_machine.take(assign(lease, *names)))

    @rule(pick=st.data())
    @precondition(lambda self: self.open and self.known_assignments)
    def an_assignment_is_repeated(self, pick: st.DataObject) -> None:
        """Only assignments that this agent has received are repeated to it."""
        attempt = pick.draw(st.sampled_from(sorted(self.known_assignments)))
        self.silent = False
        self.do(self.state_machine.take(assign(self.lease_of[attempt], attempt)))

    @rule(pick=st.data())
    @precondition(lambda self: self.open and self.lease_of)
    def attempts_are_recalled(self, pick: st.DataObject) -> None:
        attempts = pick.draw(st.lists(st.sampled_from(self.known()), max_size=4, unique=True))
        self.silent = False
        self.do(self.state_machine.take(Recall(tuple(attempts))))

    @rule(pick=st.data())
    @precondition(lambda self: self.open and self.lease_of)
    def an_attempt_is_stopped(self, pick: st.DataObject) -> None:
        self.silent = False
        self.do(self.state_machine.take(Stop(pick.draw(st.sampled_from(self.known())), "stop", 30.0)))

    @rule(pick=st.data(), verdict=st.sampled_from(list(Verdict)), again=st.booleans())
    @precondition(lambda self: self.open and self.lease_of)
    def a_result_is_answered(self, pick: st.DataObject, verdict: Verdict, again: bool) -> None:
        """`again`: followed by a repeated assignment."""
        attempt = pick.draw(st.sampled_from(sorted(self.results) or self.known()))
        state = attempt in self.state_machine.holds()
        self.silent = False
        self.do(self.state_machine.take(Answer(attempt, verdict)))
        if state and attempt not in self.state_machine.holds():
            assert attempt in self.results
            self.answered.add(attempt)
            if again:
                self.do(self.state_machine.take(assign(self.lease_of[attempt], attempt)))

    @rule(results=st.integers(1, 3))
    @precondition(lambda self: self.open)
    def credit_is_granted(self, results: int) -> None:
        self.credit += results
        self.silent = False
        self.do(self.state_machine.take(Credit(results)))

    @rule()
    def the_worker_connects(self) -> None:
        self.sessions += 1
        session = f"s{self.sessions}"
        holds = set(self.state_machine.register(hello(session)).holds)
        assert {*self.supervisor.running, *self.supervisor.waiting} <= holds
        assert {one for one in self.results if one not in self.answered} <= holds
        self.open, self.credit, self.silent = True, 0, False
        self.do(self.state_machine.take(Welcome(session)))

    @rule()
    def the_connection_breaks(self) -> None:
        self.open = False
        self.state_machine.lost_session()

    @rule()
    def the_server_falls_silent(self) -> None:
        self.silent = True
        self.do(self.state_machine.silence())
        assert set(self.supervisor.waiting) <= self.supervisor.extension_requested, (
            "an attempt may start during silence"
        )

    @rule()
    def a_pong_arrives(self) -> None:
        self.silent = False
        self.do(self.state_machine.server_responded())

    @rule(chance=st.integers(0, 9))
    def the_worker_is_drained(self, chance: int) -> None:
        if chance == 0 and not self.state_machine.leaving:
            self.do(self.state_machine.leave())

    @rule()
    def the_agent_is_restarted(self) -> None:
        """Disk and supervisor survive."""
        self.open = self.silent = False
        self.known_assignments.clear()
        self.state_machine = StateMachine()
        self.state_machine.restore(list(self.disk))
        self.supervisor.extension_requested.clear()
        self.do(self.state_machine.adopt(self.supervisor.inventory(), "the worker was restarted"))
        self.supervisor.ended.clear()

    # invariants

    @invariant()
    def unanswered_results_are_kept(self) -> None:
        assert {one for one in self.results if one not in self.answered} <= set(self.state_machine.holds())

    @invariant()
    def answered_and_returned_attempts_are_forgotten(self) -> None:
        assert not (self.answered | self.returned) & set(self.state_machine.holds())

    @invariant()
    def nothing_is_lost_between_agent_and_supervisor(self) -> None:
        """Unfinished attempts are with the supervisor, or wait here for a server."""
        with_supervisor = {*self.supervisor.waiting, *self.supervisor.running, *self.supervisor.ended}
        assert set(self.state_machine.unfinished()) <= with_supervisor
        for attempt in self.state_machine.holds():
            assert attempt in self.results or attempt in with_supervisor or self.silent, f"{attempt} is lost"


TestWorkerModel = WorkerModel.TestCase
TestWorkerModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
