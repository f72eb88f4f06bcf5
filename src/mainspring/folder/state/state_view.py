"""From what the server says of a schedule and its runs to what `.schedule-state.json` says of them. Pure (FLD-3).

    record_of      a run, and its tasks once it is over -> a record
    Tally          all runs of a schedule as far as they were counted
    state_of       a schedule, a tally and the run that is under way -> the content of the file

1. A run is counted once, by its id, when it is over. Windows that were missed, late or skipped are no runs.
   One that a person retries is counted as it ended last, in the place of how it had ended before.
2. `totalRuns` is always `successfulRuns` + `failedRuns`, and never shrinks.
3. `lastRun` is the run under way, else the newest record; what is not known of it is null. In `history` it is left out.
4. A run has begun when it was made: no window up to then is to come any more, so an import can go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from mainspring.folder.state.records import RunRecord, ScheduleState, ScheduleStats, ScheduleStatus
from mainspring.protocol.rest.runs import RunView, TaskView
from mainspring.protocol.rest.schedules import ScheduleView

MOST_COUNTED = 200
"""Ids of counted runs that are remembered: more than can end between two looks at a schedule."""
INTERRUPTED = "interrupted: the scheduler stopped before the run was over"
FINAL_RUN_STATES = frozenset({"SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED"})
_ENDED_BADLY = ("FAILED", "TIMED_OUT", "QUARANTINED", "CANCELLED")
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST_ERROR = 2_000
_LONGEST_SINCE = timedelta(days=365)
"""What was due longer ago is not made up for: a server looks back 366 days."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's tasks say of it."""

    error: str | None = None
    result_file: str | None = None
    items_processed: int | None = None
    outputs: dict[str, object] = {}
    due_at: datetime | None = None
    """A task of it failed, and is tried again then."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a schedule, as far as they were counted."""

    stats: ScheduleStats = ScheduleStats()
    history: tuple[RunRecord, ...] = ()
    """The newest first."""
    counted: tuple[str, ...] = ()
    """The ends of runs that were counted last, the latest of them at the end."""
    counted_until: datetime | None = None
    """Runs that began up to then were counted by a state file, which knows no ids."""


class _Reported(msgspec.Struct, frozen=True):
    """What a map-reduce task says of its result."""

    result_file: str | None = None
    items_processed: int | None = None


class _Error(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""
    last_lines: str = ""


def is_over(run: RunView) -> bool:
    """Whether nothing more becomes of a run."""
    return run.state in FINAL_RUN_STATES


def is_held(run: RunView) -> bool:
    """Whether only a person can let a run go on."""
    return run.state == "PAUSED"


def begun_at(run: RunView) -> datetime:
    """When a run began, by what stays the same from its beginning to its end."""
    return _whole(max(run.created_at, run.start_at))


def outcome_of(run: RunView, tasks: Sequence[TaskView]) -> Outcome:
    """What the tasks of a run say of it."""
    reported = [report for task in tasks if (report := _reported(task)) is not None]
    counts = [report.items_processed for report in reported if report.items_processed is not None]
    files = [report.result_file for report in reported if report.result_file is not None]
    waiting = [] if is_over(run) else [task for task in tasks if task.due_at is not None and task.attempt]
    return Outcome(
        error=_error_of(run, tasks, waiting),
        result_file=files[-1] if files else None,
        items_processed=sum(counts) if counts else None,
        outputs=_outputs(tasks) if is_over(run) else {},
        due_at=min((task.due_at for task in waiting if task.due_at is not None), default=None),
    )


def record_of(run: RunView, outcome: Outcome) -> RunRecord:
    """A run as a record."""
    started_at = begun_at(run)
    ended_at = None if run.ended_at is None or not is_over(run) else max(_whole(run.ended_at), started_at)
    return RunRecord(
        started_at=started_at,
        completed_at=ended_at,
        success=run.state == "SUCCEEDED",
        duration=UNSET if ended_at is None else (ended_at - _taken_up_at(run, ended_at)) // _MILLISECOND,
        items_processed=UNSET if outcome.items_processed is None else outcome.items_processed,
        result_file=outcome.result_file or UNSET,
        error=outcome.error or UNSET,
        retry_attempt=run.retries or UNSET,
    )


def count(tally: Tally, run: RunView, record: RunRecord, *, most: int) -> Tally:
    """The tally with a run that is over; the same again changes nothing."""
    if is_counted(tally, run):
        return tally
    made = _correct(tally, record) if _had_ended(tally, run) else _add(tally, record, most)
    return replace(made, counted=(*tally.counted, _end_of(run))[-MOST_COUNTED:])


def is_counted(tally: Tally, run: RunView) -> bool:
    """Whether the end of a run is in the tally."""
    return _end_of(run) in tally.counted or (run.generation == 1 and _is_of_the_file(tally, run))


def error_of(task: TaskView) -> str | None:
    """What the latest failure of a task says, with the last line that it printed; None if there is none."""
    try:
        said = msgspec.json.decode(task.error, type=_Error)
    except msgspec.DecodeError:
        return None
    last = said.last_lines.strip().rpartition("\n")[2]
    return ": ".join(part for part in (said.message or said.type, last) if part)[:_LONGEST_ERROR] or None


def with_result(record: RunRecord, result_file: str | None) -> RunRecord:
    """The record of a run whose result was written, if it was."""
    return record if result_file is None else replace(record, result_file=result_file)


def import_tally(state: ScheduleState, now: datetime, *, is_on_server: bool, most: int) -> Tally:
    """What a file says was done, where nothing else does.

    A run that was under way is one that failed, unless the server has the schedule: then it knows better.
    """
    history = tuple(sorted(state.history, key=lambda one: one.started_at, reverse=True))[:most]
    last = state.last_run
    if (
        last is not None
        and last.completed_at is not None
        and last.started_at not in {one.started_at for one in history}
    ):
        history = (last, *history)[:most]
    until = history[0].started_at if history else None
    tally = Tally(stats=state.stats, history=history, counted_until=until)
    record = None if is_on_server else _interrupted(state, now)
    return tally if record is None else replace(_add(tally, record, most), counted_until=record.started_at)


def since_of(state: ScheduleState, now: datetime) -> datetime | None:
    """From when on windows count as missed for a schedule that is known by its file alone; None: from now on.

    A window that its runs were for never counts again.
    """
    record = _interrupted(state, now) or state.last_run
    if record is not None:
        since = record.started_at
    elif state.next_run is not None:
        since = state.next_run - timedelta(seconds=1)
    else:
        return None
    return None if since > now else max(since, now - _LONGEST_SINCE)


def state_of(
    view: ScheduleView | None,
    tally: Tally,
    *,
    schedule_id: str,
    pipeline_id: str,
    current: RunRecord | None = None,
) -> ScheduleState:
    """What the file says. `current` is the run under way, `view` the schedule as the server has it, once it does."""
    last = current or next(iter(tally.history), None)
    return ScheduleState(
        schedule_id=schedule_id,
        pipeline_id=pipeline_id,
        status=_status(view, last, is_running=current is not None),
        enabled=view is None or view.state != "disabled",
        last_run=None if last is None else _in_full(last),
        next_run=None if view is None or view.next_at is None else _whole(view.next_at),
        stats=_rounded(tally.stats),
        history=tally.history,
    )


def _status(view: ScheduleView | None, last: RunRecord | None, *, is_running: bool) -> ScheduleStatus:
    if view is not None and view.state == "paused":
        # Said before all else: it is what a person decided, and what a server without the schedule knows of it.
        return ScheduleStatus.PAUSED
    if last is not None and is_running:
        # One that has gone wrong and is not over waits for its next try, or for a person.
        return ScheduleStatus.ERROR if isinstance(last.error, str) else ScheduleStatus.RUNNING
    if view is not None and view.state in {"disabled", "deleted"}:
        return ScheduleStatus.DISABLED
    return ScheduleStatus.IDLE if last is None or last.success else ScheduleStatus.ERROR


def _end_of(run: RunView) -> str:
    """By what an end of a run is known: it ends anew each time that a person retries it."""
    return run.id if run.generation == 1 else f"{run.id}#{run.generation}"


def _taken_up_at(run: RunView, ended_at: datetime) -> datetime:
    """From when on a run took time: what lay before a person retried it does not count."""
    if run.generation == 1 or run.adopted_at is None:
        return begun_at(run)
    return min(_whole(run.adopted_at), ended_at)


def _had_ended(tally: Tally, run: RunView) -> bool:
    """Whether an earlier end of a run was counted; what is older than the history was, even if its id is forgotten."""
    if run.generation == 1:
        return False
    is_known = any(end.partition("#")[0] == run.id for end in tally.counted)
    is_old = bool(tally.history) and begun_at(run) < tally.history[-1].started_at
    return is_known or is_old or _is_of_the_file(tally, run)


def _is_of_the_file(tally: Tally, run: RunView) -> bool:
    return tally.counted_until is not None and begun_at(run) <= tally.counted_until


def _add(tally: Tally, record: RunRecord, most: int) -> Tally:
    stats = tally.stats
    total = stats.total_runs + 1
    history = sorted((record, *tally.history), key=lambda one: one.started_at, reverse=True)
    added = ScheduleStats(
        total_runs=total,
        successful_runs=stats.successful_runs + record.success,
        failed_runs=stats.failed_runs + (not record.success),
        last_failure=_last_failure(stats, record),
        average_duration=_average(tally, record, total),
    )
    return replace(tally, stats=added, history=tuple(history[:most]))


def _correct(tally: Tally, record: RunRecord) -> Tally:
    """The record in the place of the one of the same run. Where that is gone, the totals stay as they are.

    Of several that began at once, it is one that failed: those are what people retry.
    """
    same = [one for one in tally.history if one.started_at == record.started_at]
    if not same:
        return tally
    was = min(same, key=lambda one: one.success)
    place = tally.history.index(was)
    stats = tally.stats
    # What a file counted may not fit its history, and no total goes below zero.
    gained = min(max(record.success - was.success, -stats.successful_runs), stats.failed_runs)
    average = stats.average_duration
    if isinstance(average, float) and isinstance(record.duration, int) and isinstance(was.duration, int):
        average += (record.duration - was.duration) / max(stats.total_runs, 1)
    corrected = replace(
        stats,
        successful_runs=stats.successful_runs + gained,
        failed_runs=stats.failed_runs - gained,
        last_failure=_last_failure(stats, record),
        average_duration=average,
    )
    return replace(tally, stats=corrected, history=(*tally.history[:place], record, *tally.history[place + 1 :]))


def _last_failure(stats: ScheduleStats, record: RunRecord) -> datetime | None:
    failures = [at for at in (stats.last_failure, None if record.success else record.started_at) if at is not None]
    return max(failures, default=None)


def _average(tally: Tally, record: RunRecord, total: int) -> float | None:
    """The mean of all durations; where a file did not keep it, that of its history stands for what was before."""
    before = tally.stats.average_duration
    if not isinstance(before, float):
        known = [one.duration for one in tally.history if isinstance(one.duration, int)]
        before = sum(known) / len(known) if known else None
    if not isinstance(record.duration, int):
        return before
    return float(record.duration) if before is None else before + (record.duration - before) / total


def _rounded(stats: ScheduleStats) -> ScheduleStats:
    """Totals as the file has them. The tally is more exact: rounded each time, a mean of many would not move."""
    average = stats.average_duration
    return replace(stats, average_duration=round(average, 1)) if isinstance(average, float) else stats


def _interrupted(state: ScheduleState, now: datetime) -> RunRecord | None:
    """The record of the run that was under way when a file was last written, if one was."""
    last = state.last_run
    if last is not None and last.completed_at is None:
        return replace(last, completed_at=now, success=False, duration=UNSET, error=INTERRUPTED)
    if state.status is not ScheduleStatus.RUNNING:
        return None
    due = state.next_run is not None and state.next_run <= now
    return RunRecord(
        started_at=state.next_run if due and state.next_run is not None else now,
        completed_at=now,
        success=False,
        error=INTERRUPTED,
    )


def _in_full(record: RunRecord) -> RunRecord:
    return replace(
        record,
        items_processed=None if record.items_processed is UNSET else record.items_processed,
        result_file=None if record.result_file is UNSET else record.result_file,
        error=None if record.error is UNSET else record.error,
    )


def _error_of(run: RunView, tasks: Sequence[TaskView], waiting: Sequence[TaskView]) -> str | None:
    """What went wrong in a run that failed, or in the task of it that is tried again."""
    failed = next((task for state in _ENDED_BADLY for task in tasks if task.state == state), None)
    if is_held(run):
        held = next((task for task in tasks if task.state == "QUARANTINED"), None)
        return (run.because or "the run is paused") if held is None else f"{held.name}: {held.because}"
    if not is_over(run):
        failed = next(iter(waiting), None)
        return None if failed is None else _say_failure(failed, tasks)
    if run.state == "SUCCEEDED":
        return None
    if failed is None or run.state == "CANCELLED":
        return run.because or f"the run is {run.state}"
    return _say_failure(failed, tasks)


def _say_failure(failed: TaskView, tasks: Sequence[TaskView]) -> str:
    what = error_of(failed) or failed.because
    return what if len(tasks) == 1 else f"{failed.name}: {what}"


def _reported(task: TaskView) -> _Reported | None:
    try:
        return msgspec.json.decode(task.output, type=_Reported)
    except msgspec.DecodeError:
        return None


def _outputs(tasks: Sequence[TaskView]) -> dict[str, object]:
    """The outputs by the names of tasks; those of a fan-out as a list, in the order of its items."""
    outputs: dict[str, object] = {}
    for task in sorted(tasks, key=lambda one: one.partition or 0):
        output = msgspec.json.decode(task.output)
        if task.partition is None:
            outputs[task.name] = output
        else:
            listed = outputs.setdefault(task.name, [])
            assert isinstance(listed, list)
            listed.append(output)
    return outputs


def _whole(at: datetime) -> datetime:
    """An instant as the file has it: in milliseconds."""
    return at.replace(microsecond=at.microsecond // 1_000 * 1_000)
