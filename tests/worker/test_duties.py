"""Transitions of the worker's state machine (WRK-7, WRK-9, WRK-10, PLC-7, I-17, I-50)."""

from __future__ import annotations

import pytest

from mainspring.protocol.wire import (
    Answer,
    Assignment,
    Beat,
    Checkpoint,
    Credit,
    Extend,
    Extended,
    Look,
    Offer,
    Outcome,
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
from mainspring.worker.agent.attempt_state import MOST_REMEMBERED
from mainspring.worker.agent.instructions import Keep, LookFor, Mark, Prolong, Record, Say, Start
from mainspring.worker.agent.state_machine import MOST_ASIDE, Duties
from tests.worker.words import assign, connected, hello, killed, marks, said, started, taken_back


def test_an_assignment_is_recorded_then_confirmed_then_started() -> None:
    """I-50: promises are on disk."""
    steps = connected().take(assign("lease", "a"))

    assert [type(step) for step in steps] == [Keep, Say, Start]
    assert marks(steps) == [(Mark.RECEIVED, "a")]
    assert said(steps) == [Received(("a",))]


def test_a_group_is_recorded_and_launched_in_order() -> None:
    """PLC-10: the supervisor runs the attempts one after another."""
    steps = connected().take(assign("lease", "a", "b", "c"))

    assert [type(step) for step in steps] == [Keep, Keep, Keep, Say, Start, Start, Start]
    assert started(steps) == ["a", "b", "c"]
    assert {step.lease for step in steps if isinstance(step, Start)} == {"lease"}


def test_a_repeated_assignment_is_started_once() -> None:
    """I-17."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))

    assert duties.take(assign("lease", "a", "b")) == []


def test_an_assignment_repeated_after_its_answer_is_ignored() -> None:
    """I-17: attempt ids are never reused."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.ended("a", Outcome.SUCCEEDED)
    duties.take(Answer("a", Verdict.APPLIED))
    duties.take(Recall(("b",)))
    duties.unbegun(["b"])

    assert duties.take(assign("lease", "a", "b")) == []
    assert duties.holds() == ()


def test_the_memory_of_forgotten_attempts_is_bounded() -> None:
    """The oldest ids are dropped."""
    duties = connected()
    duties.take(Recall(tuple(f"a{n}" for n in range(MOST_REMEMBERED + 1))))

    assert duties.take(assign("lease", f"a{MOST_REMEMBERED}")) == []
    assert started(duties.take(assign("lease", "a0"))) == ["a0"]


def test_an_impossible_assignment_is_refused_and_the_rest_of_its_group_runs() -> None:
    """PLC-7: before it is confirmed."""

    def verify(one: Assignment, needs: Offer) -> str:
        return "no such handler" if one.attempt == "b" else ""

    duties = connected(duties=Duties(verify))
    steps = duties.take(assign("lease", "a", "b", "c"))

    assert started(steps) == ["a", "c"]
    assert said(steps) == [Received(("a", "c")), Refusal("b", "no such handler")]
    assert duties.holds() == ("a", "c")


def test_the_start_of_a_process_is_recorded_and_reported() -> None:
    """RUNNING means that the process was started; the spool knows which one."""
    duties = connected()
    duties.take(assign("lease", "a"))

    steps = duties.started("a", 4711, 12.5)

    assert steps == [Keep(Record(Mark.STARTED, "a", 4711, 12.5)), Say(Started("a"))]
    assert [(one.attempt, one.pid, one.created) for one in duties.running()] == [("a", 4711, 12.5)]


def test_a_start_noticed_after_the_end_is_ignored() -> None:
    """The process was killed as it started."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.STOPPED)

    assert duties.started("a") == []
    assert duties.running() == []


def test_a_result_is_recorded_before_it_is_sent() -> None:
    """I-50."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")

    steps = duties.ended("a", Outcome.SUCCEEDED, "7", None)

    result = Result("a", Outcome.SUCCEEDED, "7", None)
    assert steps == [Keep(Record(Mark.ENDED, "a", result=result)), Say(result)]


def test_a_short_attempt_records_its_end_and_reports_start_and_end() -> None:
    """It saves one spool record."""
    duties = connected()
    duties.take(assign("lease", "a"))

    steps = duties.ended("a", Outcome.SUCCEEDED, "7", passed=True)

    result = Result("a", Outcome.SUCCEEDED, "7")
    assert steps == [Keep(Record(Mark.ENDED, "a", result=result)), Say(Started("a")), Say(result)]
    assert duties.ended("a", Outcome.SUCCEEDED, "7", passed=True) == []


def test_the_start_of_an_ended_attempt_needs_no_credit() -> None:
    """Its result waits for credit."""
    duties = connected(credit=0)
    duties.take(assign("lease", "a"))

    assert said(duties.ended("a", Outcome.SUCCEEDED, passed=True)) == [Started("a")]


def test_a_reported_start_is_not_repeated_with_the_end() -> None:
    """A new agent got it from its supervisor."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")

    assert said(duties.ended("a", Outcome.SUCCEEDED, passed=True)) == [Result("a", Outcome.SUCCEEDED)]


def test_an_end_that_is_reported_twice_counts_once() -> None:
    """The first result is kept."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)

    assert duties.ended("a", Outcome.FAILED) == []


@pytest.mark.parametrize("verdict", [Verdict.APPLIED, Verdict.ALREADY, Verdict.SUPERSEDED, Verdict.REJECTED])
def test_a_result_is_forgotten_only_after_its_answer(verdict: Verdict) -> None:
    """I-50, WRK-10."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)
    assert duties.holds() == ("a",)

    assert marks(duties.take(Answer("a", verdict))) == [(Mark.FORGOTTEN, "a")]
    assert duties.holds() == ()


def test_a_result_that_the_server_does_not_know_is_kept() -> None:
    """I-54: visible, bounded, and never sent again."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED, "7")

    assert marks(duties.take(Answer("a", Verdict.UNKNOWN))) == [(Mark.ASIDE, "a")]
    assert list(duties.aside) == [Result("a", Outcome.SUCCEEDED, "7")]
    assert duties.holds() == ()


def test_unknown_results_are_bounded() -> None:
    """I-53: the oldest are dropped."""
    duties = connected(credit=10 * MOST_ASIDE)
    for n in range(MOST_ASIDE + 10):
        duties.take(assign(f"lease{n}", f"a{n}"))
        duties.ended(f"a{n}", Outcome.SUCCEEDED)
        duties.take(Answer(f"a{n}", Verdict.UNKNOWN))

    assert len(duties.aside) == MOST_ASIDE
    assert duties.aside[0].attempt == "a10"


@pytest.mark.parametrize("attempt", ["a", "z"])
def test_an_answer_without_a_result_is_ignored(attempt: str) -> None:
    """The attempt still runs, or is unknown."""
    duties = connected()
    duties.take(assign("lease", "a"))

    assert duties.take(Answer(attempt, Verdict.APPLIED)) == []
    assert duties.holds() == ("a",)


def test_results_wait_for_credit_and_go_in_order() -> None:
    """DESIGN: without credit they stay in the spool."""
    duties = connected(credit=1)
    for name in ("a", "b", "c"):
        duties.take(assign(f"lease-{name}", name))
    assert said(duties.ended("a", Outcome.SUCCEEDED)) == [Result("a", Outcome.SUCCEEDED)]
    assert said(duties.ended("b", Outcome.SUCCEEDED)) == []
    assert said(duties.ended("c", Outcome.SUCCEEDED)) == []

    assert said(duties.take(Credit(1))) == [Result("b", Outcome.SUCCEEDED)]
    assert said(duties.take(Credit(5))) == [Result("c", Outcome.SUCCEEDED)]


def test_everything_but_results_needs_no_credit() -> None:
    """Heartbeats, receipts, starts and returns."""
    duties = connected(credit=0)

    assert said(duties.take(assign("lease", "a", "b"))) == [Received(("a", "b"))]
    assert said(duties.started("a")) == [Started("a")]
    assert said(duties.beat()) == [Beat()]
    duties.take(Recall(("b",)))
    assert said(duties.unbegun(["b"])) == [Returned(("b",))]


def test_a_heartbeat_has_the_progress_since_the_last() -> None:
    """The latest of each attempt, once."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")
    duties.moved("a", 10.0, "")
    duties.moved("a", 40.0, "half of it read")
    duties.moved("z", 1.0, "")

    assert said(duties.beat()) == [Beat((Progress("a", 40.0, "half of it read"),))]
    assert said(duties.beat()) == [Beat()]


def test_a_checkpoint_is_recorded_and_sent_at_once() -> None:
    """WRK-7."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")

    steps = duties.saved("a", '{"page": 3}')

    assert steps == [Keep(Record(Mark.SAVED, "a", document='{"page": 3}')), Say(Checkpoint("a", '{"page": 3}'))]
    assert duties.saved("z", "1") == []


def test_the_latest_checkpoint_is_resent_in_the_next_session_before_the_result() -> None:
    """WRK-7: also of an ended attempt without an answer."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")
    duties.saved("a", "1")
    duties.saved("a", "2")
    duties.ended("a", Outcome.FAILED)
    duties.register(hello("s2"))
    welcomed = said(duties.take(Welcome("s2"))) + said(duties.take(Credit(1)))

    assert welcomed == [Checkpoint("a", "2"), Result("a", Outcome.FAILED)]


def test_a_recall_withdraws_launched_attempts_from_the_supervisor() -> None:
    """Running ones are answered *started*; the supervisor knows what has not started."""
    duties = connected()
    duties.take(assign("lease", "a", "b", "c"))
    duties.started("a")

    steps = duties.take(Recall(("a", "b", "c")))

    assert taken_back(steps) == ["b", "c"]
    assert said(steps) == [Started("a")]
    assert duties.holds() == ("a", "b", "c")


def test_a_withdrawn_attempt_is_forgotten_before_it_is_returned() -> None:
    """I-50: for the others, the later start is the answer."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.take(Recall(("a", "b")))

    steps = duties.unbegun(["b"])

    assert marks(steps) == [(Mark.FORGOTTEN, "b")]
    assert said(steps) == [Returned(("b",))]
    assert isinstance(steps[-1], Say)
    assert said(duties.started("a")) == [Started("a")]


def test_a_recall_of_an_ended_attempt_is_ignored() -> None:
    """Its result is being sent."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)

    assert duties.take(Recall(("a",))) == []


def test_a_recall_of_an_unknown_attempt_is_answered_returned() -> None:
    """The assignment was lost, or returned before."""
    assert said(connected().take(Recall(("z",)))) == [Returned(("z",))]


def test_a_stop_is_passed_to_the_supervisor() -> None:
    """STA-8: terminate, wait, kill; the result follows. Only the supervisor knows what has started."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.started("a")

    assert killed(duties.take(Stop("a", "cancelled", 30.0))) == ["a"]
    assert killed(duties.take(Stop("b", "cancelled", 30.0))) == ["b"]
    assert said(duties.ended("a", Outcome.STOPPED)) == [Result("a", Outcome.STOPPED)]


def test_a_stop_of_an_ended_attempt_is_ignored() -> None:
    """STA-8: a result from before the signal counts."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)

    assert duties.take(Stop("a", "cancelled", 30.0)) == []


def test_a_stop_of_an_unknown_attempt_is_answered_returned() -> None:
    """The server must not wait for it forever."""
    assert said(connected().take(Stop("z", "not yours", 0.0))) == [Returned(("z",))]


def test_without_a_session_nothing_is_sent_and_work_continues() -> None:
    """WRK-10: static stability."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.lost_session()

    assert said(duties.started("a")) == []
    steps = duties.ended("a", Outcome.SUCCEEDED)
    assert (said(steps), marks(steps)) == ([], [(Mark.ENDED, "a")])
    assert duties.beat() == []


def test_an_extension_request_is_sent_after_its_progress() -> None:
    """LIV-4: extensions require progress, and the next heartbeat may be too late."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")
    duties.moved("a", 40.0, "loading")

    assert said(duties.asked("a", 60.0)) == [Beat((Progress("a", 40.0, "loading"),)), Extend("a", 60.0)]


def test_an_extension_request_is_resent_until_answered() -> None:
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")
    duties.moved("a", 40.0, "")
    duties.lost_session()
    assert said(duties.asked("a", 60.0)) == []

    duties.register(hello("s2"))
    assert said(duties.take(Welcome("s2"))) == [Started("a"), Beat((Progress("a", 40.0, ""),)), Extend("a", 60.0)]
    assert duties.take(Extended("a", 90.0, "no progress")) == [Prolong("a", 90.0, "no progress")]

    duties.register(hello("s3"))
    assert Extend("a", 60.0) not in said(duties.take(Welcome("s3")))


def test_ended_and_unknown_attempts_get_no_extension() -> None:
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)

    assert duties.asked("a", 60.0) == duties.asked("b", 60.0) == []
    assert duties.take(Extended("a", 90.0)) == duties.take(Extended("b", 90.0)) == []


def test_a_draining_worker_still_probes_files() -> None:
    """TRG-8."""
    duties = connected()
    duties.leave()

    assert duties.take(Look("q1", "/data/in.csv")) == [LookFor("q1", "/data/in.csv")]
