"""Compute `.schedule-state.json` from the server's views of a schedule and its runs. Pure (FLD-3).

    record_of      a run, with its tasks once it is finished -> a record
    Tally          totals and history of the counted runs of a schedule
    state_of       a schedule, a tally and the active run -> the content of the file

1. A run is counted once, by its id, when it is finished. Missed, late and skipped windows are not runs.
   A run that is retried manually is counted with its latest result, which replaces the earlier one.
2. `totalRuns` is always `successfulRuns` + `failedRuns`, and never shrinks.
3. `lastRun` is the active run, or else the newest record; unknown fields are null. In `history` they are omitted.
4. A run starts when it is created: every window up to then was planned, so an import can continue from there.
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

MAX_COUNTED_IDS = 200
"""Ids of counted runs that are kept: more than can end between two queries of a schedule."""
INTERRUPTED = "interrupted: the scheduler stopped before the run finished"
FINAL_RUN_STATES = frozenset({"SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED"})
_UNSUCCESSFUL_STATES = ("FAILED", "TIMED_OUT", "QUARANTINED", "CANCELLED")
_MILLISECOND = timedelta(milliseconds=1)
_MAX_ERROR_LENGTH = 2_000
_MAX_LOOKBACK = timedelta(days=365)
"""Older missed windows do not run: a server looks back 366 days."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run, from its tasks."""

    error: str | None = None
    result_file: str | None = None
    items_processed: int | None = None
    outputs: dict[str, object] = {}
    due_at: datetime | None = None
    """When the next retry of a task is due."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Totals and history of the counted runs of a schedule."""

    stats: ScheduleStats = ScheduleStats()
    history: tuple[RunRecord, ...] = ()
    """Newest first."""
    counted: tuple[str, ...] = ()
    """Keys of the runs that were counted last, latest at the end."""
    counted_until: datetime | None = None
    """Runs that started up to then were counted by a state file, which has no run ids."""


class _Reported(msgspec.Struct, frozen=True):
    """The output of a map-reduce task."""

    result_file: str | None = None
    items_processed: int | None = None


class _Error(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""
    last_lines: str = ""


def has_ended(run: RunView) -> bool:
    """Whether a run is in a final state."""
    return run.state in FINAL_RUN_STATES


def is_paused(run: RunView) -> bool:
    """Whether a run is paused until a user resumes it."""
    return run.state == "PAUSED"


def run_started_at(run: RunView) -> datetime:
    """Return when a run started, from fields that never change."""
    return _truncate_to_millis(max(run.created_at, run.start_at))


def outcome_of(run: RunView, tasks: Sequence[TaskView]) -> Outcome:
    """Return the result of a run, from its tasks."""
    reported = [report for task in tasks if (report := _reported(task)) is not None]
    counts = [report.items_processed for report in reported if report.items_processed is not None]
    files = [report.result_file for report in reported if report.result_file is not None]
    waiting = [] if has_ended(run) else [task for task in tasks if task.due_at is not None and task.attempt]
    return Outcome(
        error=_error_of(run, tasks, waiting),
        result_file=files[-1] if files else None,
        items_processed=sum(counts) if counts else None,
        outputs=_outputs(tasks) if has_ended(run) else {},
        due_at=min((task.due_at for task in waiting if task.due_at is not None), default=None),
    )


def record_of(run: RunView, outcome: Outcome) -> RunRecord:
    """Return the record of a run."""
    started_at = run_started_at(run)
    ended_at = (
        None if run.ended_at is None or not has_ended(run) else max(_truncate_to_millis(run.ended_at), started_at)
    )
    return RunRecord(
        started_at=started_at,
        completed_at=ended_at,
        success=run.state == "SUCCEEDED",
        duration=UNSET if ended_at is None else (ended_at - _resumed_at(run, ended_at)) // _MILLISECOND,
        items_processed=UNSET if outcome.items_processed is None else outcome.items_processed,
        result_file=outcome.result_file or UNSET,
        error=outcome.error or UNSET,
        retry_attempt=run.retries or UNSET,
    )


def count(tally: Tally, run: RunView, record: RunRecord, *, max_history: int) -> Tally:
    """Count a finished run. Idempotent."""
    if is_counted(tally, run):
        return tally
    updated = _replace_record(tally, record) if _had_earlier_end(tally, run) else _add(tally, record, max_history)
    return replace(updated, counted=(*tally.counted, _end_key(run))[-MAX_COUNTED_IDS:])


def is_counted(tally: Tally, run: RunView) -> bool:
    """Whether a run's latest end is counted."""
    return _end_key(run) in tally.counted or (run.generation == 1 and _was_counted_by_file(tally, run))


def error_of(task: TaskView) -> str | None:
    """Return the latest error of a task, with the last line of its output; None if there is none."""
    try:
        decoded = msgspec.json.decode(task.error, type=_Error)
    except msgspec.DecodeError:
        return None
    last = decoded.last_lines.strip().rpartition("\n")[2]
    return ": ".join(part for part in (decoded.message or decoded.type, last) if part)[:_MAX_ERROR_LENGTH] or None


def import_tally(state: ScheduleState, now: datetime, *, is_on_server: bool, max_history: int) -> Tally:
    """Return the tally of a state file that is the only source.

    An active run counts as failed, unless the server has the schedule and so the run's real state.
    """
    history = tuple(sorted(state.history, key=lambda one: one.started_at, reverse=True))[:max_history]
    last = state.last_run
    if (
        last is not None
        and last.completed_at is not None
        and last.started_at not in {one.started_at for one in history}
    ):
        history = (last, *history)[:max_history]
    until = history[0].started_at if history else None
    tally = Tally(stats=state.stats, history=history, counted_until=until)
    record = None if is_on_server else _interrupted(state, now)
    return tally if record is None else replace(_add(tally, record, max_history), counted_until=record.started_at)


def missed_since(state: ScheduleState, now: datetime) -> datetime | None:
    """Return since when windows count as missed for a schedule known only from its state file; None: from now on.

    Windows that already had a run are never included.
    """
    record = _interrupted(state, now) or state.last_run
    if record is not None:
        since = record.started_at
    elif state.next_run is not None:
        since = state.next_run - timedelta(seconds=1)
    else:
        return None
    return None if since > now else max(since, now - _MAX_LOOKBACK)


def state_of(
    view: ScheduleView | None,
    tally: Tally,
    *,
    schedule_id: str,
    pipeline_id: str,
    current: RunRecord | None = None,
) -> ScheduleState:
    """Build the content of the state file. `current` is the active run, `view` the server's view, if it has one."""
    last = current or next(iter(tally.history), None)
    return ScheduleState(
        schedule_id=schedule_id,
        pipeline_id=pipeline_id,
        status=_status(view, last, is_running=current is not None),
        enabled=view is None or view.state != "disabled",
        last_run=None if last is None else _with_nulls(last),
        next_run=None if view is None or view.next_at is None else _truncate_to_millis(view.next_at),
        stats=_rounded(tally.stats),
        history=tally.history,
    )


def _status(view: ScheduleView | None, last: RunRecord | None, *, is_running: bool) -> ScheduleStatus:
    if view is not None and view.state == "paused":
        # Has precedence: a user decided it, and an import continues from it.
        return ScheduleStatus.PAUSED
    if last is not None and is_running:
        # An unfinished run with an error waits for its next retry, or for manual action.
        return ScheduleStatus.ERROR if isinstance(last.error, str) else ScheduleStatus.RUNNING
    if view is not None and view.state in {"disabled", "deleted"}:
        return ScheduleStatus.DISABLED
    return ScheduleStatus.IDLE if last is None or last.success else ScheduleStatus.ERROR


def _end_key(run: RunView) -> str:
    """Return the key of a run's end: a run that is retried manually ends once per generation."""
    return run.id if run.generation == 1 else f"{run.id}#{run.generation}"


def _resumed_at(run: RunView, ended_at: datetime) -> datetime:
    """Return when the current generation of a run started: time before a manual retry does not count."""
    if run.generation == 1 or run.adopted_at is None:
        return run_started_at(run)
    return min(_truncate_to_millis(run.adopted_at), ended_at)


def _had_earlier_end(tally: Tally, run: RunView) -> bool:
    """Whether an earlier generation of a run was counted. True if it is older than the history."""
    if run.generation == 1:
        return False
    is_known = any(end.partition("#")[0] == run.id for end in tally.counted)
    is_old = bool(tally.history) and run_started_at(run) < tally.history[-1].started_at
    return is_known or is_old or _was_counted_by_file(tally, run)


def _was_counted_by_file(tally: Tally, run: RunView) -> bool:
    return tally.counted_until is not None and run_started_at(run) <= tally.counted_until


def _add(tally: Tally, record: RunRecord, max_history: int) -> Tally:
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
    return replace(tally, stats=added, history=tuple(history[:max_history]))


def _replace_record(tally: Tally, record: RunRecord) -> Tally:
    """Replace the record of the same run. If that is no longer in the history, the totals stay unchanged.

    Of several records with the same start, a failed one is replaced: users retry failed runs.
    """
    same = [one for one in tally.history if one.started_at == record.started_at]
    if not same:
        return tally
    previous = min(same, key=lambda one: one.success)
    position = tally.history.index(previous)
    stats = tally.stats
    # The totals of an imported file may not match its history; no total goes below zero.
    gained = min(max(record.success - previous.success, -stats.successful_runs), stats.failed_runs)
    average = stats.average_duration
    if isinstance(average, float) and isinstance(record.duration, int) and isinstance(previous.duration, int):
        average += (record.duration - previous.duration) / max(stats.total_runs, 1)
    corrected = replace(
        stats,
        successful_runs=stats.successful_runs + gained,
        failed_runs=stats.failed_runs - gained,
        last_failure=_last_failure(stats, record),
        average_duration=average,
    )
    return replace(tally, stats=corrected, history=(*tally.history[:position], record, *tally.history[position + 1 :]))


def _last_failure(stats: ScheduleStats, record: RunRecord) -> datetime | None:
    failures = [at for at in (stats.last_failure, None if record.success else record.started_at) if at is not None]
    return max(failures, default=None)


def _average(tally: Tally, record: RunRecord, total: int) -> float | None:
    """Return the mean of all durations. If a file lacks it, the mean of its history is used for earlier runs."""
    before = tally.stats.average_duration
    if not isinstance(before, float):
        known = [one.duration for one in tally.history if isinstance(one.duration, int)]
        before = sum(known) / len(known) if known else None
    if not isinstance(record.duration, int):
        return before
    return float(record.duration) if before is None else before + (record.duration - before) / total


def _rounded(stats: ScheduleStats) -> ScheduleStats:
    """Round the totals for the file. The tally is not rounded: a rounded mean of many runs would not change."""
    average = stats.average_duration
    return replace(stats, average_duration=round(average, 1)) if isinstance(average, float) else stats


def _interrupted(state: ScheduleState, now: datetime) -> RunRecord | None:
    """Return the record of the run that was active when a file was last written, if any."""
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


def _with_nulls(record: RunRecord) -> RunRecord:
    unknown = [name for name in ("items_processed", "result_file", "error") if getattr(record, name) is UNSET]
    return replace(record, **dict.fromkeys(unknown))


def _error_of(run: RunView, tasks: Sequence[TaskView], waiting: Sequence[TaskView]) -> str | None:
    """Return the error of a failed run, or of its task that waits for a retry."""
    failed = next((task for state in _UNSUCCESSFUL_STATES for task in tasks if task.state == state), None)
    if is_paused(run):
        held = next((task for task in tasks if task.state == "QUARANTINED"), None)
        return (run.because or "the run is paused") if held is None else f"{held.name}: {held.because}"
    if not has_ended(run):
        failed = next(iter(waiting), None)
        return None if failed is None else _format_failure(failed, tasks)
    if run.state == "SUCCEEDED":
        return None
    if failed is None or run.state == "CANCELLED":
        return run.because or f"the run is {run.state}"
    return _format_failure(failed, tasks)


def _format_failure(failed: TaskView, tasks: Sequence[TaskView]) -> str:
    error = error_of(failed) or failed.because
    return error if len(tasks) == 1 else f"{failed.name}: {error}"


def _reported(task: TaskView) -> _Reported | None:
    try:
        return msgspec.json.decode(task.output, type=_Reported)
    except msgspec.DecodeError:
        return None


def _outputs(tasks: Sequence[TaskView]) -> dict[str, object]:
    """Return the outputs by task name; those of a fan-out as a list, in item order."""
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


def _truncate_to_millis(at: datetime) -> datetime:
    """Truncate a time to milliseconds, as in the file."""
    return at.replace(microsecond=at.microsecond // 1_000 * 1_000)
