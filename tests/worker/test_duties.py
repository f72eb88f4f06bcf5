"""What a worker must do next, for each thing that can happen (WRK-10, I-17, I-50)."""

from __future__ import annotations

import pytest

from mainspring.wire import (
    Answer,
    Beat,
    Credit,
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
from mainspring.worker.duties import MOST_ASIDE, Duties, Keep, Mark, Record, Say, Start
from tests.worker.words import OFFER, assign, connected, killed, marks, said, started


def test_an_assignment_is_kept_before_it_is_confirmed_and_confirmed_before_it_is_started() -> None:
    """I-50: what was promised is on disk."""
    steps = connected().take(assign("lease", "a"))

    assert [type(step) for step in steps] == [Keep, Say, Keep, Start]
    assert marks(steps) == [(Mark.RECEIVED, "a"), (Mark.STARTED, "a")]
    assert said(steps) == [Received(("a",))]


def test_a_group_is_kept_whole_and_runs_one_after_another() -> None:
    """PLC-10: the room of one task."""
    duties = connected()
    assert started(duties.take(assign("lease", "a", "b", "c"))) == ["a"]
    duties.started("a")
    assert started(duties.ended("a", Outcome.SUCCEEDED)) == ["b"]
    assert started(duties.ended("b", Outcome.FAILED)) == ["c"]
    assert started(duties.ended("c", Outcome.SUCCEEDED)) == []


def test_leases_run_beside_one_another() -> None:
    """Each has its own room."""
    duties = connected()

    assert started(duties.take(assign("one", "a", "b"))) == ["a"]
    assert started(duties.take(assign("two", "x", "y"))) == ["x"]


def test_an_assignment_that_comes_twice_is_started_once() -> None:
    """I-17."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))

    assert duties.take(assign("lease", "a", "b")) == []


def test_the_start_of_a_process_is_reported() -> None:
    """RUNNING means that the process has started, as the worker said."""
    duties = connected()
    duties.take(assign("lease", "a"))

    assert said(duties.started("a")) == [Started("a")]
    assert duties.running() == ["a"]


def test_a_start_that_is_noticed_after_the_end_says_nothing() -> None:
    """The process was killed as it started."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.STOPPED)

    assert duties.started("a") == []
    assert duties.running() == []


def test_a_result_is_kept_before_it_is_sent() -> None:
    """I-50."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")

    steps = duties.ended("a", Outcome.SUCCEEDED, "7", None)

    result = Result("a", Outcome.SUCCEEDED, "7", None)
    assert steps == [Keep(Record(Mark.ENDED, "a", "lease", None, result)), Say(result)]


def test_an_end_that_is_reported_twice_counts_once() -> None:
    """The first result stands."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)

    assert duties.ended("a", Outcome.FAILED) == []


@pytest.mark.parametrize("verdict", [Verdict.APPLIED, Verdict.ALREADY, Verdict.SUPERSEDED, Verdict.REJECTED])
def test_a_result_is_forgotten_on_the_answer_and_not_before(verdict: Verdict) -> None:
    """I-50, WRK-10."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)
    assert duties.holds() == ("a",)

    assert marks(duties.take(Answer("a", verdict))) == [(Mark.FORGOTTEN, "a")]
    assert duties.holds() == ()


def test_a_result_that_nobody_knows_is_kept_aside() -> None:
    """I-54: shown, bounded, and never sent again."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED, "7")

    assert marks(duties.take(Answer("a", Verdict.UNKNOWN))) == [(Mark.ASIDE, "a")]
    assert list(duties.aside) == [Result("a", Outcome.SUCCEEDED, "7")]
    assert duties.holds() == ()


def test_what_is_kept_aside_is_bounded() -> None:
    """I-53: the oldest go first."""
    duties = connected(credit=10 * MOST_ASIDE)
    for n in range(MOST_ASIDE + 10):
        duties.take(assign(f"lease{n}", f"a{n}"))
        duties.ended(f"a{n}", Outcome.SUCCEEDED)
        duties.take(Answer(f"a{n}", Verdict.UNKNOWN))

    assert len(duties.aside) == MOST_ASIDE
    assert duties.aside[0].attempt == "a10"


@pytest.mark.parametrize("attempt", ["a", "z"])
def test_an_answer_to_what_has_no_result_changes_nothing(attempt: str) -> None:
    """It still runs, or was never here."""
    duties = connected()
    duties.take(assign("lease", "a"))

    assert duties.take(Answer(attempt, Verdict.APPLIED)) == []
    assert duties.holds() == ("a",)


def test_results_wait_for_credit_and_go_in_order() -> None:
    """DESIGN: without credit they stay in the journal."""
    duties = connected(credit=1)
    for name in ("a", "b", "c"):
        duties.take(assign(f"lease-{name}", name))
    assert [one.attempt for one in said(duties.ended("a", Outcome.SUCCEEDED))] == ["a"]  # type: ignore[union-attr]
    assert said(duties.ended("b", Outcome.SUCCEEDED)) == []
    assert said(duties.ended("c", Outcome.SUCCEEDED)) == []

    assert said(duties.take(Credit(1))) == [Result("b", Outcome.SUCCEEDED)]
    assert said(duties.take(Credit(5))) == [Result("c", Outcome.SUCCEEDED)]


def test_everything_but_results_needs_no_credit() -> None:
    """Beats, receipts, starts and returns always flow."""
    duties = connected(credit=0)

    assert said(duties.take(assign("lease", "a", "b"))) == [Received(("a", "b"))]
    assert said(duties.started("a")) == [Started("a")]
    assert said(duties.beat()) == [Beat()]
    assert said(duties.take(Recall(("b",)))) == [Returned(("b",))]


def test_a_recall_returns_only_what_has_not_started() -> None:
    """The one that runs is answered *started*, the others are given back, and forgotten before that is said."""
    duties = connected()
    duties.take(assign("lease", "a", "b", "c"))
    duties.started("a")

    steps = duties.take(Recall(("a", "b", "c")))

    assert marks(steps) == [(Mark.FORGOTTEN, "b"), (Mark.FORGOTTEN, "c")]
    assert said(steps) == [Started("a"), Returned(("b", "c"))]
    assert isinstance(steps[-1], Say)
    assert started(duties.ended("a", Outcome.SUCCEEDED)) == []


def test_a_recall_of_what_is_just_being_started_is_answered_by_its_start() -> None:
    """Its process may be there already: it is not given back."""
    duties = connected()
    duties.take(assign("lease", "a"))

    assert duties.take(Recall(("a",))) == []
    assert said(duties.started("a")) == [Started("a")]


def test_a_recall_of_what_is_over_says_nothing() -> None:
    """Its result is on the way."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)

    assert duties.take(Recall(("a",))) == []


def test_a_recall_of_what_is_not_here_is_answered_returned() -> None:
    """The assignment was lost on its way, or given back before."""
    assert said(connected().take(Recall(("z",)))) == [Returned(("z",))]


def test_a_recalled_member_is_not_started_when_its_turn_would_come() -> None:
    """The one behind it is."""
    duties = connected()
    duties.take(assign("lease", "a", "b", "c"))
    duties.take(Recall(("b",)))

    assert started(duties.ended("a", Outcome.SUCCEEDED)) == ["c"]


def test_a_stop_ends_the_process_that_runs() -> None:
    """STA-8: ask, wait, kill; the result follows when it is gone."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.started("a")

    steps = duties.take(Stop("a", "cancelled", 30.0))

    assert killed(steps) == ["a"]
    assert said(steps) == []
    assert said(duties.ended("a", Outcome.STOPPED)) == [Result("a", Outcome.STOPPED)]


def test_a_stop_of_what_is_just_being_started_kills_it() -> None:
    """Its process may be there already."""
    duties = connected()
    duties.take(assign("lease", "a"))

    assert killed(duties.take(Stop("a", "cancelled", 30.0))) == ["a"]


def test_a_stop_of_a_member_that_waits_ends_it_without_a_process() -> None:
    """And the others of its group go on."""
    duties = connected()
    duties.take(assign("lease", "a", "b", "c"))

    steps = duties.take(Stop("b", "cancelled", 30.0))

    assert killed(steps) == []
    assert said(steps) == [Result("b", Outcome.STOPPED)]
    assert started(duties.ended("a", Outcome.SUCCEEDED)) == ["c"]


def test_a_stop_of_what_is_over_says_nothing() -> None:
    """STA-8: a result produced before the signal counts."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.ended("a", Outcome.SUCCEEDED)

    assert duties.take(Stop("a", "cancelled", 30.0)) == []


def test_a_stop_of_what_is_not_here_is_answered_returned() -> None:
    """The server must not wait for it for ever."""
    assert said(connected().take(Stop("z", "not yours", 0.0))) == [Returned(("z",))]


def test_nothing_is_said_without_a_session_and_everything_goes_on() -> None:
    """WRK-10: static stability."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.lost_session()

    assert said(duties.started("a")) == []
    steps = duties.ended("a", Outcome.SUCCEEDED)
    assert (said(steps), started(steps)) == ([], ["b"])
    assert marks(steps)[0] == (Mark.ENDED, "a")
    assert duties.beat() == []


def test_a_new_session_says_all_that_is_held() -> None:
    """LIV-6: received, running, and ended and not yet answered."""
    duties = connected()
    duties.take(assign("one", "a", "b"))
    duties.take(assign("two", "x"))
    duties.started("a")
    duties.ended("x", Outcome.SUCCEEDED)

    hello = duties.register("w1", "s2", OFFER, {"disk": "ssd"}, "eu")

    assert (hello.session, hello.holds, hello.labels, hello.zone) == ("s2", ("a", "b", "x"), {"disk": "ssd"}, "eu")


def test_a_welcome_has_everything_said_again_that_the_server_may_not_have_heard() -> None:
    """Receipts, starts, and results as far as there is credit."""
    duties = connected(credit=0)
    duties.take(assign("one", "a", "b"))
    duties.take(assign("two", "x"))
    duties.started("a")
    duties.ended("x", Outcome.SUCCEEDED)
    duties.register("w1", "s2", OFFER, {})

    assert said(duties.take(Welcome("s2"))) == [Received(("b",)), Started("a")]
    assert said(duties.take(Credit(10))) == [Result("x", Outcome.SUCCEEDED)]


def test_credit_of_an_older_session_is_void() -> None:
    """Its results have to wait for the new one's."""
    duties = connected(credit=100)
    duties.register("w1", "s2", OFFER, {})
    duties.take(Welcome("s2"))
    duties.take(assign("lease", "a"))

    assert said(duties.ended("a", Outcome.SUCCEEDED)) == []


def test_a_welcome_to_another_session_opens_nothing() -> None:
    """It comes from an older connection."""
    duties = Duties()
    duties.register("w1", "s2", OFFER, {})

    assert duties.take(Welcome("s1")) == []
    assert duties.beat() == []


def test_a_result_that_was_sent_and_not_answered_is_sent_again_in_the_next_session() -> None:
    """I-50: once per session."""
    duties = connected()
    duties.take(assign("lease", "a"))
    assert len(said(duties.ended("a", Outcome.SUCCEEDED))) == 1
    assert said(duties.take(Credit(5))) == []

    duties.register("w1", "s2", OFFER, {})
    duties.take(Welcome("s2"))
    assert said(duties.take(Credit(5))) == [Result("a", Outcome.SUCCEEDED)]
