"""A worker that is restarted with its journal: nothing is started twice, nothing is lost (WRK-10, I-17, I-50)."""

from __future__ import annotations

from mainspring.wire import Answer, Credit, Outcome, Recall, Result, Verdict
from mainspring.worker.duties import Duties, Mark, Record, Step
from tests.worker.words import assign, connected, kept, marks, said, started


def journal_of(*lists: list[Step]) -> list[Record]:
    """What is on disk after these steps."""
    return [record for steps in lists for record in kept(steps)]


def test_a_restarted_worker_never_starts_an_attempt_again() -> None:
    """I-17: what was running is reported as stopped."""
    first = connected()
    journal = journal_of(first.take(assign("lease", "a")), first.started("a"))

    duties = Duties()
    steps = duties.restore(journal)

    assert started(steps) == []
    assert kept(steps)[0].result == Result("a", Outcome.STOPPED, None, '"the worker was restarted"')


def test_a_restarted_worker_goes_on_with_the_next_of_a_group_and_starts_it_once() -> None:
    """I-17: `a` was running, `b` and `c` had not begun."""
    first = connected()
    journal = journal_of(first.take(assign("lease", "a", "b", "c")), first.started("a"))

    steps = Duties().restore(journal)

    assert started(steps) == ["b"]
    assert [mark for mark in marks(steps) if mark[0] is Mark.STARTED] == [(Mark.STARTED, "b")]


def test_a_restarted_worker_still_has_its_results() -> None:
    """I-50: they are delivered when the server returns."""
    first = connected(credit=0)
    journal = journal_of(first.take(assign("lease", "a")), first.ended("a", Outcome.SUCCEEDED, "7"))

    duties = Duties()
    assert duties.restore(journal) == []
    connected(duties=duties, credit=0, session="s9")

    assert said(duties.take(Credit(1))) == [Result("a", Outcome.SUCCEEDED, "7")]


def test_a_restarted_worker_has_forgotten_what_was_answered_or_returned() -> None:
    """The journal says so."""
    first = connected()
    journal = journal_of(
        first.take(assign("one", "a")),
        first.ended("a", Outcome.SUCCEEDED),
        first.take(Answer("a", Verdict.APPLIED)),
        first.take(assign("two", "x", "y")),
        first.take(Recall(("y",))),
    )

    duties = Duties()
    duties.restore(journal)

    assert duties.holds() == ("x",)


def test_a_restarted_worker_still_has_what_it_kept_aside() -> None:
    """I-54."""
    first = connected()
    journal = journal_of(
        first.take(assign("one", "a")),
        first.ended("a", Outcome.SUCCEEDED, "7"),
        first.take(Answer("a", Verdict.UNKNOWN)),
    )

    duties = Duties()
    duties.restore(journal)

    assert list(duties.aside) == [Result("a", Outcome.SUCCEEDED, "7")]


def test_a_journal_that_ends_before_the_start_was_written_starts_it_now() -> None:
    """The worker died between the receipt and the start."""
    first = connected()
    journal = journal_of(first.take(assign("lease", "a")))[:1]

    assert started(Duties().restore(journal)) == ["a"]
