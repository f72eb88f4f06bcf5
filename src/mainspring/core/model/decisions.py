"""Decision log: scheduling decisions and their reasons (PLC-8).

    placed     a task was assigned to a worker; sampled by `decisions_sampled_per_1000`
    preempts   tasks are preempted to make capacity; always logged
    no_capacity    no worker can take the oldest task of a shape; at most once in 10 seconds per shape

A batch contains the decisions that it executes, so a decision is logged exactly if it was executed. Sampling of
placements is derived from the lease id, so it is deterministic per seed.

To add a kind: its sentence here, its entry in `shard/decision_log.py`, the check in `tests/sim`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.core.placement.preemption_policy import Mode
from mainspring.core.placement.task_shapes import Shape
from mainspring.core.text.sentences import count_of

MAX_DECISIONS_PER_BATCH = 1_000
MAX_NAMED = 20
"""Preempted tasks listed per decision; all are counted."""
_OF = 1_000
_MODE_REASONS = {
    Mode.TAKE_OVER: "takes over capacity reserved for less urgent tasks",
    Mode.PREEMPT: "P0 preempts P1 and P2",
    Mode.RECLAIM: "within its tenant's guarantee; reclaims burst capacity of others",
    Mode.DEFRAGMENT: "fits the pool but no single worker; P2 is moved",
}


class DecisionKind(StrEnum):
    """Kind of decision."""

    PLACED = "placed"
    PREEMPTS = "preempts"
    NO_CAPACITY = "no_capacity"


class PreemptedTask(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A task that was preempted."""

    task_id: str
    tenant: str
    priority: Priority
    lost_seconds: float
    """Work that has to be repeated."""


class Decision(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One decision about one task. The fields are the columns of `decisions`, in the same order."""

    id: str
    at: datetime
    kind: DecisionKind
    shard: str
    tenant: str
    task_id: str
    run_id: str
    name: str
    """Name of the task."""
    attempt: int
    """Number of the attempt that was placed, or of the previous one."""
    priority: Priority
    request: Shape
    """Requested shape."""
    worker_id: str | None = None
    """None: no worker was found."""
    free: Resources | None = None
    """Free capacity on that worker for this task, before the decision."""
    score: float | None = None
    """Placement score of the worker (`core/placement/feasibility.py`)."""
    workers_examined: int | None = None
    """Number of workers examined; None if unknown."""
    victims: tuple[PreemptedTask, ...] = ()
    """The first `MAX_NAMED` preempted tasks."""
    victim_count: int = 0
    why: str
    """Names neither tenants nor tasks of others."""
    version: str
    """Version of the scheduler."""


def is_sampled(lease_id: str, sampled_per_1000: int) -> bool:
    """Return whether the placement of a lease is sampled, by the random bits at the end of its id."""
    return int(lease_id[-8:], 16) % _OF < sampled_per_1000


def placement_reason(*, was_reserved: bool, workers_examined: int | None, worker_count: int, group_size: int) -> str:
    """Return why a task was placed on its worker; `group_size` is the number of tasks that share the lease."""
    if was_reserved:
        why = "the capacity reserved for it is free"
    elif workers_examined is None:
        why = f"the best of the examined workers, of {count_of(worker_count, 'worker')}"
    else:
        why = f"the best of {count_of(workers_examined, 'worker')}"
    return f"{why}; {group_size} tasks share the lease" if group_size > 1 else why


def preemption_reason(mode: Mode, victims: Sequence[PreemptedTask], workers_examined: int) -> str:
    """Return why preemption is allowed, and why these tasks were chosen."""
    count = Counter(victim.priority.name for victim in victims)
    who = " and ".join(f"{number} of {name}" for name, number in sorted(count.items(), reverse=True))
    lost = sum(victim.lost_seconds for victim in victims)
    cheapest = f"is the cheapest choice on {count_of(workers_examined, 'worker')}"
    return f"{_MODE_REASONS[mode]}: {who}, losing {lost:.0f} s of work, {cheapest}"
