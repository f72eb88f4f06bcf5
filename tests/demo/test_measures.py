"""Measures and checks of the demo."""

from __future__ import annotations

import math

import msgspec
import pytest

from mainspring.demo import checks, measures
from mainspring.demo.console_lines import Line, LineCode
from mainspring.demo.measures import Census, Moved
from mainspring.protocol.rest.schedules import FireView
from tests.demo.builders import NOON, attempt, later, run, task, worker


def fire(schedule: str, at_seconds: float = 0, count: int = 1) -> FireView:
    """Build a window of a schedule that ran."""
    return FireView(
        schedule_id=schedule, window_at=later(at_seconds), last_window_at=later(at_seconds), count=count, generation=1,
        outcome="ran", because="", is_catch_up=False, flagged=False, start_at=None, run_id="run_1", run_state=None,
        run_ended_at=None, backfill_id=None, by="", decided_at=NOON,
    )  # fmt: skip


def moved(traces: str) -> Moved:
    """Measure four tasks: finished by w-03, started by it, only assigned to it, and run by another worker."""
    lost = attempt(1, "w-03", "lost")
    tries = {
        "finished": [attempt(1, "w-03", "succeeded")],
        "begun": [lost, attempt(2, "w-01", "succeeded")],
        "given": [msgspec.structs.replace(lost, started_at=None), attempt(2, "w-02", "succeeded")],
        "other": [attempt(1, "w-01", "succeeded")],
    }
    labels = {name: str(number) for number, name in enumerate(tries)}
    return measures.moved(worker("w-03", "lost"), tries, labels, traces.split(), NOON)


def test_a_task_has_moved_if_the_lost_worker_started_it_and_another_finished_it() -> None:
    found = moved("0 1 2 3")

    assert found == Moved(worker="w-03", status="lost", moved=1, lost=0, twice=0, seconds=2.0)


def test_a_task_without_ledger_entry_is_lost_and_with_two_ran_twice() -> None:
    found = moved("0 1 1 2")

    assert (found.lost, found.twice) == (1, 1)


def test_without_moved_tasks_the_time_is_undefined() -> None:
    found = measures.moved(worker("w-03", "lost"), {}, {}, [], NOON)

    assert found.moved == 0
    assert math.isnan(found.seconds)


def test_tasks_that_start_after_the_last_of_the_few_are_overtaken() -> None:
    many = [task(tenant="acme", started_at=later(second)) for second in range(10)]
    few = [task(tenant="media", started_at=later(second)) for second in (2, 6.5)]

    assert measures.share(many, few, ("SUCCEEDED", "SUCCEEDED")).overtaken == 3


def test_tasks_that_never_started_overtake_none() -> None:
    many = [task(tenant="acme", started_at=later(second)) for second in range(10)]

    assert measures.share(many, [task(tenant="media")], ("SUCCEEDED", "RUNNING")).overtaken == 0


def test_the_p95_of_a_storm_excludes_the_slowest_twentieth() -> None:
    runs = [run(state="SUCCEEDED", window_at=NOON, started_at=later(number)) for number in range(1, 41)]
    found = measures.storm([fire(f"storm-{number}") for number in range(40)], runs)

    assert found.p95_seconds == 38
    assert (found.schedules, found.instants, found.succeeded) == (40, 1, 40)


def test_the_delay_of_a_heartbeat_is_that_of_its_latest_run() -> None:
    runs = [run(window_at=later(10), started_at=later(10.5)), run(window_at=NOON, started_at=later(3))]
    found = measures.beats([fire("heartbeat", 10), fire("heartbeat", 0, count=2)], runs)

    assert (found.windows, found.runs, found.late_seconds) == (3, 2, 0.5)


def test_a_worker_matches_a_label_only_by_value() -> None:
    workers = [worker("w-01", gpu="t4"), worker("w-02"), worker("w-03", gpu="a100")]

    assert measures.offering(workers, "gpu", "a100") == 1


def test_the_census_distinguishes_never_started_from_unfinished_runs() -> None:
    runs = [
        run("a", state="SUCCEEDED", retries=2),
        run("b", state="SUCCEEDED"),
        run("c", state="TIMED_OUT"),
        run("d", "media", state="RUNNING", id="run_waits"),
        run("e", state="RUNNING", id="run_goes"),
        run("f", state="CANCELLED"),
    ]

    assert measures.census(runs, ["run_goes"]) == Census(
        runs=6, succeeded=2, after_retries=1, failed=("c",), cancelled=1, never_started=("media/d",), unfinished=1
    )


def test_a_failed_check_shows_the_actual_result() -> None:
    found = {check.name: check for check in checks.judge(moved("0 1 1 2"))}

    assert found["its tasks are rescheduled"].ok
    assert found["its tasks are rescheduled"].found == ""
    assert not found["none is lost"].ok
    assert '"lost":1' in found["none is lost"].found


@pytest.mark.parametrize(
    ("name", "value"),
    [("subject", "else"), ("code", LineCode.FAILED), ("task", "else"), ("count", 1), ("attempt", 9), ("error", "else")],
)
def test_an_expected_line_is_missing_if_any_of_its_facts_differs(name: str, value: str | int) -> None:
    lines = [
        Line(
            glyph="", text="", subject=one.subject, code=one.code, task=one.task, attempt=one.attempt, count=one.count,
            error=one.error,
        )
        for one in checks.EXPECTED
    ]  # fmt: skip
    assert all(check.ok for check in checks.check_lines(lines))

    place = next(place for place, one in enumerate(checks.EXPECTED) if getattr(one, name))
    lines[place] = msgspec.structs.replace(lines[place], **{name: value})
    (missing,) = [check for check in checks.check_lines(lines) if not check.ok]
    assert missing.name == checks.EXPECTED[place].name


def test_without_lines_every_expected_line_is_missing() -> None:
    assert not any(check.ok for check in checks.check_lines([]))
