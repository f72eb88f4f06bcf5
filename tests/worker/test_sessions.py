"""Opening sessions, silence of the server, and draining (LIV-6, WRK-9, WRK-10)."""

from __future__ import annotations

from mainspring.protocol.wire import (
    Answer,
    Credit,
    Leaving,
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
from mainspring.worker.agent.instructions import Mark
from mainspring.worker.agent.state_machine import Duties
from tests.worker.words import assign, connected, hello, killed, marks, said, started, taken_back


def test_a_new_session_lists_all_attempts() -> None:
    """LIV-6: received, running, and ended without an answer."""
    duties = connected()
    duties.take(assign("one", "a", "b"))
    duties.take(assign("two", "x"))
    duties.started("a")
    duties.ended("x", Outcome.SUCCEEDED)

    assert duties.register(hello("s2")).holds == ("a", "b", "x")


def test_a_welcome_resends_everything_the_server_may_have_missed() -> None:
    """Receipts, starts, and results within credit."""
    duties = connected(credit=0)
    duties.take(assign("one", "a", "b"))
    duties.take(assign("two", "x"))
    duties.started("a")
    duties.ended("x", Outcome.SUCCEEDED)
    duties.register(hello("s2"))

    assert said(duties.take(Welcome("s2"))) == [Received(("b",)), Started("a")]
    assert said(duties.take(Credit(10))) == [Result("x", Outcome.SUCCEEDED)]


def test_attempts_returned_between_register_and_welcome_are_reported() -> None:
    """The registration listed them."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.take(Recall(("b",)))
    duties.register(hello("s2"))
    assert said(duties.unbegun(["b"])) == []

    assert said(duties.take(Welcome("s2"))) == [Returned(("b",)), Received(("a",))]


def test_credit_of_an_older_session_is_void() -> None:
    """Results wait for credit of the new one."""
    duties = connected(credit=100)
    duties.register(hello("s2"))
    duties.take(Welcome("s2"))
    duties.take(assign("lease", "a"))

    assert said(duties.ended("a", Outcome.SUCCEEDED)) == []


def test_a_welcome_of_another_session_is_ignored() -> None:
    """It comes from an older connection."""
    duties = Duties()
    duties.register(hello("s2"))

    assert duties.take(Welcome("s1")) == []
    assert duties.beat() == []


def test_an_unacknowledged_result_is_resent_in_the_next_session() -> None:
    """I-50: once per session."""
    duties = connected()
    duties.take(assign("lease", "a"))
    assert len(said(duties.ended("a", Outcome.SUCCEEDED))) == 1
    assert said(duties.take(Credit(5))) == []

    duties.register(hello("s2"))
    duties.take(Welcome("s2"))
    assert said(duties.take(Credit(5))) == [Result("a", Outcome.SUCCEEDED)]


def test_during_silence_unstarted_attempts_are_withdrawn_and_wait() -> None:
    """The server may consider this work lost and reschedule it."""
    duties = connected()
    duties.take(assign("lease", "a", "b", "c"))
    duties.started("a")

    assert taken_back(duties.silence()) == ["b", "c"]
    assert duties.silence() == []
    assert duties.unbegun(["b", "c"]) == []
    assert duties.holds() == ("a", "b", "c")
    assert started(duties.heard()) == ["b", "c"]
    assert duties.heard() == []


def test_any_message_of_a_server_ends_the_silence() -> None:
    """Attempts are launched again in order."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.silence()
    duties.unbegun(["a", "b"])

    assert started(duties.take(Credit(1))) == ["a", "b"]


def test_an_attempt_withdrawn_after_the_silence_is_relaunched() -> None:
    """The supervisor answers after the server is back."""
    duties = connected()
    duties.take(assign("lease", "a"))
    duties.silence()
    assert duties.heard() == []

    assert started(duties.unbegun(["a"])) == ["a"]


def test_attempts_waiting_during_silence_can_be_recalled_and_stopped() -> None:
    """The message ends the silence first, so they are launched before it is processed."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.silence()
    duties.unbegun(["a", "b"])

    assert taken_back(duties.take(Recall(("a",)))) == ["a"]
    assert killed(duties.take(Stop("b", "cancelled", 1.0))) == ["b"]


def test_a_draining_worker_returns_unstarted_attempts_and_finishes_the_rest() -> None:
    """WRK-9."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.started("a")

    steps = duties.leave()
    assert (said(steps), taken_back(steps)) == ([Leaving()], ["b"])
    back = duties.unbegun(["b"])
    assert (said(back), marks(back)) == ([Returned(("b",))], [(Mark.FORGOTTEN, "b")])
    duties.ended("a", Outcome.SUCCEEDED)
    duties.take(Answer("a", Verdict.APPLIED))
    assert duties.holds() == ()


def test_a_draining_worker_returns_new_attempts_in_every_session() -> None:
    """They were assigned before the server knew."""
    duties = connected()
    duties.leave()

    steps = duties.take(assign("lease", "a", "b"))
    assert (said(steps), marks(steps), started(steps)) == ([Returned(("a", "b"))], [], [])
    duties.register(hello("s2"))
    assert said(duties.take(Welcome("s2"))) == [Leaving()]


def test_a_worker_with_a_full_spool_accepts_nothing_and_finishes_its_attempts() -> None:
    """I-53: it never drops anything, and accepts work again when there is space."""
    duties = connected()
    duties.take(assign("lease", "a"))

    assert said(duties.crowd(crowded=True)) == [Leaving()]
    assert duties.crowd(crowded=True) == []
    assert said(duties.take(assign("two", "b"))) == [Returned(("b",))]
    assert said(duties.ended("a", Outcome.SUCCEEDED)) == [Result("a", Outcome.SUCCEEDED)]
    assert duties.crowd(crowded=False) == []
    assert started(duties.take(assign("three", "c"))) == ["c"]
