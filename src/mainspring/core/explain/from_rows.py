"""Diagnoses made of rows alone: of ended tasks and runs, of runs in intake, and without a leader.

    ended               what happened; nothing blocks it
    in intake           not due, held, or behind others
    no leader answers   SCHEDULER_LAG if there is a leader, UNKNOWN if not: no cause, no suggestions

Work in the memory of a leader is explained by `shard/explain/diagnose.py`, from the state that it decides by.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec.structs import replace

from mainspring.core.explain import advice_messages as words
from mainspring.core.explain import messages
from mainspring.core.explain.diagnosis import (
    BY_ROWS,
    Blocker,
    Diagnosis,
    Expected,
    Gate,
    GateState,
    Reason,
    Suggestion,
)
from mainspring.core.explain.diagnosis_report import format_clock, format_relative
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.failures import format_failure
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import FINAL_RUN, UNSUCCESSFUL_RUN, Run, RunState
from mainspring.core.model.task import Task, TaskState
from mainspring.core.text.durations import format_seconds

_FAILED_TASK = frozenset({TaskState.FAILED, TaskState.TIMED_OUT})
_OUTCOMES = {
    TaskState.SUCCEEDED: "Succeeded",
    TaskState.FAILED: "Failed",
    TaskState.TIMED_OUT: "Timed out",
    TaskState.CANCELLED: "Cancelled",
    TaskState.SKIPPED: "Skipped",
    RunState.SUCCEEDED: "Succeeded",
    RunState.FAILED: "Failed",
    RunState.PARTIAL: "Partially succeeded",
    RunState.TIMED_OUT: "Timed out",
    RunState.CANCELLED: "Cancelled",
}
_ADMITTED_SOON = "it is adopted as soon as there is capacity for its tasks"
_LONG_SECONDS = 10.0
"""A run that is first in intake for longer than this is overdue."""


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of a pool, as the rows say."""

    pool: str
    server: str
    """Empty: there never was one."""
    is_held: bool
    """The lease is valid: there is a leader, and it does not answer."""
    age_seconds: float
    """Since the lease was last renewed."""
    batch: int


def of_task(task: Task, job: str, now: datetime, lead: Lead) -> Diagnosis:
    """An open task that no leader reports on."""
    return _without_leader(_about_task(task, job, now, lead.age_seconds), lead, _known(task.state, task.because))


def of_run(run: Run, job: str, now: datetime, lead: Lead) -> Diagnosis:
    """An open run that no leader reports on."""
    return _without_leader(_about_run(run, job, now, lead.age_seconds), lead, _known(run.state, run.because))


def of_unknown_task(task: Task, job: str, now: datetime) -> Diagnosis:
    """An open task that its leader does not know."""
    return replace(
        _about_task(task, job, now, 0.0),
        reason=Reason.UNKNOWN,
        verdict=f"The scheduler does not know this task; the cause is unknown; {_known(task.state, task.because)}",
        expected=Expected.unknown("the scheduler does not know the task"),
    )


def of_open_run(run: Run, job: str, now: datetime) -> Diagnosis:
    """An open run without open tasks: it is about to end."""
    return replace(_about_run(run, job, now, 0.0), verdict="Active, with no waiting tasks")


def of_job(job: JobRow, now: datetime, latest: Run | None) -> Diagnosis:
    """A job without a schedule and without an open run."""
    ended = "" if latest is None else f"; its latest run, {latest.id}, {_format_end(latest, now)}"
    verdict = f"Has no schedule: it runs on submission{ended}"
    if job.deleted_at is not None:
        verdict = f"Was deleted {format_relative(job.deleted_at, now)}{ended}"
    submit = Suggestion.change("Submit it", f"mainspring submit {job.name}", "a run starts")
    return Diagnosis(
        subject=job.id, name=f"{job.tenant}/{job.name}", tenant=job.tenant,
        state="active" if job.deleted_at is None else "deleted", since=None, reason=None, verdict=verdict, at=now,
        by=BY_ROWS, age_seconds=0.0, suggestions=(submit,) if job.deleted_at is None else (),
    )  # fmt: skip


def of_ended_task(task: Task, job: str, now: datetime, cause: Task | None = None) -> Diagnosis:
    """The outcome of an ended task; `cause` is the task because of which it was cancelled or skipped."""
    found = _about_task(task, job, now, 0.0)
    if cause is not None and task.started_at is None and cause.state in _FAILED_TASK:
        return _never_ready(found, task, cause)
    ended = task.ended_at or task.since
    verdict = f"{_OUTCOMES[task.state]} {_ago(ended, now)}"
    if task.started_at is not None:
        verdict += f", after {format_seconds((ended - task.started_at).total_seconds())}"
        verdict += f" on {task.ran_on or task.worker_id}" if task.ran_on or task.worker_id else ""
    if task.state is not TaskState.SUCCEEDED and task.because:
        verdict += f": {task.because}"
        failure = "" if task.started_at is None else format_failure(task.error)
        if task.state in _FAILED_TASK and failure:
            verdict += f" ({failure})"
    found = replace(found, verdict=verdict, numbers={"tries": float(task.tries)})
    if task.state not in _FAILED_TASK:
        return found
    retry = _retry(task.id, "Retry it and its downstream tasks", words.QUEUED_AGAIN)
    return replace(found, suggestions=(retry,))


def of_ended_run(run: Run, job: str, now: datetime, failed: Task | None = None) -> Diagnosis:
    """The outcome of an ended run; `failed` is the task that failed first, if any."""
    because = run.because if failed is None else f"{failed.name} failed ({failure_of(failed)})"
    why = f": {because}" if run.state is not RunState.SUCCEEDED and because else ""
    verdict = f"{_format_end(run, now).capitalize()}{why}"
    found = replace(_about_run(run, job, now, 0.0), verdict=verdict, task=None if failed is None else failed.id)
    if run.state not in UNSUCCESSFUL_RUN:
        return found
    retry = _retry(run.id, "Retry the tasks that did not succeed", "the run is active again")
    return replace(found, suggestions=(retry,))


def of_waiting_run(run: Run, job: str, now: datetime, before: int, lead: Lead) -> Diagnosis:
    """A run in intake; `before` counts the runs in intake of the same or a higher priority, itself included."""
    found = _about_run(run, job, now, 0.0)
    if run.held is not None:
        return _held(found, run)
    if run.start_at > now:
        return _too_early(found, run)
    if run.paused:
        return _paused(found, run)
    if not lead.is_held:
        return _without_leader(replace(found, age_seconds=lead.age_seconds), lead, "it is in intake")
    return _in_intake(found, run, max(0, before - 1))


# the pieces


def name_of(task: Task, job: str) -> str:
    """Display name of a task: `tenant/job/task`, with its fan-out label."""
    return f"{task.tenant}/{job}/{full_name(task)}"


def _format_end(run: Run, now: datetime) -> str:
    """Return how a run ended, when, and after how long; or that it is running."""
    if run.ended_at is None:
        return "is active"
    took = ""
    if run.adopted_at is not None:
        took = f", after {format_seconds((run.ended_at - run.adopted_at).total_seconds())}"
    return f"{_OUTCOMES[run.state].lower()} {_ago(run.ended_at, now)}{took}"


def failure_of(task: Task) -> str:
    """The error of its last attempt with the last output line; else the reason of its state."""
    return format_failure(task.error) or task.because


def _ago(at: datetime, now: datetime) -> str:
    return f"{format_seconds((now - at).total_seconds())} ago"


def _about_task(task: Task, job: str, now: datetime, age_seconds: float) -> Diagnosis:
    return Diagnosis(
        subject=task.id, name=name_of(task, job), tenant=task.tenant, state=task.state.value, since=task.since,
        reason=None, verdict="", at=now, by=BY_ROWS, age_seconds=age_seconds, run=task.run_id, task=task.id,
        pool=task.shard, priority=task.priority,
    )  # fmt: skip


def _about_run(run: Run, job: str, now: datetime, age_seconds: float) -> Diagnosis:
    since = run.ended_at if run.state in FINAL_RUN else run.adopted_at or run.created_at
    return Diagnosis(
        subject=run.id, name=f"{run.tenant}/{job}", tenant=run.tenant, state=run.state.value, since=since, reason=None,
        verdict="", at=now, by=BY_ROWS, age_seconds=age_seconds, run=run.id, pool=run.shard, priority=run.priority,
    )  # fmt: skip


def _without_leader(found: Diagnosis, lead: Lead, known: str) -> Diagnosis:
    age = format_seconds(lead.age_seconds)
    since = f" for {age}" if lead.server else ""
    reason, basis = Reason.UNKNOWN, "there is no scheduler now"
    verdict = f"Pool {lead.pool} has had no leader{since}; the cause is unknown; {known}"
    if lead.is_held:
        reason, basis = Reason.SCHEDULER_LAG, "the scheduler does not respond"
        verdict = f"The scheduler of pool {lead.pool} ({lead.server}) is silent since {age} ago; {known}"
    return replace(found, reason=reason, verdict=verdict, expected=Expected.unknown(basis), batch=lead.batch)


def _known(state: str, because: str) -> str:
    return f"last known: {state}{f', {because}' if because else ''}"


def _never_ready(found: Diagnosis, task: Task, cause: Task) -> Diagnosis:
    ended = _ago(cause.ended_at or cause.since, found.at)
    blocker = Blocker("task", cause.id, f"{cause.name} ({cause.state.value} {ended})", task.tenant, cause.priority)
    return replace(
        found,
        reason=Reason.DEPENDENCY_NOT_READY,
        verdict=f"Will never start: {cause.name} failed {ended} ({failure_of(cause)})",
        expected=Expected.never(f"it needs {cause.name}, which failed permanently"),
        blockers=(blocker,),
        suggestions=(_retry(cause.id, f"Retry {cause.name} and its downstream tasks", words.STARTS_AFTER),),
    )


def _in_intake(found: Diagnosis, run: Run, others: int) -> Diagnosis:
    seconds = (found.at - max(run.start_at, run.created_at)).total_seconds()
    if not others and seconds > _LONG_SECONDS:
        return replace(
            found,
            reason=Reason.SCHEDULER_LAG,
            verdict=f"The scheduler has not adopted it for {format_seconds(seconds)}, though it is first in intake",
            expected=Expected.unknown("the scheduler is behind"),
        )
    before = f"up to {others:,} runs of {run.priority.name} or higher are" if others else "none is"
    return replace(
        found,
        reason=Reason.PRIORITY_QUEUE_WAIT,
        verdict=f"In intake, waiting for the scheduler; {before} before it",
        expected=Expected.unknown("its tasks are not known to the scheduler yet"),
        gates=(Gate("due", GateState.YES), Gate("intake", GateState.HOLDS)),
        more_blockers=others,
        numbers={"ahead": float(others)},
        suggestions=(Suggestion.wait("Wait: runs are adopted as there is capacity for their tasks"),),
    )


def _held(found: Diagnosis, run: Run) -> Diagnosis:
    resume = Suggestion.change("Fix the cause, then resume it", f"mainspring resume {run.id}", _ADMITTED_SOON)
    return replace(
        found,
        reason=Reason.QUARANTINED,
        verdict=f"Held, because it could not be adopted: {run.held}",
        expected=Expected.unknown("a person has to decide"),
        gates=(Gate("due", GateState.YES), Gate("intake", GateState.HOLDS)),
        suggestions=(resume,),
    )


def _paused(found: Diagnosis, run: Run) -> Diagnosis:
    return replace(
        found,
        reason=Reason.PAUSED,
        verdict=messages.paused(run.because or "paused"),
        expected=Expected.unknown("an operator must resume it"),
        suggestions=(Suggestion.ask("Resume it", f"mainspring resume {run.id}", _ADMITTED_SOON),),
    )


def _too_early(found: Diagnosis, run: Run) -> Diagnosis:
    when = f"{format_clock(run.start_at, found.at)} ({format_relative(run.start_at, found.at)})"
    basis = "set at submission" if run.schedule_id is None else "set by its schedule"
    return replace(
        found,
        reason=Reason.WAITING_TIME,
        verdict=f"Starts at {when}",
        expected=Expected.at(run.start_at, basis),
        gates=(Gate("due", GateState.HOLDS, format_relative(run.start_at, found.at)),),
        suggestions=(Suggestion.wait(f"Wait until {format_clock(run.start_at, found.at)}"),),
    )


def _retry(id: str, says: str, effect: str) -> Suggestion:
    return Suggestion.change(says, f"mainspring retry {id}", effect)
