"""Why a task is not ready: paused run, upstream tasks, a time, a retry, or a failed upstream."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from mainspring.core.explain import messages_running as words
from mainspring.core.explain.diagnosis import MOST_NAMED, STALE_SECONDS, Expected, Gate, InTheWay, Passed, Reason
from mainspring.core.explain.diagnosis_report import say_in
from mainspring.core.explain.from_rows import failure_of
from mainspring.core.explain.messages import DUE, PAUSED, UPSTREAM, circuit_alike, circuit_of_job, unknown
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import Task, TaskState
from mainspring.core.text.durations import say_seconds
from mainspring.shard.explain import rule_checks as rules
from mainspring.shard.explain.diagnosis_context import Look
from mainspring.shard.explain.findings import Finding, Usual, at, between, cannot_say, elapsed, never, usual
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import progress

S = TaskState
_PARENTS_LOOKED_AT = 20_000
_TASKS_FORESEEN = 500
_FEW = 5
_DEEPEST = 64
"""Limits of tasks and depth when the end of upstream tasks is estimated."""


def pending(look: Look) -> Finding:
    """What a pending task waits for."""
    task, run = look.task, look.run
    held = rules.resting(look)
    if held is not None:
        found, gate = held.tell(), PAUSED
    elif task.due_at is not None:
        found, gate = _until(look, task.due_at), DUE
    else:
        found, gate = _upstream(look), UPSTREAM
    passed, gates = Passed.YES, []
    for name in (PAUSED, UPSTREAM, DUE):
        says = _say_upstream(run, task) if name == UPSTREAM else ""
        if name == gate and found.reason is not None:
            gates.append(Gate(name=name, passed=Passed.HOLDS, says=found.says))
            passed = Passed.NOT_REACHED
        else:
            gates.append(Gate(name=name, passed=passed, says=says))
    return replace(found, gates=tuple(gates))


def _say_upstream(run: RunMemory, task: Task) -> str:
    total = len(run.parents(task.position))
    return f"{total - min(total, run.waiting[task.position]):,}/{total:,}" if total else ""


# a time


def _until(look: Look, due_at: datetime) -> Finding:
    """It waits for a time: its start time, its retry, or a circuit breaker."""
    task, memory, now = look.task, look.memory, look.now
    job = memory.failing_jobs.open.get(look.run.subject())
    if job is not None:
        return Finding(
            reason=Reason.CIRCUIT_OPEN,
            verdict=circuit_of_job(
                look.run.subject(),
                job.because,
                rules.probe_at(look) or due_at,
                now,
                failure_of(task) if task.tries else "",
            ),
            says=say_in(due_at, now),
            expected=cannot_say("it depends on whether the probe succeeds"),
            in_the_way=(rules.failing(job, task.tenant),),
            numbers={"seconds": (due_at - now).total_seconds()},
        )
    alike = memory.alike.open.get(task.trail.signature) if task.trail is not None else None
    if alike is not None:
        return Finding(
            reason=Reason.CIRCUIT_OPEN,
            verdict=circuit_alike(alike.because, due_at, now),
            says=say_in(due_at, now),
            expected=at(due_at, "its next attempt is on hold until then"),
            in_the_way=(
                InTheWay(kind="event", id=alike.subject, says=f"many tasks failed the same way: {alike.because}"),
            ),
            numbers={"seconds": (due_at - now).total_seconds()},
        )
    if task.tries or task.losses:
        return _retry(look, due_at)
    return Finding(
        reason=Reason.WAITING_TIME,
        verdict=words.waits_until(due_at, task.because, now),
        says=say_in(due_at, now),
        expected=at(due_at, "it is due then"),
        numbers={"seconds": (due_at - now).total_seconds()},
    )


def _retry(look: Look, due_at: datetime) -> Finding:
    task, now = look.task, look.now
    tries = look.run.spec(task.position).max_attempts
    return Finding(
        reason=Reason.WAITING_RETRY,
        verdict=words.waits_for_retry(task.tries, tries, failure_of(task), due_at, now),
        says=say_in(due_at, now),
        expected=at(due_at, "its retry delay, if there is capacity then"),
        numbers={"seconds": (due_at - now).total_seconds(), "tries": float(task.tries)},
    )


# upstream tasks


def _upstream(look: Look) -> Finding:
    """It waits for upstream tasks, or will never start."""
    task, run, now = look.task, look.run, look.now
    decision = progress.foregone(run, task)
    if decision is not None:
        cause = None if decision.cause is None else look.memory.find(decision.cause)
        shown = () if cause is None else (_way(look.memory, cause, now),)
        return Finding(
            reason=Reason.DEPENDENCY_NOT_READY,
            verdict=words.never_ready(decision.because, None if cause is None else _when(cause), now),
            says=_say_upstream(run, task),
            expected=never(decision.because),
            in_the_way=shown,
        )
    waits, total = run.waiting[task.position], len(run.parents(task.position))
    open_ones = list(islice(_open(run, task), MOST_NAMED))
    if not open_ones:
        return _undecided(look)
    names = [_say(look.memory, one, now) for one in open_ones]
    expected = _foresee(look)
    return Finding(
        reason=Reason.WAITING_UPSTREAM,
        verdict=words.waits_for_upstream(waits, total, names),
        says=_say_upstream(run, task),
        expected=expected,
        in_the_way=tuple(_way(look.memory, one, now) for one in open_ones),
        others_in_the_way=max(0, waits - len(open_ones)),
        numbers={"waiting": float(waits), "upstream": float(total)},
    )


def _undecided(look: Look) -> Finding:
    """All its upstream tasks have ended; it becomes ready as its run is processed."""
    run = look.run
    since = run.changed_at or look.task.since
    waited = (look.now - since).total_seconds()
    is_worked_on = bool(run.ripples or run.spreads) or run.run.id in look.memory.put_off
    if is_worked_on or waited <= STALE_SECONDS:
        return Finding(
            reason=None, verdict=words.about_to_be_ready(), expected=cannot_say("its run is being processed")
        )
    return Finding(reason=Reason.UNKNOWN, verdict=unknown(waited), expected=cannot_say("no cause is known"))


def _open(run: RunMemory, task: Task) -> Iterator[Task]:
    """The open upstream tasks; of a fan-out the first open one."""
    for parent in islice(run.parents(task.position), _PARENTS_LOOKED_AT):
        fan_out = None if run.growth is None else run.growth.fan_outs.get(parent)
        places = (parent,) if fan_out is None else islice(fan_out.members(), _PARENTS_LOOKED_AT)
        made = (run.tasks[place] for place in places if place < len(run.tasks))
        first = next((one for one in made if one.state not in FINAL), None)
        if first is not None:
            yield first


def _say(memory: ShardMemory, task: Task, now: datetime) -> str:
    """Format an upstream task with its activity: `extract (running, ~3m left)`, `geo (retry in 12s)`."""
    name = full_name(task)
    if task.state is S.RUNNING:
        known = usual(memory, task)
        left = "" if known is None else f", ~{say_seconds(max(0.0, known.middle - elapsed(task, now)))} left"
        return f"{name} (running{left})"
    if task.due_at is not None:
        return f"{name} (retry {say_in(task.due_at, now)})"
    return f"{name} ({task.state.value.lower()})"


def _way(memory: ShardMemory, task: Task, now: datetime) -> InTheWay:
    says = _say(memory, task, now)
    return InTheWay(kind="task", id=task.id, says=says, tenant=task.tenant, priority=task.priority)


def _when(task: Task) -> datetime:
    return task.ended_at or task.since


# when the upstream tasks end


def _foresee(look: Look) -> Expected:
    """When a task can start, by the usual durations of its upstream tasks."""
    ends: dict[int, tuple[float, float] | str] = {}
    found = _ready_in(look, look.task, ends, _DEEPEST)
    if isinstance(found, str):
        return cannot_say(found)
    return between(look.now, *found, "the usual durations of its upstream tasks, if there is capacity then")


def _ready_in(
    look: Look, task: Task, ends: dict[int, tuple[float, float] | str], deepest: int
) -> tuple[float, float] | str:
    """Seconds until all upstream tasks are done, at the quickest and at the slowest; or why that is unknown."""
    quick = slow = 0.0
    for parent in _open(look.run, task):
        end = ends.get(parent.position)
        if end is None:
            if not deepest or len(ends) >= _TASKS_FORESEEN:
                return "too many upstream tasks"
            ends[parent.position] = "cyclic"
            end = ends[parent.position] = _done_in(look, parent, ends, deepest - 1)
        if isinstance(end, str):
            return end
        quick, slow = max(quick, end[0]), max(slow, end[1])
    return quick, slow


def _done_in(
    look: Look, task: Task, ends: dict[int, tuple[float, float] | str], deepest: int
) -> tuple[float, float] | str:
    """Seconds until a task is done."""
    known, name = usual(look.memory, task), full_name(task)
    if task.state is S.QUARANTINED:
        return f"{name} is quarantined until someone clears it"
    if known is None:
        return f"the usual duration of {name} is not known"
    quick, slow = _extent(known)
    if task.state in (S.RUNNING, S.ASSIGNED):
        ran = elapsed(task, look.now)
        return (max(0.0, quick - ran), slow - ran) if ran < slow else f"{name} takes longer than it usually does"
    if task.state is S.QUEUED:
        return f"{name} is queued for capacity"
    if task.due_at is not None:
        wait = max(0.0, (task.due_at - look.now).total_seconds())
        return wait + quick, wait + slow
    before = _ready_in(look, task, ends, deepest)
    return before if isinstance(before, str) else (before[0] + quick, before[1] + slow)


def _extent(known: Usual) -> tuple[float, float]:
    """Quickest and slowest duration of a task; a wide range with few samples."""
    return (known.quick, known.slow) if known.samples >= _FEW else (known.quick / 2, 2 * known.slow)
