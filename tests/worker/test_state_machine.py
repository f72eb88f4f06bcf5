"""Transitions of the worker's state machine (WRK-7, WRK-9, WRK-10, PLC-7, I-17, I-50)."""

from __future__ import annotations

import pytest

from mainspring.protocol.wire import (
    Answer,
    Assignment,
    Checkpoint,
    Credit,
    Extend,
    Extended,
    Heartbeat,
    Offer,
    Outcome,
    ProbeFile,
    Progress,
    Recall,
    Received,
    Refusal,
    Result,
    Returned,
    Started,
    Stop,
    Verdict,
    Welcome,
)
from mainspring.worker.agent.instructions import Mark, Persist, Record, Send
from mainspring.worker.agent.state_machine import MAX_FORGOTTEN, MAX_UNKNOWN_RESULTS, StateMachine
from mainspring.worker.supervisor.supervisor_wire import LaunchRequest
from tests.worker.message_builders import assign, connected, hello, killed, marks, said, started, taken_back


def test_an_assignment_is_recorded_then_confirmed_then_started() -> None:
    """I-50: promises are on disk."""
    instructions = connected().take(assign("lease", "a"))

    assert [type(instruction) for instruction in instructions] == [Persist, Send, LaunchRequest]
    assert marks(instructions) == [(Mark.RECEIVED, "a")]
    assert said(instructions) == [Received(("a",))]


def test_a_group_is_recorded_and_launched_in_order() -> None:
    """PLC-10: the supervisor runs the attempts one after another."""
    instructions = connected().take(assign("lease", "a", "b", "c"))

    assert [type(instruction) for instruction in instructions] == [
        Persist,
        Persist,
        Persist,
        Send,
        LaunchRequest,
        LaunchRequest,
        LaunchRequest,
    ]
    assert started(instructions) == ["a", "b", "c"]
    assert {instruction.lease for instruction in instructions if isinstance(instruction, LaunchRequest)} == {"lease"}


def test_a_repeated_assignment_is_started_once() -> None:
    """I-17."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))

    assert state_machine.take(assign("lease", "a", "b")) == []


def test_an_assignment_repeated_after_its_answer_is_ignored() -> None:
    """I-17: attempt ids are never reused."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.ended("a", Outcome.SUCCEEDED)
    state_machine.take(Answer("a", Verdict.APPLIED))
    state_machine.take(Recall(("b",)))
    state_machine.withdrawn(["b"])

    assert state_machine.take(assign("lease", "a", "b")) == []
    assert state_machine.holds() == ()


def test_the_memory_of_forgotten_attempts_is_bounded() -> None:
    """The oldest ids are dropped."""
    state_machine = connected()
    state_machine.take(Recall(tuple(f"a{n}" for n in range(MAX_FORGOTTEN + 1))))

    assert state_machine.take(assign("lease", f"a{MAX_FORGOTTEN}")) == []
    assert started(state_machine.take(assign("lease", "a0"))) == ["a0"]


def test_an_impossible_assignment_is_refused_and_the_rest_of_its_group_runs() -> None:
    """PLC-7: before it is confirmed."""

    def verify(one: Assignment, needs: Offer) -> str:
        return "no such handler" if one.attempt == "b" else ""

    state_machine = connected(state_machine=StateMachine(verify))
    instructions = state_machine.take(assign("lease", "a", "b", "c"))

    assert started(instructions) == ["a", "c"]
    assert said(instructions) == [Received(("a", "c")), Refusal("b", "no such handler")]
    assert state_machine.holds() == ("a", "c")


def test_the_start_of_a_process_is_recorded_and_reported() -> None:
    """RUNNING means that the process was started; the spool knows which one."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))

    instructions = state_machine.started("a", 4711, 12.5)

    assert instructions == [Persist(Record(Mark.STARTED, "a", 4711, 12.5)), Send(Started("a"))]
    assert [(one.attempt, one.pid, one.created) for one in state_machine.running()] == [("a", 4711, 12.5)]


def test_a_start_noticed_after_the_end_is_ignored() -> None:
    """The process was killed as it started."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.ended("a", Outcome.STOPPED)

    assert state_machine.started("a") == []
    assert state_machine.running() == []


def test_a_result_is_recorded_before_it_is_sent() -> None:
    """I-50."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.started("a")

    instructions = state_machine.ended("a", Outcome.SUCCEEDED, "7", None)

    result = Result("a", Outcome.SUCCEEDED, "7", None)
    assert instructions == [Persist(Record(Mark.ENDED, "a", result=result)), Send(result)]


def test_a_short_attempt_records_its_end_and_reports_start_and_end() -> None:
    """It saves one spool record."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))

    instructions = state_machine.ended("a", Outcome.SUCCEEDED, "7", just_started=True)

    result = Result("a", Outcome.SUCCEEDED, "7")
    assert instructions == [Persist(Record(Mark.ENDED, "a", result=result)), Send(Started("a")), Send(result)]
    assert state_machine.ended("a", Outcome.SUCCEEDED, "7", just_started=True) == []


def test_the_start_of_an_ended_attempt_needs_no_credit() -> None:
    """Its result waits for credit."""
    state_machine = connected(credit=0)
    state_machine.take(assign("lease", "a"))

    assert said(state_machine.ended("a", Outcome.SUCCEEDED, just_started=True)) == [Started("a")]


def test_a_reported_start_is_not_repeated_with_the_end() -> None:
    """A new agent got it from its supervisor."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.started("a")

    assert said(state_machine.ended("a", Outcome.SUCCEEDED, just_started=True)) == [Result("a", Outcome.SUCCEEDED)]


def test_an_end_that_is_reported_twice_counts_once() -> None:
    """The first result is kept."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.ended("a", Outcome.SUCCEEDED)

    assert state_machine.ended("a", Outcome.FAILED) == []


@pytest.mark.parametrize("verdict", [Verdict.APPLIED, Verdict.ALREADY, Verdict.SUPERSEDED, Verdict.REJECTED])
def test_a_result_is_forgotten_only_after_its_answer(verdict: Verdict) -> None:
    """I-50, WRK-10."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.ended("a", Outcome.SUCCEEDED)
    assert state_machine.holds() == ("a",)

    assert marks(state_machine.take(Answer("a", verdict))) == [(Mark.FORGOTTEN, "a")]
    assert state_machine.holds() == ()


def test_a_result_that_the_server_does_not_know_is_kept() -> None:
    """I-54: visible, bounded, and never sent again."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.ended("a", Outcome.SUCCEEDED, "7")

    assert marks(state_machine.take(Answer("a", Verdict.UNKNOWN))) == [(Mark.UNKNOWN, "a")]
    assert list(state_machine.unknown_results) == [Result("a", Outcome.SUCCEEDED, "7")]
    assert state_machine.holds() == ()


def test_unknown_results_are_bounded() -> None:
    """I-53: the oldest are dropped."""
    state_machine = connected(credit=10 * MAX_UNKNOWN_RESULTS)
    for n in range(MAX_UNKNOWN_RESULTS + 10):
        state_machine.take(assign(f"lease{n}", f"a{n}"))
        state_machine.ended(f"a{n}", Outcome.SUCCEEDED)
        state_machine.take(Answer(f"a{n}", Verdict.UNKNOWN))

    assert len(state_machine.unknown_results) == MAX_UNKNOWN_RESULTS
    assert state_machine.unknown_results[0].attempt == "a10"


@pytest.mark.parametrize("attempt", ["a", "z"])
def test_an_answer_without_a_result_is_ignored(attempt: str) -> None:
    """The attempt still runs, or is unknown."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))

    assert state_machine.take(Answer(attempt, Verdict.APPLIED)) == []
    assert state_machine.holds() == ("a",)


def test_results_wait_for_credit_and_go_in_order() -> None:
    """Without credit they stay in the spool."""
    state_machine = connected(credit=1)
    for name in ("a", "b", "c"):
        state_machine.take(assign(f"lease-{name}", name))
    assert said(state_machine.ended("a", Outcome.SUCCEEDED)) == [Result("a", Outcome.SUCCEEDED)]
    assert said(state_machine.ended("b", Outcome.SUCCEEDED)) == []
    assert said(state_machine.ended("c", Outcome.SUCCEEDED)) == []

    assert said(state_machine.take(Credit(1))) == [Result("b", Outcome.SUCCEEDED)]
    assert said(state_machine.take(Credit(5))) == [Result("c", Outcome.SUCCEEDED)]


def test_everything_but_results_needs_no_credit() -> None:
    """Heartbeats, receipts, starts and returns."""
    state_machine = connected(credit=0)

    assert said(state_machine.take(assign("lease", "a", "b"))) == [Received(("a", "b"))]
    assert said(state_machine.started("a")) == [Started("a")]
    assert said(state_machine.beat()) == [Heartbeat()]
    state_machine.take(Recall(("b",)))
    assert said(state_machine.withdrawn(["b"])) == [Returned(("b",))]


def test_a_heartbeat_has_the_progress_since_the_last() -> None:
    """The latest of each attempt, once."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.started("a")
    state_machine.progressed("a", 10.0, "")
    state_machine.progressed("a", 40.0, "half of it read")
    state_machine.progressed("z", 1.0, "")

    assert said(state_machine.beat()) == [Heartbeat((Progress("a", 40.0, "half of it read"),))]
    assert said(state_machine.beat()) == [Heartbeat()]


def test_a_checkpoint_is_recorded_and_sent_at_once() -> None:
    """WRK-7."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.started("a")

    instructions = state_machine.checkpoint_saved("a", '{"page": 3}')

    assert instructions == [
        Persist(Record(Mark.SAVED, "a", document='{"page": 3}')),
        Send(Checkpoint("a", '{"page": 3}')),
    ]
    assert state_machine.checkpoint_saved("z", "1") == []


def test_the_latest_checkpoint_is_resent_in_the_next_session_before_the_result() -> None:
    """WRK-7: also of an ended attempt without an answer."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.started("a")
    state_machine.checkpoint_saved("a", "1")
    state_machine.checkpoint_saved("a", "2")
    state_machine.ended("a", Outcome.FAILED)
    state_machine.register(hello("s2"))
    welcomed = said(state_machine.take(Welcome("s2"))) + said(state_machine.take(Credit(1)))

    assert welcomed == [Checkpoint("a", "2"), Result("a", Outcome.FAILED)]


def test_a_recall_withdraws_launched_attempts_from_the_supervisor() -> None:
    """Running ones are answered *started*; the supervisor knows what has not started."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b", "c"))
    state_machine.started("a")

    instructions = state_machine.take(Recall(("a", "b", "c")))

    assert taken_back(instructions) == ["b", "c"]
    assert said(instructions) == [Started("a")]
    assert state_machine.holds() == ("a", "b", "c")


def test_a_withdrawn_attempt_is_forgotten_before_it_is_returned() -> None:
    """I-50: for the others, the later start is the answer."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.take(Recall(("a", "b")))

    instructions = state_machine.withdrawn(["b"])

    assert marks(instructions) == [(Mark.FORGOTTEN, "b")]
    assert said(instructions) == [Returned(("b",))]
    assert isinstance(instructions[-1], Send)
    assert said(state_machine.started("a")) == [Started("a")]


def test_a_recall_of_an_ended_attempt_is_ignored() -> None:
    """Its result is being sent."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.ended("a", Outcome.SUCCEEDED)

    assert state_machine.take(Recall(("a",))) == []


def test_a_recall_of_an_unknown_attempt_is_answered_returned() -> None:
    """The assignment was lost, or returned before."""
    assert said(connected().take(Recall(("z",)))) == [Returned(("z",))]


def test_a_stop_is_passed_to_the_supervisor() -> None:
    """STA-8: terminate, wait, kill; the result follows. Only the supervisor knows what has started."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.started("a")

    assert killed(state_machine.take(Stop("a", "cancelled", 30.0))) == ["a"]
    assert killed(state_machine.take(Stop("b", "cancelled", 30.0))) == ["b"]
    assert said(state_machine.ended("a", Outcome.STOPPED)) == [Result("a", Outcome.STOPPED)]


def test_a_stop_of_an_ended_attempt_is_ignored() -> None:
    """STA-8: a result from before the signal counts."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.ended("a", Outcome.SUCCEEDED)

    assert state_machine.take(Stop("a", "cancelled", 30.0)) == []


def test_a_stop_of_an_unknown_attempt_is_answered_returned() -> None:
    """The server must not wait for it forever."""
    assert said(connected().take(Stop("z", "not yours", 0.0))) == [Returned(("z",))]


def test_without_a_session_nothing_is_sent_and_work_continues() -> None:
    """WRK-10: static stability."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.lost_session()

    assert said(state_machine.started("a")) == []
    instructions = state_machine.ended("a", Outcome.SUCCEEDED)
    assert (said(instructions), marks(instructions)) == ([], [(Mark.ENDED, "a")])
    assert state_machine.beat() == []


def test_an_extension_request_is_sent_after_its_progress() -> None:
    """LIV-4: extensions require progress, and the next heartbeat may be too late."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.started("a")
    state_machine.progressed("a", 40.0, "loading")

    assert said(state_machine.extension_requested("a", 60.0)) == [
        Heartbeat((Progress("a", 40.0, "loading"),)),
        Extend("a", 60.0),
    ]


def test_an_extension_request_is_resent_until_answered() -> None:
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.started("a")
    state_machine.progressed("a", 40.0, "")
    state_machine.lost_session()
    assert said(state_machine.extension_requested("a", 60.0)) == []

    state_machine.register(hello("s2"))
    assert said(state_machine.take(Welcome("s2"))) == [
        Started("a"),
        Heartbeat((Progress("a", 40.0, ""),)),
        Extend("a", 60.0),
    ]
    assert state_machine.take(Extended("a", 90.0, "no progress")) == [Extended("a", 90.0, "no progress")]

    state_machine.register(hello("s3"))
    assert Extend("a", 60.0) not in said(state_machine.take(Welcome("s3")))


def test_ended_and_unknown_attempts_get_no_extension() -> None:
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.ended("a", Outcome.SUCCEEDED)

    assert state_machine.extension_requested("a", 60.0) == state_machine.extension_requested("b", 60.0) == []
    assert state_machine.take(Extended("a", 90.0)) == state_machine.take(Extended("b", 90.0)) == []


def test_a_draining_worker_still_probes_files() -> None:
    """TRG-8."""
    state_machine = connected()
    state_machine.leave()

    assert state_machine.take(ProbeFile("q1", "/data/in.csv")) == [ProbeFile("q1", "/data/in.csv")]
