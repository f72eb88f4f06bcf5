"""A restarted worker with its spool: nothing is started twice, nothing is lost (WRK-10, I-17, I-50)."""

from __future__ import annotations

from mainspring.protocol.wire import Answer, Checkpoint, Credit, Outcome, Recall, Result, Started, Verdict, Welcome
from mainspring.worker.agent.instructions import Mark, Record, Step
from mainspring.worker.agent.state_machine import Duties
from mainspring.worker.supervisor.supervisor_wire import Ended, Holding
from tests.worker.words import assign, connected, hello, kept, killed, marks, said, started, taken_back

NOTHING = Holding((), (), ())
WHY = "the worker was restarted"
STOPPED = '"the worker was restarted"'


def journal_of(*lists: list[Step]) -> list[Record]:
    """Return the records on disk after these instructions."""
    return [record for steps in lists for record in kept(steps)]


def restarted(journal: list[Record], holding: Holding = NOTHING) -> tuple[Duties, list[Step]]:
    """Restore a state machine from a spool, with this inventory of the supervisor."""
    duties = Duties()
    duties.restore(journal)
    return duties, duties.adopt(holding, WHY)


def test_lost_attempts_are_reported_as_stopped_and_never_restarted() -> None:
    """I-17: running ones, and launched ones that may have started."""
    first = connected()
    journal = journal_of(first.take(assign("lease", "a", "b")), first.started("a", 7, 1.0))

    duties, steps = restarted(journal)

    assert started(steps) == []
    assert [record.result for record in kept(steps)] == [
        Result("a", Outcome.STOPPED, None, STOPPED), Result("b", Outcome.STOPPED, None, STOPPED),
    ]  # fmt: skip
    assert duties.holds() == ("a", "b")


def test_attempts_of_the_supervisor_continue() -> None:
    """WRK-10: they are adopted, with events of the meantime."""
    first = connected()
    journal = journal_of(first.take(assign("lease", "a", "b", "c", "d")), first.started("a", 7, 1.0))

    holding = Holding(("d",), ("b", "c"), (Ended("a", Outcome.SUCCEEDED, "7", None),))
    duties, steps = restarted(journal, holding)

    assert marks(steps) == [(Mark.ENDED, "a"), (Mark.STARTED, "b"), (Mark.STARTED, "c")]
    assert duties.unfinished() == ["b", "c", "d"]
    duties.register(hello("s9"))
    welcomed = said(duties.take(Welcome("s9"))) + said(duties.take(Credit(5)))
    assert welcomed[1:] == [Started("b"), Started("c"), Result("a", Outcome.SUCCEEDED, "7")]


def test_the_process_of_a_running_attempt_is_still_known() -> None:
    """To kill it, should the supervisor die."""
    first = connected()
    journal = journal_of(first.take(assign("lease", "a")), first.started("a", 4711, 12.5))

    duties, steps = restarted(journal, Holding((), ("a",), ()))

    assert steps == []
    assert [(one.pid, one.created) for one in duties.running()] == [(4711, 12.5)]


def test_attempts_missing_in_the_spool_are_killed() -> None:
    """The spool was lost: the server does not expect them."""
    _, steps = restarted([], Holding(("w",), ("r",), (Ended("e", Outcome.SUCCEEDED, None, None),)))

    assert killed(steps) == ["r", "w"]
    assert kept(steps) == []


def test_a_recall_is_repeated_to_a_new_supervisor() -> None:
    """The request may have been lost."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.take(Recall(("b",)))

    steps = duties.adopt(Holding(("a", "b"), (), ()), "the supervisor died")

    assert taken_back(steps) == ["b"]


def test_attempts_of_a_dead_supervisor_are_stopped_and_waiting_ones_are_kept() -> None:
    """A waiting one is held by the agent, and can start under the next supervisor."""
    duties = connected()
    duties.take(assign("lease", "a", "b"))
    duties.started("a")
    duties.silence()
    duties.unbegun(["b"])

    steps = duties.adopt(NOTHING, "the supervisor died")

    assert [record.result for record in kept(steps)] == [Result("a", Outcome.STOPPED, None, '"the supervisor died"')]
    assert started(duties.heard()) == ["b"]


def test_an_attempt_withdrawn_after_a_restart_is_returned() -> None:
    """The spool does not contain assignments, so it could not be started later."""
    first = connected()
    duties, _ = restarted(journal_of(first.take(assign("lease", "a"))), Holding(("a",), (), ()))

    assert taken_back(duties.silence()) == ["a"]
    assert marks(duties.unbegun(["a"])) == [(Mark.FORGOTTEN, "a")]


def test_a_restarted_worker_still_has_its_results_and_checkpoints() -> None:
    """I-50: they are delivered when the server is back."""
    first = connected(credit=0)
    journal = journal_of(
        first.take(assign("lease", "a")),
        first.started("a"),
        first.saved("a", "1"),
        first.saved("a", "2"),
        first.ended("a", Outcome.SUCCEEDED, "7"),
    )

    duties, steps = restarted(journal)
    assert steps == []
    duties.register(hello("s9"))

    assert said(duties.take(Welcome("s9"))) == [Checkpoint("a", "2")]
    assert said(duties.take(Credit(1))) == [Result("a", Outcome.SUCCEEDED, "7")]


def test_a_restarted_worker_forgets_answered_and_returned_attempts() -> None:
    """As recorded in the spool."""
    first = connected()
    journal = journal_of(
        first.take(assign("one", "a")),
        first.ended("a", Outcome.SUCCEEDED),
        first.take(Answer("a", Verdict.APPLIED)),
        first.take(assign("two", "x", "y")),
        first.take(Recall(("y",))),
        first.unbegun(["y"]),
    )

    duties, _ = restarted(journal, Holding(("x",), (), ()))

    assert duties.holds() == ("x",)
    assert duties.take(assign("one", "a")) == []


def test_a_restarted_worker_still_has_unknown_results() -> None:
    """I-54."""
    first = connected()
    journal = journal_of(
        first.take(assign("one", "a")),
        first.ended("a", Outcome.SUCCEEDED, "7"),
        first.take(Answer("a", Verdict.UNKNOWN)),
    )

    duties, _ = restarted(journal)

    assert list(duties.aside) == [Result("a", Outcome.SUCCEEDED, "7")]
