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
from mainspring.worker.agent.state_machine import StateMachine
from tests.worker.message_builders import assign, connected, hello, killed, marks, said, started, taken_back


def test_a_new_session_lists_all_attempts() -> None:
    """LIV-6: received, running, and ended without an answer."""
    state_machine = connected()
    state_machine.take(assign("one", "a", "b"))
    state_machine.take(assign("two", "x"))
    state_machine.started("a")
    state_machine.ended("x", Outcome.SUCCEEDED)

    assert state_machine.register(hello("s2")).holds == ("a", "b", "x")


def test_a_welcome_resends_everything_the_server_may_have_missed() -> None:
    """Receipts, starts, and results within credit."""
    state_machine = connected(credit=0)
    state_machine.take(assign("one", "a", "b"))
    state_machine.take(assign("two", "x"))
    state_machine.started("a")
    state_machine.ended("x", Outcome.SUCCEEDED)
    state_machine.register(hello("s2"))

    assert said(state_machine.take(Welcome("s2"))) == [Received(("b",)), Started("a")]
    assert said(state_machine.take(Credit(10))) == [Result("x", Outcome.SUCCEEDED)]


def test_attempts_returned_between_register_and_welcome_are_reported() -> None:
    """The registration listed them."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.take(Recall(("b",)))
    state_machine.register(hello("s2"))
    assert said(state_machine.withdrawn(["b"])) == []

    assert said(state_machine.take(Welcome("s2"))) == [Returned(("b",)), Received(("a",))]


def test_credit_of_an_older_session_is_void() -> None:
    """Results wait for credit of the new one."""
    state_machine = connected(credit=100)
    state_machine.register(hello("s2"))
    state_machine.take(Welcome("s2"))
    state_machine.take(assign("lease", "a"))

    assert said(state_machine.ended("a", Outcome.SUCCEEDED)) == []


def test_a_welcome_of_another_session_is_ignored() -> None:
    """It comes from an older connection."""
    state_machine = StateMachine()
    state_machine.register(hello("s2"))

    assert state_machine.take(Welcome("s1")) == []
    assert state_machine.beat() == []


def test_an_unacknowledged_result_is_resent_in_the_next_session() -> None:
    """I-50: once per session."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    assert len(said(state_machine.ended("a", Outcome.SUCCEEDED))) == 1
    assert said(state_machine.take(Credit(5))) == []

    state_machine.register(hello("s2"))
    state_machine.take(Welcome("s2"))
    assert said(state_machine.take(Credit(5))) == [Result("a", Outcome.SUCCEEDED)]


def test_during_silence_unstarted_attempts_are_withdrawn_and_wait() -> None:
    """The server may consider this work lost and reschedule it."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b", "c"))
    state_machine.started("a")

    assert taken_back(state_machine.silence()) == ["b", "c"]
    assert state_machine.silence() == []
    assert state_machine.withdrawn(["b", "c"]) == []
    assert state_machine.holds() == ("a", "b", "c")
    assert started(state_machine.server_responded()) == ["b", "c"]
    assert state_machine.server_responded() == []


def test_any_message_of_a_server_ends_the_silence() -> None:
    """Attempts are launched again in order."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.silence()
    state_machine.withdrawn(["a", "b"])

    assert started(state_machine.take(Credit(1))) == ["a", "b"]


def test_an_attempt_withdrawn_after_the_silence_is_relaunched() -> None:
    """The supervisor answers after the server is back."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))
    state_machine.silence()
    assert state_machine.server_responded() == []

    assert started(state_machine.withdrawn(["a"])) == ["a"]


def test_attempts_waiting_during_silence_can_be_recalled_and_stopped() -> None:
    """The message ends the silence first, so they are launched before it is processed."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.silence()
    state_machine.withdrawn(["a", "b"])

    assert taken_back(state_machine.take(Recall(("a",)))) == ["a"]
    assert killed(state_machine.take(Stop("b", "cancelled", 1.0))) == ["b"]


def test_a_draining_worker_returns_unstarted_attempts_and_finishes_the_rest() -> None:
    """WRK-9."""
    state_machine = connected()
    state_machine.take(assign("lease", "a", "b"))
    state_machine.started("a")

    instructions = state_machine.leave()
    assert (said(instructions), taken_back(instructions)) == ([Leaving()], ["b"])
    back = state_machine.withdrawn(["b"])
    assert (said(back), marks(back)) == ([Returned(("b",))], [(Mark.FORGOTTEN, "b")])
    state_machine.ended("a", Outcome.SUCCEEDED)
    state_machine.take(Answer("a", Verdict.APPLIED))
    assert state_machine.holds() == ()


def test_a_draining_worker_returns_new_attempts_in_every_session() -> None:
    """They were assigned before the server knew."""
    state_machine = connected()
    state_machine.leave()

    instructions = state_machine.take(assign("lease", "a", "b"))
    assert (said(instructions), marks(instructions), started(instructions)) == ([Returned(("a", "b"))], [], [])
    state_machine.register(hello("s2"))
    assert said(state_machine.take(Welcome("s2"))) == [Leaving()]


def test_a_worker_with_a_full_spool_accepts_nothing_and_finishes_its_attempts() -> None:
    """I-53: it never drops anything, and accepts work again when there is space."""
    state_machine = connected()
    state_machine.take(assign("lease", "a"))

    assert said(state_machine.set_spool_full(spool_full=True)) == [Leaving()]
    assert state_machine.set_spool_full(spool_full=True) == []
    assert said(state_machine.take(assign("two", "b"))) == [Returned(("b",))]
    assert said(state_machine.ended("a", Outcome.SUCCEEDED)) == [Result("a", Outcome.SUCCEEDED)]
    assert state_machine.set_spool_full(spool_full=False) == []
    assert started(state_machine.take(assign("three", "c"))) == ["c"]
