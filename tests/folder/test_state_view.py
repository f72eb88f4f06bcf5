"""State files from the server's views: every documented field."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from mainspring.folder.state import state_view
from mainspring.folder.state.records import RunRecord, ScheduleState, ScheduleStats, ScheduleStatus
from mainspring.folder.state.state_view import Outcome, Tally
from tests.folder.views import T0, TOMORROW, at, counted, record, run, schedule, shown, task

LATER = T0 + timedelta(seconds=1_000)


# records


def test_a_run_that_succeeded() -> None:
    outcome = state_view.outcome_of(run(), [task(output={"items_processed": 42, "result_file": ".results/x.json"})])

    assert state_view.record_of(run(), outcome) == RunRecord(
        started_at=T0, completed_at=at(155), success=True, duration=155_000, items_processed=42,
        result_file=".results/x.json",
    )  # fmt: skip


@pytest.mark.parametrize("state", ["FAILED", "TIMED_OUT", "PARTIAL", "CANCELLED"])
def test_a_run_in_any_other_final_state_is_not_a_success(state: str) -> None:
    assert not state_view.record_of(run(state=state), Outcome()).success
    assert state_view.has_ended(run(state=state))


def test_the_error_is_that_of_the_failed_task() -> None:
    failed = task("load", "FAILED", error={"type": "exit", "message": "exited with 3"})

    assert state_view.outcome_of(run(state="FAILED"), [failed]).error == "exited with 3"
    assert state_view.outcome_of(run(state="FAILED"), [task("extract"), failed]).error == "load: exited with 3"


def test_the_error_has_the_last_line_of_output() -> None:
    failed = task(state="FAILED", error={"message": "exited with 3", "last_lines": "trying\nno such table\n"})

    assert state_view.outcome_of(run(state="FAILED"), [failed]).error == "exited with 3: no such table"


def test_a_failure_without_an_error_is_described_by_its_reason() -> None:
    assert state_view.outcome_of(run(state="FAILED"), [task(state="FAILED", because="its only try failed")]).error == (
        "its only try failed"
    )


def test_a_cancelled_run_names_who_cancelled_it() -> None:
    cancelled = replace(run(state="CANCELLED"), because="cancelled by ann")

    assert state_view.outcome_of(cancelled, [task(state="CANCELLED")]).error == "cancelled by ann"


def test_an_active_run_has_no_end_and_no_success() -> None:
    under_way = state_view.record_of(run(state="RUNNING", ends=None), Outcome())

    assert (under_way.completed_at, under_way.success, under_way.duration) == (None, False, UNSET)


def test_times_are_whole_milliseconds_and_an_end_is_never_before_its_start() -> None:
    odd = replace(run(), created_at=T0.replace(microsecond=1_999), start_at=T0, ended_at=T0)

    made = state_view.record_of(odd, Outcome())

    assert made.started_at == T0.replace(microsecond=1_000)
    assert made.completed_at == made.started_at
    assert made.duration == 0


def test_retries_are_omitted_if_there_were_none() -> None:
    assert state_view.record_of(run(), Outcome()).retry_attempt is UNSET
    assert state_view.record_of(run(retries=2), Outcome()).retry_attempt == 2


def test_outputs_are_by_task_and_those_of_a_fan_out_in_item_order() -> None:
    tasks = [task("b", output="y", partition=1), task("a", output={"n": 1}), task("b", output="x", partition=0)]

    assert state_view.outcome_of(run(), tasks).outputs == {"a": {"n": 1}, "b": ["x", "y"]}


def test_an_output_with_the_same_keys_of_other_types_is_ignored() -> None:
    assert state_view.outcome_of(run(), [task(output={"items_processed": "many"})]).items_processed is None
    assert state_view.outcome_of(run(), [task(output=[1, 2])]).result_file is None


def test_a_task_that_waits_for_a_retry_sets_the_due_time_of_the_run() -> None:
    waits = task(state="PENDING", due_at=at(60), error={"message": "no luck"})

    outcome = state_view.outcome_of(run(state="RUNNING", ends=None), [waits])

    assert outcome.due_at == at(60)
    assert outcome.error == "no luck"


# counting


def test_a_run_is_counted_once() -> None:
    once = counted(record())

    assert state_view.count(once, run("run_0"), record(), max_history=50) == once


def test_successes_and_failures_add_up() -> None:
    stats = counted(record(0), record(10, success=False), record(20), record(30, success=False)).stats

    assert (stats.total_runs, stats.successful_runs, stats.failed_runs) == (4, 2, 2)
    assert stats.last_failure == at(30)


def test_the_average_is_over_all_runs_and_not_only_over_the_history() -> None:
    stats = counted(*(record(n, duration=n * 100) for n in range(1, 11)), max_history=2).stats

    assert stats.average_duration == pytest.approx(550.0)


def test_without_an_average_the_mean_of_the_history_is_used() -> None:
    state = ScheduleState(
        schedule_id="a-abcdef", pipeline_id="a", stats=ScheduleStats(total_runs=3, successful_runs=3),
        history=(record(2, duration=200), record(1, duration=100)),
    )  # fmt: skip
    tally = state_view.import_tally(state, at(100), is_on_server=False, max_history=50)

    tally = state_view.count(tally, run(begins=50), record(50, duration=550), max_history=50)

    assert tally.stats.average_duration == pytest.approx(250.0)


def test_history_is_sorted_newest_first_and_limited() -> None:
    tally = counted(record(20), record(10), record(30), max_history=2)

    assert [one.started_at for one in tally.history] == [at(30), at(20)]
    assert tally.stats.total_runs == 3


# the state file


def test_the_average_has_one_decimal_in_the_file_and_is_exact_in_the_tally() -> None:
    tally = counted(*(record(n, duration=duration) for n, duration in enumerate((100, 100, 101))))

    assert shown(tally).stats.average_duration == 100.3
    assert tally.stats.average_duration == pytest.approx(301 / 3)


def test_a_schedule_that_never_ran() -> None:
    state = shown()

    assert state.status is ScheduleStatus.IDLE
    assert state.last_run is None
    assert state.next_run == TOMORROW
    assert state.stats == ScheduleStats()
    assert state.history == ()


@pytest.mark.parametrize(
    ("view", "success", "expected"),
    [
        ("active", True, ScheduleStatus.IDLE),
        ("active", False, ScheduleStatus.ERROR),
        ("paused", True, ScheduleStatus.PAUSED),
        ("paused", False, ScheduleStatus.PAUSED),
        ("disabled", False, ScheduleStatus.DISABLED),
        ("disabled", True, ScheduleStatus.DISABLED),
    ],
)
def test_the_status_without_an_active_run(view: str, success: bool, expected: ScheduleStatus) -> None:
    state = shown(counted(record(success=success)), schedule(view))

    assert state.status is expected
    assert state.enabled is (view != "disabled")


def test_paused_has_precedence_over_an_active_run() -> None:
    under_way = RunRecord(started_at=at(100), completed_at=None, success=False)

    state = shown(counted(record()), schedule("paused"), current=under_way)

    assert state.status is ScheduleStatus.PAUSED
    assert state.last_run is not None
    assert state.last_run.completed_at is None


def test_an_active_run_is_the_last_run_and_not_in_the_history() -> None:
    under_way = RunRecord(started_at=at(100), completed_at=None, success=False)

    state = shown(counted(record()), current=under_way)

    assert state.status is ScheduleStatus.RUNNING
    assert state.last_run is not None
    assert state.last_run.started_at == at(100)
    assert len(state.history) == 1
    assert state.stats.total_runs == 1


def test_between_two_attempts_the_status_is_error() -> None:
    failing = RunRecord(started_at=at(100), completed_at=None, success=False, error="no luck", retry_attempt=1)

    state = shown(current=failing)

    assert state.status is ScheduleStatus.ERROR
    assert state.last_run is not None
    assert (state.last_run.error, state.last_run.retry_attempt) == ("no luck", 1)


def test_the_last_run_has_null_where_the_history_omits_the_field() -> None:
    state = shown(counted(record()))
    text = msgspec.json.decode(msgspec.json.encode(state))

    assert set(text["lastRun"]) >= {"startedAt", "completedAt", "success", "resultFile", "itemsProcessed", "error"}
    assert text["lastRun"]["error"] is None
    assert set(text["history"][0]) == {"startedAt", "completedAt", "success", "duration"}


# import


def imported(state: ScheduleState, *, now: datetime = LATER, is_on_server: bool = False) -> Tally:
    """The tally of a file without a server."""
    return state_view.import_tally(state, now, is_on_server=is_on_server, max_history=50)


def state_file(**more: object) -> ScheduleState:
    """A file written by another program."""
    return ScheduleState(schedule_id="a-abcdef", pipeline_id="a", **more)  # type: ignore[arg-type]


def test_an_import_keeps_the_totals_of_the_file() -> None:
    stats = ScheduleStats(total_runs=156, successful_runs=152, failed_runs=4, last_failure=at(-5), average_duration=9.0)

    tally = imported(state_file(stats=stats, history=(record(),), last_run=record()))

    assert tally.stats == stats
    assert tally.history == (record(),)


def test_an_active_run_is_imported_as_interrupted() -> None:
    under_way = RunRecord(started_at=at(10), completed_at=None, success=False)

    tally = imported(state_file(status=ScheduleStatus.RUNNING, last_run=under_way, stats=ScheduleStats()))

    assert tally.stats == ScheduleStats(total_runs=1, failed_runs=1, last_failure=at(10), average_duration=None)
    assert tally.history[0].error == state_view.INTERRUPTED
    assert tally.history[0].completed_at == LATER


def test_status_running_without_a_run_means_the_due_window() -> None:
    file = state_file(status=ScheduleStatus.RUNNING, last_run=record(0), next_run=at(60), history=(record(0),))

    assert imported(file).history[0].started_at == at(60)
    assert state_view.missed_since(file, at(1_000)) == at(60)


def test_a_run_that_the_server_has_is_not_interrupted() -> None:
    under_way = RunRecord(started_at=at(10), completed_at=None, success=False)
    file = state_file(status=ScheduleStatus.RUNNING, last_run=under_way, history=(record(0),))

    tally = imported(file, is_on_server=True)

    assert tally.stats.failed_runs == 0
    assert state_view.is_counted(tally, run(begins=0))
    assert not state_view.is_counted(tally, run(begins=10))


def test_an_import_continues_after_the_last_run() -> None:
    assert state_view.missed_since(state_file(last_run=record(7)), at(100)) == at(7)


def test_an_import_without_a_run_continues_with_the_due_window() -> None:
    since = state_view.missed_since(state_file(next_run=at(60)), at(100))

    assert since is not None
    assert since < at(60)
    assert state_view.missed_since(state_file(next_run=at(160)), at(100)) is None
    assert state_view.missed_since(state_file(), at(100)) is None
