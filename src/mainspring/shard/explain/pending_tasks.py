"""Why a task is not ready: paused run, upstream tasks, a time, a retry, or a failed upstream."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import MAX_NAMED, STALE_SECONDS, Blocker, Expected, Gate, GateState, Reason
from mainspring.core.explain.diagnosis_report import format_relative
from mainspring.core.explain.from_rows import failure_of
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import Task, TaskState
from mainspring.core.text.durations import format_seconds
from mainspring.shard.explain import rule_checks as rules
from mainspring.shard.explain.diagnosis_context import TaskContext
from mainspring.shard.explain.findings import Finding, Usual, between, elapsed, named, usual
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import progress

S = TaskState
_MAX_PARENTS = 20_000
_MAX_TASKS = 500
_FEW_UPSTREAMS = 5
_MAX_DEPTH = 64
"""Limits of tasks and depth when the end of upstream tasks is estimated."""


def pending(context: TaskContext) -> Finding:
    """Find the reason of a pending task."""
    task, run = context.task, context.run
    held = rules.paused(context)
    if held is not None:
        found, gate = held.describe(), words.PAUSED
    elif task.due_at is not None:
        found, gate = _until(context, task.due_at), words.DUE
    else:
        found, gate = _upstream(context), words.UPSTREAM
    passed, gates = GateState.YES, []
    for name in (words.PAUSED, words.UPSTREAM, words.DUE):
        says = _format_upstream(run, task) if name == words.UPSTREAM else ""
        if name == gate and found.reason is not None:
            gates.append(Gate(name, GateState.HOLDS, found.says))
            passed = GateState.NOT_REACHED
        else:
            gates.append(Gate(name, passed, says))
    return replace(found, gates=tuple(gates))


def _format_upstream(run: RunMemory, task: Task) -> str:
    total = len(run.parents(task.position))
    return f"{total - min(total, run.waiting[task.position]):,}/{total:,}" if total else ""


# a time


def _until(context: TaskContext, due_at: datetime) -> Finding:
    """The task waits for a time: its start time, its retry, or a circuit breaker."""
    task, memory, now = context.task, context.memory, context.now
    found = Finding(
        reason=Reason.WAITING_TIME,
        verdict=words.waiting_until(due_at, task.because, now),
        says=format_relative(due_at, now),
        expected=Expected.at(due_at, "it is due then"),
        numbers={"seconds": (due_at - now).total_seconds()},
    )
    job, name = memory.limits.job_breakers.open.get(context.run.subject()), context.run.subject()
    if job is not None:
        failure = failure_of(task) if task.tries else ""
        return replace(
            found,
            reason=Reason.CIRCUIT_OPEN,
            verdict=words.circuit_of_job(name, job.because, rules.probe_at(context) or due_at, now, failure),
            expected=Expected.unknown("it depends on whether the probe succeeds"),
            blockers=named([rules.failing(job, task.tenant)]),
        )
    circuit = None if task.trail is None else memory.limits.signature_breakers.open.get(task.trail.signature)
    if circuit is not None:
        says = f"many tasks failed the same way: {circuit.because}"
        return replace(
            found,
            reason=Reason.CIRCUIT_OPEN,
            verdict=words.circuit_of_signature(circuit.because, due_at, now),
            expected=Expected.at(due_at, "its next attempt is on hold until then"),
            blockers=named([Blocker("event", circuit.subject, says)]),
        )
    if task.tries or task.losses:
        tries = context.run.spec(task.position).max_attempts
        return replace(
            found,
            reason=Reason.WAITING_RETRY,
            verdict=words.waiting_for_retry(task.tries, tries, failure_of(task), due_at, now),
            expected=Expected.at(due_at, "its retry delay, if there is capacity then"),
            numbers=found.numbers | {"tries": float(task.tries)},
        )
    return found


# upstream tasks


def _upstream(context: TaskContext) -> Finding:
    """The task waits for upstream tasks, or will never start."""
    task, run, now = context.task, context.run, context.now
    decision = progress.decide_early(run, task)
    if decision is not None:
        cause = None if decision.cause is None else context.memory.runs.find(decision.cause)
        return Finding(
            reason=Reason.DEPENDENCY_NOT_READY,
            verdict=words.never_ready(decision.because, None if cause is None else cause.ended_at or cause.since, now),
            says=_format_upstream(run, task),
            expected=Expected.never(decision.because),
            blockers=named([] if cause is None else [_blocker(context.memory, cause, now)]),
        )
    waits, total = run.waiting[task.position], len(run.parents(task.position))
    open_ones = list(islice(_open(run, task), MAX_NAMED))
    if not open_ones:
        return _undecided(context)
    names = [_format_upstream_task(context.memory, one, now) for one in open_ones]
    return Finding(
        reason=Reason.WAITING_UPSTREAM,
        verdict=words.waiting_for_upstream(waits, total, names),
        says=_format_upstream(run, task),
        expected=_forecast_start(context),
        blockers=named([_blocker(context.memory, one, now) for one in open_ones], waits),
        numbers={"waiting": float(waits), "upstream": float(total)},
    )


def _undecided(context: TaskContext) -> Finding:
    """All its upstream tasks have ended; it becomes ready as its run is processed."""
    run = context.run
    since = run.changed_at or context.task.since
    waited = (context.now - since).total_seconds()
    is_worked_on = bool(run.propagations or run.bulk_operations) or run.run.id in context.memory.backlog.deferred
    if is_worked_on or waited <= STALE_SECONDS:
        return Finding(
            reason=None, verdict=words.about_to_be_ready(), expected=Expected.unknown("its run is being processed")
        )
    return Finding(reason=Reason.UNKNOWN, verdict=words.unknown(waited), expected=Expected.unknown("no cause is known"))


def _open(run: RunMemory, task: Task) -> Iterator[Task]:
    """The open upstream tasks; of a fan-out the first open one."""
    for parent in islice(run.parents(task.position), _MAX_PARENTS):
        created = (run.tasks[position] for position in islice(run.created_at(parent), _MAX_PARENTS))
        first = next((one for one in created if one.state not in FINAL), None)
        if first is not None:
            yield first


def _format_upstream_task(memory: ShardMemory, task: Task, now: datetime) -> str:
    """Format an upstream task with its activity: `extract (running, ~3m left)`, `geo (retry in 12s)`."""
    name = full_name(task)
    if task.state is S.RUNNING:
        known = usual(memory, task)
        left = "" if known is None else f", ~{format_seconds(max(0.0, known.middle - elapsed(task, now)))} left"
        return f"{name} (running{left})"
    if task.due_at is not None:
        return f"{name} (retry {format_relative(task.due_at, now)})"
    return f"{name} ({task.state.value.lower()})"


def _blocker(memory: ShardMemory, task: Task, now: datetime) -> Blocker:
    says = _format_upstream_task(memory, task, now)
    return Blocker("task", task.id, says, task.tenant, task.priority)


# when the upstream tasks end


def _forecast_start(context: TaskContext) -> Expected:
    """Return when a task can start, by the usual durations of its upstream tasks."""
    ends: dict[int, tuple[float, float] | str] = {}
    found = _ready_in(context, context.task, ends, _MAX_DEPTH)
    if isinstance(found, str):
        return Expected.unknown(found)
    return between(context.now, *found, "the usual durations of its upstream tasks, if there is capacity then")


def _ready_in(
    context: TaskContext, task: Task, ends: dict[int, tuple[float, float] | str], depth_left: int
) -> tuple[float, float] | str:
    """Seconds until all upstream tasks are done, at the quickest and at the slowest; or why that is unknown."""
    quick = slow = 0.0
    for parent in _open(context.run, task):
        end = ends.get(parent.position)
        if end is None:
            if not depth_left or len(ends) >= _MAX_TASKS:
                return "too many upstream tasks"
            ends[parent.position] = "cyclic"
            end = ends[parent.position] = _done_in(context, parent, ends, depth_left - 1)
        if isinstance(end, str):
            return end
        quick, slow = max(quick, end[0]), max(slow, end[1])
    return quick, slow


def _done_in(
    context: TaskContext, task: Task, ends: dict[int, tuple[float, float] | str], depth_left: int
) -> tuple[float, float] | str:
    """Seconds until a task is done."""
    known, name = usual(context.memory, task), full_name(task)
    if task.state is S.QUARANTINED:
        return f"{name} is quarantined until someone clears it"
    if known is None:
        return f"the usual duration of {name} is not known"
    quick, slow = _extent(known)
    if task.state in (S.RUNNING, S.ASSIGNED):
        ran = elapsed(task, context.now)
        return (max(0.0, quick - ran), slow - ran) if ran < slow else f"{name} takes longer than it usually does"
    if task.state is S.QUEUED:
        return f"{name} is queued for capacity"
    if task.due_at is not None:
        wait = max(0.0, (task.due_at - context.now).total_seconds())
        return wait + quick, wait + slow
    before = _ready_in(context, task, ends, depth_left)
    return before if isinstance(before, str) else (before[0] + quick, before[1] + slow)


def _extent(known: Usual) -> tuple[float, float]:
    """Quickest and slowest duration of a task; a wide range with few samples."""
    return (known.quick, known.slow) if known.samples >= _FEW_UPSTREAMS else (known.quick / 2, 2 * known.slow)
