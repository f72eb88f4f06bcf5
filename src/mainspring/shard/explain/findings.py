"""What a look at one task has found, and the few things that every such look asks of the memory.

`shard/explain/diagnose.py` makes a diagnosis of it. Nothing here changes anything, and every look is bounded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from mainspring.core.explain import from_rows
from mainspring.core.explain.diagnosis import MOST_NAMED, Expected, Foresight, Gate, InTheWay, Reason
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.duration_stats import percentile
from mainspring.core.model.task import Task, TaskState
from mainspring.core.text.durations import say_seconds
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory

QUICK, SLOW, HIGHEST = 0.1, 0.9, 0.99
"""Of how long something took, what a range goes from and to, and what is hardly ever exceeded."""


_COMPARED = 256
"""Of those who hold something: so many are compared by when they will be done."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a task."""

    reason: Reason | None
    verdict: str
    says: str = ""
    """What the gate that holds it says in numbers."""
    expected: Expected | None = None
    gates: tuple[Gate, ...] = ()
    in_the_way: tuple[InTheWay, ...] = ()
    others_in_the_way: int = 0
    ruled_out: tuple[str, ...] = ()
    numbers: dict[str, float] = {}


class Usual(msgspec.Struct, frozen=True, kw_only=True):
    """How long a task usually takes, in seconds."""

    quick: float
    middle: float
    slow: float
    highest: float
    samples: int
    """Of so many; 0: its definition says so."""


def name_of(memory: ShardMemory, task: Task) -> str:
    """What people call a task: `tenant/job/task`."""
    return from_rows.name_of(task, memory.runs[task.run_id].job.spec.name)


def usual(memory: ShardMemory, task: Task) -> Usual | None:
    """How long a task usually takes, by its latest successes, or by its definition; None: nobody knows."""
    run = memory.runs[task.run_id]
    known = _usual(memory, task.tenant, run.job.spec.name, task.name)
    if known is not None:
        return known
    expected = run.spec(task.position).expected_seconds
    if expected is None:
        return None
    return Usual(quick=expected, middle=expected, slow=expected, highest=2 * expected, samples=0)


def usual_of_run(memory: ShardMemory, run: RunMemory) -> Usual | None:
    """How long runs of the same job usually take."""
    return _usual(memory, run.run.tenant, run.job.spec.name, "")


def _usual(memory: ShardMemory, tenant: str, job: str, name: str) -> Usual | None:
    samples = sorted(memory.durations.samples(tenant, job, name))
    if not samples:
        return None
    quick, middle, slow, highest = (percentile(samples, part) for part in (QUICK, 0.5, SLOW, HIGHEST))
    return Usual(quick=quick, middle=middle, slow=slow, highest=highest, samples=len(samples))


def elapsed(task: Task, now: datetime) -> float:
    """For how long an attempt has run."""
    return 0.0 if task.started_at is None else max(0.0, (now - task.started_at).total_seconds())


def lefts(memory: ShardMemory, now: datetime) -> Callable[[Task], float | None]:
    """Of tasks that workers hold, how long each will usually take from now on; None: nobody knows.

    What is usual is found once for all that are alike: it takes 7 µs, and hundreds may hold what one waits for.
    """
    known: dict[tuple[str, str, str], Usual | None] = {}

    def left(task: Task) -> float | None:
        kind = (task.tenant, memory.runs[task.run_id].job.id, task.name)
        if kind not in known:
            known[kind] = usual(memory, task)
        found = known[kind]
        return None if found is None else max(0.0, found.middle - elapsed(task, now))

    return left


def say_held(memory: ShardMemory, task: Task, now: datetime) -> str:
    """A task that a worker holds, with how long it has run and may take."""
    return f"{full_name(task)} ({_say_running(memory, task, now)})"


def holder(memory: ShardMemory, task: Task, now: datetime) -> InTheWay:
    """A task that holds what another waits for."""
    where = f" on {task.worker_id}" if task.worker_id else ""
    return in_the_way(memory, task, f"{_say_running(memory, task, now)}{where}")


def say_often(known: Usual | None) -> str:
    """How long something usually takes, for the middle of a sentence."""
    return "" if known is None else f", usually {say_seconds(known.middle)}"


def _say_running(memory: ShardMemory, task: Task, now: datetime) -> str:
    if task.state is not TaskState.RUNNING:
        return "starting"
    return f"running {say_seconds(elapsed(task, now))}{say_often(usual(memory, task))}"


def waiter(memory: ShardMemory, task: Task, now: datetime) -> InTheWay:
    """A task that is ahead of another."""
    return in_the_way(memory, task, f"queued {say_seconds((now - task.since).total_seconds())}")


def in_the_way(memory: ShardMemory, task: Task, doing: str) -> InTheWay:
    """A task, by name, tenant and priority, and what it does."""
    says = f"{name_of(memory, task)} ({task.priority.name}, {doing})"
    return InTheWay(kind="task", id=task.id, says=says, tenant=task.tenant, priority=task.priority)


def named(found: Iterable[InTheWay], count: int | None = None) -> tuple[tuple[InTheWay, ...], int]:
    """The first of those that are in the way, and how many more there are of so many."""
    listed: Sequence[InTheWay] = tuple(found)
    total = len(listed) if count is None else count
    shown = tuple(listed[:MOST_NAMED])
    return shown, max(0, total - len(shown))


def soonest(memory: ShardMemory, tasks: Iterable[Task], now: datetime, count: int) -> tuple[tuple[InTheWay, ...], int]:
    """Those of so many that hold what is waited for: who will be done first comes first."""
    seconds_left = lefts(memory, now)

    def left(task: Task) -> float:
        seconds = seconds_left(task)
        return float("inf") if seconds is None else seconds

    first = heapq.nsmallest(MOST_NAMED, islice(tasks, _COMPARED), key=left)
    return named((holder(memory, task, now) for task in first), count)


def never(basis: str) -> Expected:
    """It will never start."""
    return Expected(foresight=Foresight.NEVER, basis=basis)


def cannot_say(basis: str) -> Expected:
    """Nothing can be said of when it starts."""
    return Expected(foresight=Foresight.CANNOT_SAY, basis=basis)


def between(now: datetime, quick: float, slow: float, basis: str) -> Expected:
    """It starts after so many seconds, from the quickest to the slowest."""
    earliest, latest = now + timedelta(seconds=quick), now + timedelta(seconds=max(quick, slow))
    return Expected(foresight=Foresight.RANGE, basis=basis, earliest=earliest, latest=latest)


def at(instant: datetime, basis: str) -> Expected:
    """It starts then."""
    return Expected(foresight=Foresight.RANGE, basis=basis, earliest=instant, latest=instant)
