"""What rows alone say of a task or a run: of one that is over, of one that nobody has taken in, and without a leader.

    over                what happened; nothing holds it up any more
    not taken in        its start time is to come, it is held, or others are before it in intake
    no leader answers   SCHEDULER_LAG while somebody leads, UNKNOWN if nobody does: no cause, no advice

Whatever is under way in the memory of a leader is `shard/explain/diagnose.py`'s to explain: it knows what it decides
by.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec.structs import replace

from mainspring.core.explain import advice_messages as words
from mainspring.core.explain.diagnosis import (
    BY_ROWS,
    Act,
    ActKind,
    Diagnosis,
    Expected,
    Foresight,
    Gate,
    InTheWay,
    Passed,
    Reason,
)
from mainspring.core.explain.diagnosis_report import say_clock, say_in
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.failures import say_failure
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import FINAL_RUN, Run, RunState
from mainspring.core.model.task import Task, TaskState
from mainspring.core.text.durations import say_seconds

_FAILED_RUN = frozenset({RunState.FAILED, RunState.PARTIAL, RunState.TIMED_OUT, RunState.CANCELLED})
_FAILED_TASK = frozenset({TaskState.FAILED, TaskState.TIMED_OUT})
_ENDINGS = {
    TaskState.SUCCEEDED: "Succeeded",
    TaskState.FAILED: "Failed",
    TaskState.TIMED_OUT: "Timed out",
    TaskState.CANCELLED: "Cancelled",
    TaskState.SKIPPED: "Skipped",
    RunState.SUCCEEDED: "Succeeded",
    RunState.FAILED: "Failed",
    RunState.PARTIAL: "Ended in part",
    RunState.TIMED_OUT: "Timed out",
    RunState.CANCELLED: "Cancelled",
}
_TAKEN_IN = "it is taken in as soon as there is room for its tasks"
_LONG_SECONDS = 10.0
"""A run that is first in intake for longer than this is not taken in as it should be."""


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads a pool, as the rows say."""

    pool: str
    server: str
    """Empty: nobody ever did."""
    is_held: bool
    """The lease is not over: somebody leads, and does not answer."""
    age_seconds: float
    """Since the lease was last renewed."""
    batch: int


def of_task(task: Task, job: str, now: datetime, lead: Lead) -> Diagnosis:
    """A task that is not over, of which no leader says anything."""
    found = _about_task(task, job, now, lead.age_seconds)
    return _without_leader(found, lead, _known(task.state, task.because))


def of_run(run: Run, job: str, now: datetime, lead: Lead) -> Diagnosis:
    """A run that is not over, of which no leader says anything."""
    found = _about_run(run, job, now, lead.age_seconds)
    return _without_leader(found, lead, _known(run.state, run.because))


def of_forgotten(task: Task, job: str, now: datetime) -> Diagnosis:
    """A task that is not over, and that its leader has not in mind."""
    return replace(
        _about_task(task, job, now, 0.0),
        reason=Reason.UNKNOWN,
        verdict=f"The scheduler has no such task in mind; no cause can be named; {_known(task.state, task.because)}",
        expected=_cannot_say("the scheduler does not know of it"),
    )


def of_open_run(run: Run, job: str, now: datetime) -> Diagnosis:
    """A run that is not over, and none of whose tasks is open: it is about to end."""
    return replace(_about_run(run, job, now, 0.0), verdict="Under way, and nothing of it waits")


def of_job(job: JobRow, now: datetime, latest: Run | None) -> Diagnosis:
    """A job that no schedule is for, and no run of which is under way."""
    ended = "" if latest is None else f"; its latest run, {latest.id}, {_say_end(latest, now)}"
    verdict = f"No schedule is for it: it runs when somebody submits it{ended}"
    if job.deleted_at is not None:
        verdict = f"Was deleted {say_in(job.deleted_at, now)}{ended}"
    submit = Act(kind=ActKind.CHANGE, says="Run it", command=f"mainspring submit {job.name}", effect="a run starts")
    return Diagnosis(
        subject=job.id, name=f"{job.tenant}/{job.name}", tenant=job.tenant,
        state="active" if job.deleted_at is None else "deleted", since=None, reason=None, verdict=verdict, at=now,
        by=BY_ROWS, age_seconds=0.0, acts=(submit,) if job.deleted_at is None else (),
    )  # fmt: skip


def of_ended_task(task: Task, job: str, now: datetime, cause: Task | None = None) -> Diagnosis:
    """What became of a task that is over; `cause` is the task because of which it was cancelled or skipped."""
    found = _about_task(task, job, now, 0.0)
    if cause is not None and task.started_at is None and cause.state in _FAILED_TASK:
        return _never_ready(found, task, cause)
    ended = task.ended_at or task.since
    verdict = f"{_ENDINGS[task.state]} {_ago(ended, now)}"
    if task.started_at is not None:
        verdict += f", after {say_seconds((ended - task.started_at).total_seconds())}"
        verdict += f" on {task.ran_on or task.worker_id}" if task.ran_on or task.worker_id else ""
    if task.state is not TaskState.SUCCEEDED and task.because:
        verdict += f": {task.because}"
        if task.state in _FAILED_TASK and failure_of(task) != task.because:
            verdict += f" ({failure_of(task)})"
    acts = (
        [_retry(task.id, "Run it again, and what follows it", words.QUEUED_AGAIN)] if task.state in _FAILED_TASK else []
    )
    return replace(found, verdict=verdict, acts=tuple(acts), numbers={"tries": float(task.tries)})


def of_ended_run(run: Run, job: str, now: datetime, failed: Task | None = None) -> Diagnosis:
    """What became of a run that is over; `failed` is the task that failed first, if one did."""
    because = run.because if failed is None else f"{failed.name} failed ({failure_of(failed)})"
    why = f": {because}" if run.state is not RunState.SUCCEEDED and because else ""
    verdict = f"{_say_end(run, now).capitalize()}{why}"
    acts = (
        [_retry(run.id, "Start again what did not succeed", "it would be under way again")] if has_failed(run) else []
    )
    found = _about_run(run, job, now, 0.0)
    return replace(found, verdict=verdict, acts=tuple(acts), task=None if failed is None else failed.id)


def of_waiting_run(run: Run, job: str, now: datetime, before: int, lead: Lead) -> Diagnosis:
    """A run that nobody has taken in yet; `before` counts those in intake that are as important, itself included."""
    found = _about_run(run, job, now, 0.0)
    if run.held is not None:
        return _held(found, run)
    if run.start_at > now:
        return _too_early(found, run)
    if run.paused:
        return _paused(found, run)
    if not lead.is_held:
        return _without_leader(replace(found, age_seconds=lead.age_seconds), lead, "it has not been taken in")
    return _in_intake(found, run, max(0, before - 1))


def is_over(run: Run) -> bool:
    """Whether a run has ended."""
    return run.state in FINAL_RUN


def has_failed(run: Run) -> bool:
    """Whether a run has ended, and not as it should."""
    return run.state in _FAILED_RUN


# the pieces


def name_of(task: Task, job: str) -> str:
    """What people call a task: `tenant/job/task`, with what tells one of a fan-out from the others."""
    return f"{task.tenant}/{job}/{full_name(task)}"


def _say_end(run: Run, now: datetime) -> str:
    """How a run ended, when, and after how long; or that it goes on."""
    if run.ended_at is None:
        return "is under way"
    took = "" if run.adopted_at is None else f", after {say_seconds((run.ended_at - run.adopted_at).total_seconds())}"
    return f"{_ENDINGS[run.state].lower()} {_ago(run.ended_at, now)}{took}"


def failure_of(task: Task) -> str:
    """What its last attempt failed with, and the last that it printed; why it was given up if that is not known."""
    return say_failure(task.error) or task.because


def _ago(at: datetime, now: datetime) -> str:
    return f"{say_seconds((now - at).total_seconds())} ago"


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
    age = say_seconds(lead.age_seconds)
    if lead.is_held:
        return replace(
            found,
            reason=Reason.SCHEDULER_LAG,
            verdict=f"The scheduler of pool {lead.pool} ({lead.server}) is silent, last heard of {age} ago; {known}",
            expected=_cannot_say("the scheduler does not answer"),
            batch=lead.batch,
        )
    since = f" for {age}" if lead.server else ""
    return replace(
        found,
        reason=Reason.UNKNOWN,
        verdict=f"Nobody has led pool {lead.pool}{since}, so no cause can be named; {known}",
        expected=_cannot_say("there is no scheduler at the moment"),
        batch=lead.batch,
    )


def _known(state: str, because: str) -> str:
    return f"last known: {state}{f', {because}' if because else ''}"


def _never_ready(found: Diagnosis, task: Task, cause: Task) -> Diagnosis:
    ended = _ago(cause.ended_at or cause.since, found.at)
    return replace(
        found,
        reason=Reason.DEPENDENCY_NOT_READY,
        verdict=f"Will never start: {cause.name} failed {ended} ({failure_of(cause)})",
        expected=Expected(foresight=Foresight.NEVER, basis=f"it needs {cause.name}, which failed for good"),
        in_the_way=(
            InTheWay(
                kind="task",
                id=cause.id,
                says=f"{cause.name} ({cause.state.value} {ended})",
                tenant=task.tenant,
                priority=cause.priority,
            ),
        ),
        acts=(_retry(cause.id, f"Run {cause.name} again, and what follows it", words.STARTS_AFTER),),
    )


def _in_intake(found: Diagnosis, run: Run, others: int) -> Diagnosis:
    seconds = (found.at - max(run.start_at, run.created_at)).total_seconds()
    if not others and seconds > _LONG_SECONDS:
        return replace(
            found,
            reason=Reason.SCHEDULER_LAG,
            verdict=f"The scheduler has not taken it in for {say_seconds(seconds)}, though none is before it",
            expected=_cannot_say("the scheduler is behind"),
        )
    before = f"up to {others:,} runs of {run.priority.name} or higher are" if others else "none is"
    return replace(
        found,
        reason=Reason.PRIORITY_QUEUE_WAIT,
        verdict=f"Waits for the scheduler to take it in; {before} before it",
        expected=_cannot_say("the scheduler does not know its tasks yet"),
        gates=(Gate(name="due", passed=Passed.YES), Gate(name="taken in", passed=Passed.HOLDS)),
        others_in_the_way=others,
        numbers={"ahead": float(others)},
        acts=(Act(kind=ActKind.WAIT, says="Wait: runs are taken in as there is room for their tasks"),),
    )


def _held(found: Diagnosis, run: Run) -> Diagnosis:
    return replace(
        found,
        reason=Reason.QUARANTINED,
        verdict=f"Held until somebody looks at it, because it could not be taken in: {run.held}",
        expected=_cannot_say("a person has to decide"),
        gates=(Gate(name="due", passed=Passed.YES), Gate(name="taken in", passed=Passed.HOLDS)),
        acts=(
            Act(
                kind=ActKind.CHANGE,
                says="Once what is wrong is mended, try again",
                command=f"mainspring resume {run.id}",
                effect=_TAKEN_IN,
            ),
        ),
    )


def _paused(found: Diagnosis, run: Run) -> Diagnosis:
    return replace(
        found,
        reason=Reason.PAUSED,
        verdict=f"{run.because[:1].upper()}{run.because[1:]}" or "Paused",
        expected=_cannot_say("a person has to resume it"),
        acts=(Act(kind=ActKind.ASK, says="Have it resumed", command=f"mainspring resume {run.id}", effect=_TAKEN_IN),),
    )


def _too_early(found: Diagnosis, run: Run) -> Diagnosis:
    when = f"{say_clock(run.start_at, found.at)} ({say_in(run.start_at, found.at)})"
    basis = "whoever submitted it said so" if run.schedule_id is None else "its schedule says so"
    return replace(
        found,
        reason=Reason.WAITING_TIME,
        verdict=f"Is to start at {when}",
        expected=Expected(foresight=Foresight.RANGE, basis=basis, earliest=run.start_at, latest=run.start_at),
        gates=(Gate(name="due", passed=Passed.HOLDS, says=say_in(run.start_at, found.at)),),
        acts=(Act(kind=ActKind.WAIT, says=f"Wait until {say_clock(run.start_at, found.at)}"),),
    )


def _retry(id: str, says: str, effect: str) -> Act:
    return Act(kind=ActKind.CHANGE, says=says, command=f"mainspring retry {id}", effect=effect)


def _cannot_say(basis: str) -> Expected:
    return Expected(foresight=Foresight.CANNOT_SAY, basis=basis)
