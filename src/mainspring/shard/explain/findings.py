"""The result of diagnosing one task, and helpers that read the memory.

`shard/explain/diagnose.py` makes a diagnosis of it. Read-only and bounded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

import msgspec

from mainspring.core.explain import from_rows
from mainspring.core.explain.diagnosis import MAX_NAMED, Blocker, Expected, Gate, Reason
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.duration_stats import percentile
from mainspring.core.model.task import Task, TaskState
from mainspring.core.text.durations import format_seconds
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory

QUICK, SLOW, HIGHEST = 0.1, 0.9, 0.99
"""Percentiles of durations: lower and upper end of a range, and what is rarely exceeded."""


_COMPARED = 256
"""How many holders are compared by their remaining time."""


class Blockers(NamedTuple):
    """The first blockers, and how many more there are."""

    shown: tuple[Blocker, ...] = ()
    more: int = 0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one task."""

    reason: Reason | None
    verdict: str
    says: str = ""
    """Numbers of the gate that holds it."""
    expected: Expected | None = None
    gates: tuple[Gate, ...] = ()
    blockers: Blockers = Blockers()
    ruled_out: tuple[str, ...] = ()
    numbers: dict[str, float] = {}


class Usual(msgspec.Struct, frozen=True, kw_only=True):
    """Usual duration of a task, in seconds."""

    quick: float
    middle: float
    slow: float
    highest: float
    samples: int
    """Number of samples; 0: from its definition."""


def name_of(memory: ShardMemory, task: Task) -> str:
    """Display name of a task: `tenant/job/task`."""
    return from_rows.name_of(task, memory.runs[task.run_id].job.spec.name)


def usual(memory: ShardMemory, task: Task) -> Usual | None:
    """Usual duration of a task, by its latest successes, or by its definition; None if unknown."""
    run = memory.runs[task.run_id]
    known = _usual(memory, task.tenant, run.job.spec.name, task.name)
    if known is not None:
        return known
    expected = run.spec(task.position).expected_seconds
    if expected is None:
        return None
    return Usual(quick=expected, middle=expected, slow=expected, highest=2 * expected, samples=0)


def usual_of_run(memory: ShardMemory, run: RunMemory) -> Usual | None:
    """Usual duration of runs of the same job."""
    return _usual(memory, run.run.tenant, run.job.spec.name, "")


def _usual(memory: ShardMemory, tenant: str, job: str, name: str) -> Usual | None:
    samples = sorted(memory.durations.samples(tenant, job, name))
    if not samples:
        return None
    quick, middle, slow, highest = (percentile(samples, part) for part in (QUICK, 0.5, SLOW, HIGHEST))
    return Usual(quick=quick, middle=middle, slow=slow, highest=highest, samples=len(samples))


def elapsed(task: Task, now: datetime) -> float:
    """Return how long an attempt has run."""
    return 0.0 if task.started_at is None else max(0.0, (now - task.started_at).total_seconds())


def remaining_seconds(memory: ShardMemory, now: datetime) -> Callable[[Task], float | None]:
    """Return a function for the usual remaining time of running tasks; None if unknown.

    Usual durations are computed once per kind of task: it takes 7 µs, and hundreds may hold what one waits for.
    """
    known: dict[tuple[str, str, str], Usual | None] = {}

    def left(task: Task) -> float | None:
        kind = (task.tenant, memory.runs[task.run_id].job.id, task.name)
        if kind not in known:
            known[kind] = usual(memory, task)
        found = known[kind]
        return None if found is None else max(0.0, found.middle - elapsed(task, now))

    return left


def format_held(memory: ShardMemory, task: Task, now: datetime) -> str:
    """Format a running task, with its elapsed and usual time."""
    return f"{full_name(task)} ({_format_running(memory, task, now)})"


def holder(memory: ShardMemory, task: Task, now: datetime) -> Blocker:
    """A task that holds what another waits for."""
    where = f" on {task.worker_id}" if task.worker_id else ""
    return blocking_task(memory, task, f"{_format_running(memory, task, now)}{where}")


def format_usual(known: Usual | None) -> str:
    """Format a usual duration, for the middle of a sentence."""
    return "" if known is None else f", usually {format_seconds(known.middle)}"


def _format_running(memory: ShardMemory, task: Task, now: datetime) -> str:
    if task.state is not TaskState.RUNNING:
        return "starting"
    return f"running {format_seconds(elapsed(task, now))}{format_usual(usual(memory, task))}"


def waiter(memory: ShardMemory, task: Task, now: datetime) -> Blocker:
    """A task that is ahead of another."""
    return blocking_task(memory, task, f"queued {format_seconds((now - task.since).total_seconds())}")


def blocking_task(memory: ShardMemory, task: Task, doing: str) -> Blocker:
    """A task as a blocker: name, priority and activity."""
    says = f"{name_of(memory, task)} ({task.priority.name}, {doing})"
    return Blocker("task", task.id, says, task.tenant, task.priority)


def named(found: Iterable[Blocker], count: int | None = None) -> Blockers:
    """The first blockers, and how many more there are of `count`."""
    listed: Sequence[Blocker] = tuple(found)
    total = len(listed) if count is None else count
    shown = tuple(listed[:MAX_NAMED])
    return Blockers(shown, max(0, total - len(shown)))


def soonest(memory: ShardMemory, tasks: Iterable[Task], now: datetime, count: int) -> Blockers:
    """The holders of what is waited for, those with the least remaining time first."""
    seconds_left = remaining_seconds(memory, now)

    def left(task: Task) -> float:
        seconds = seconds_left(task)
        return float("inf") if seconds is None else seconds

    first = heapq.nsmallest(MAX_NAMED, islice(tasks, _COMPARED), key=left)
    return named((holder(memory, task, now) for task in first), count)


def lease_count(memory: ShardMemory, tenant: str) -> int:
    """Live leases of a tenant."""
    return memory.leases.counts.get(tenant, 0)


def between(now: datetime, quick: float, slow: float, basis: str) -> Expected:
    """Forecast a start within this range of seconds."""
    earliest, latest = now + timedelta(seconds=quick), now + timedelta(seconds=max(quick, slow))
    return Expected.between(earliest, latest, basis)
