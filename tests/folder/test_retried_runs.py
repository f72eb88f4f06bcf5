"""Manually retried runs are counted with their last result."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mainspring.folder.state import state_view
from mainspring.folder.state.records import ScheduleState, ScheduleStats
from mainspring.folder.state.state_view import Outcome
from mainspring.protocol.rest.runs import RunView
from tests.folder.views import T0, at, counted, record, run


def retried(generation: int = 2, id: str = "run_0", begins: float = 0, **more: object) -> RunView:
    """A manually retried run."""
    return replace(run(id, begins=begins), generation=generation, **more)


def test_a_retried_run_replaces_its_record_and_the_last_failure_stays() -> None:
    tally = counted(record(0, success=False, duration=100), record(10, duration=200))

    once = state_view.count(tally, retried(), record(0, duration=400), max_history=50)

    assert once.stats == ScheduleStats(total_runs=2, successful_runs=2, last_failure=at(0), average_duration=300.0)
    assert once.history == (record(10, duration=200), record(0, duration=400))
    assert state_view.count(once, retried(), record(0, duration=400), max_history=50) == once
    assert state_view.is_counted(once, run("run_0"))


def test_a_retried_run_that_fails_again_is_counted_as_failed_once() -> None:
    tally = counted(record(0, success=False), record(10))
    for generation in (2, 3):
        tally = state_view.count(tally, retried(generation), record(0, success=False), max_history=50)

    assert (tally.stats.total_runs, tally.stats.failed_runs, len(tally.history)) == (2, 1, 2)


def test_a_success_that_is_retried_and_fails_is_a_failure() -> None:
    stats = state_view.count(counted(record(0)), retried(), record(0, success=False), max_history=50).stats

    assert (stats.total_runs, stats.successful_runs, stats.failed_runs, stats.last_failure) == (1, 0, 1, at(0))


def test_a_retried_run_whose_first_end_was_not_counted_is_counted() -> None:
    stats = state_view.count(counted(record(0)), retried(id="run_1", begins=10), record(10), max_history=50).stats

    assert (stats.total_runs, stats.successful_runs) == (2, 2)


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_retried_run_that_has_left_the_history_changes_no_totals(is_remembered: bool) -> None:
    tally = counted(record(0, success=False), record(10), record(20), max_history=2)
    tally = tally if is_remembered else replace(tally, counted=tally.counted[1:])

    again = state_view.count(tally, retried(), record(0), max_history=2)

    assert (again.stats, again.history) == (tally.stats, tally.history)


def test_a_retried_run_that_only_the_file_counted_is_corrected_and_no_total_falls_below_zero() -> None:
    state = ScheduleState(schedule_id="a-abcdef", pipeline_id="a", history=(record(0, success=False),))
    tally = state_view.import_tally(state, at(1_000), is_on_server=True, max_history=50)

    again = state_view.count(tally, retried(), record(0), max_history=50)

    assert again.history == (record(0),)
    assert again.stats == ScheduleStats()


def test_the_duration_of_a_retried_run_excludes_the_time_before_the_retry() -> None:
    ended = retried(adopted_at=at(3_600), ended_at=at(3_602))

    made = state_view.record_of(ended, Outcome())

    assert (made.started_at, made.completed_at, made.duration) == (T0, at(3_602), 2_000)
