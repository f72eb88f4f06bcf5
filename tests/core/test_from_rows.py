"""Diagnoses made of rows alone: of ended work, of runs in intake, and without a leader."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainspring.core.explain import from_rows
from mainspring.core.explain.diagnosis import Diagnosis, ExpectedKind, Reason
from mainspring.core.explain.diagnosis_report import as_plain
from mainspring.core.explain.from_rows import Lead
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Origin, TaskState
from tests.core.builders import NOON, a_run, a_task

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LED = Lead(pool="default", server="s1", is_held=True, age_seconds=3.1, batch=41)
UNLED = replace(LED, is_held=False, age_seconds=70.0)


def kind(found: Diagnosis) -> ExpectedKind | None:
    """The kind of its expected start."""
    return None if found.expected is None else found.expected.kind


def test_a_silent_leader_is_named_with_its_age_but_no_cause_is() -> None:
    task = replace(a_task(state=TaskState.QUEUED), because="ready: nothing upstream is open")

    found = from_rows.of_task(task, "etl", NOON + MINUTE, LED)

    assert (found.reason, found.by, found.age_seconds, found.batch) == (Reason.SCHEDULER_LAG, "rows", 3.1, 41)
    assert (found.suggestions, found.blockers, found.gates) == ((), (), ())
    assert as_plain(found).endswith("as of       3.1s ago; no leader responded, so there are no suggestions\n")


def test_without_a_leader_the_cause_is_unknown() -> None:
    for found in (
        from_rows.of_task(a_task(state=TaskState.QUEUED), "etl", NOON, UNLED),
        from_rows.of_run(a_run(), "etl", NOON, UNLED),
        from_rows.of_waiting_run(a_run(), "etl", NOON, 5, UNLED),
    ):
        assert (found.reason, found.suggestions, found.blockers, found.is_stale()) == (Reason.UNKNOWN, (), (), True)
        assert kind(found) is ExpectedKind.UNKNOWN


def test_a_task_that_its_leader_does_not_know() -> None:
    found = from_rows.of_unknown_task(a_task(state=TaskState.QUEUED), "etl", NOON)

    assert (found.reason, found.suggestions, found.blockers) == (Reason.UNKNOWN, (), ())


def test_an_ended_task_reports_its_outcome() -> None:
    done = replace(
        a_task(state=TaskState.SUCCEEDED),
        started_at=NOON,
        ended_at=NOON + 41 * SECOND,
        ran_on="w1",
        because="succeeded",
    )
    error = '{"message": "exited with 3", "last_lines": "one\\nno such table\\n"}'
    failed = replace(
        done,
        state=TaskState.FAILED,
        because="the only attempt failed",
        error=error,
        origin=Origin(0, 1, 2, 4, label="Oslo"),
    )
    strange = replace(failed, error='["not", "ours"]')

    well = from_rows.of_ended_task(done, "etl", NOON + 2 * MINUTE)
    badly = from_rows.of_ended_task(failed, "etl", NOON + 2 * MINUTE)

    assert (well.reason, well.suggestions, well.is_problem()) == (None, (), False)
    assert (badly.reason, badly.name, badly.is_problem()) == (None, "acme/etl/extract[Oslo]", True)
    assert badly.verdict.endswith('on w1: the only attempt failed (exited with 3; its last line was "no such table")')
    assert from_rows.of_ended_task(strange, "etl", NOON).verdict.endswith(': the only attempt failed (["not", "ours"])')
    assert [action.command for action in badly.suggestions] == [f"mainspring retry {failed.id}"]


def test_a_task_behind_one_that_failed_will_never_start_until_that_is_retried() -> None:
    cause = replace(a_task(state=TaskState.FAILED), ended_at=NOON, because="exit code 1")
    task = replace(a_task(name="load", state=TaskState.CANCELLED, position=1), cause=cause.id, because="extract failed")

    found = from_rows.of_ended_task(task, "etl", NOON + MINUTE, cause)

    assert (found.reason, kind(found)) == (Reason.DEPENDENCY_NOT_READY, ExpectedKind.NEVER)
    assert [one.id for one in found.blockers] == [cause.id]
    assert found.suggestions[0].command == f"mainspring retry {cause.id}"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (RunState.SUCCEEDED, "Succeeded 1m 00s ago, after 1m 00s"),
        (RunState.FAILED, "Failed 1m 00s ago, after 1m 00s: extract failed (exit code 1)"),
        (RunState.CANCELLED, "Cancelled 1m 00s ago, after 1m 00s: extract failed (exit code 1)"),
    ],
)
def test_an_ended_run_reports_its_outcome(state: RunState, words: str) -> None:
    run = replace(a_run(), state=state, adopted_at=NOON, ended_at=NOON + MINUTE, because="a task failed")
    failed = replace(a_task(state=TaskState.FAILED), because="exit code 1")

    found = from_rows.of_ended_run(run, "etl", NOON + 2 * MINUTE, None if state is RunState.SUCCEEDED else failed)

    assert (found.reason, found.verdict) == (None, words)
    assert bool(found.suggestions) is (state is not RunState.SUCCEEDED)


def test_a_run_that_is_not_due() -> None:
    found = from_rows.of_waiting_run(replace(a_run(), start_at=NOON + MINUTE), "etl", NOON, 1, LED)

    assert found.reason is Reason.WAITING_TIME
    assert found.expected is not None
    assert found.expected.earliest == found.expected.latest == NOON + MINUTE


def test_a_run_that_is_held_or_paused_in_intake() -> None:
    held = from_rows.of_waiting_run(replace(a_run(), held="its job can't be read"), "etl", NOON, 1, LED)
    paused = from_rows.of_waiting_run(replace(a_run(), paused=True, because="paused by ann"), "etl", NOON, 1, LED)

    assert (held.reason, held.is_problem()) == (Reason.QUARANTINED, True)
    assert "its job can't be read" in held.verdict
    assert paused.reason is Reason.PAUSED
    assert {action.command for one in (held, paused) for action in one.suggestions} == {
        f"mainspring resume {held.subject}"
    }
    assert len({action.effect for one in (held, paused) for action in one.suggestions}) == 1
    resumed = from_rows.of_waiting_run(a_run(), "etl", NOON, 1, LED)
    assert resumed.reason is Reason.PRIORITY_QUEUE_WAIT


def test_a_run_in_intake_counts_the_runs_before_it_or_blames_the_scheduler() -> None:
    many = from_rows.of_waiting_run(a_run(), "etl", NOON + SECOND, 121, LED)
    first = from_rows.of_waiting_run(a_run(), "etl", NOON + SECOND, 1, LED)
    late = from_rows.of_waiting_run(a_run(), "etl", NOON + MINUTE, 1, LED)

    assert (many.reason, many.numbers, many.more_blockers) == (Reason.PRIORITY_QUEUE_WAIT, {"ahead": 120.0}, 120)
    assert first.reason is Reason.PRIORITY_QUEUE_WAIT
    assert (late.reason, late.suggestions) == (Reason.SCHEDULER_LAG, ())
