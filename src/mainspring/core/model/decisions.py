"""Decision log: scheduling decisions and their reasons (PLC-8).

    placed     a task was assigned to a worker; sampled by `decisions_kept_of_1000`
    preempts   tasks are preempted to make capacity; always logged
    no_room    no worker can take the oldest task of a shape; at most once in 10 seconds per shape

A batch contains the decisions that it executes, so a decision is logged exactly if it was executed. Sampling of
placements is derived from the lease id, so it is deterministic per seed.

To add a kind: its sentence here, its entry in `shard/decision_log.py`, the check in `tests/sim`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.core.placement.feasibility import Hindrance
from mainspring.core.placement.preemption_policy import Mode
from mainspring.core.placement.task_shapes import Shape

MOST_IN_A_BATCH = 1_000
MOST_NAMED = 20
"""Preempted tasks listed per decision; all are counted."""
_OF = 1_000
_RIGHTS = {
    Mode.TAKE_OVER: "takes over capacity reserved for less urgent tasks",
    Mode.PREEMPT: "P0 preempts P1 and P2",
    Mode.RECLAIM: "within its tenant's guarantee; reclaims burst capacity of others",
    Mode.DEFRAGMENT: "fits the pool but no single worker; P2 is moved",
}
_LACKS = {
    Hindrance.NOT_READY: "not ready",
    Hindrance.HELD: "cordoned, draining or leaving",
    Hindrance.UNCLAIMED: "without an open claim",
    Hindrance.LABEL: "without a required label",
    Hindrance.ZONE: "in another zone",
    Hindrance.OUTSIDE: "outside the pool's zones",
    Hindrance.TOO_BIG: "too small even when idle",
    Hindrance.NO_ROOM: "with too little free capacity",
    Hindrance.KEPT: "with capacity reserved for others",
    Hindrance.NEAR: "excluded by affinity",
    Hindrance.APART: "excluded by anti-affinity",
    Hindrance.REFUSED: "that refused this kind of task",
}
"""Text per obstacle, in order of precedence."""
_ORDER = list(_LACKS)


class DecisionKind(StrEnum):
    """Kind of decision."""

    PLACED = "placed"
    PREEMPTS = "preempts"
    NO_ROOM = "no_room"


class PushedOut(msgspec.Struct, frozen=True, gc=False, kw_only=True):
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
    victims: tuple[PushedOut, ...] = ()
    """The first `MOST_NAMED` preempted tasks."""
    victim_count: int = 0
    why: str
    """Names neither tenants nor tasks of others."""
    version: str
    """Version of the scheduler."""


def is_kept(room_id: str, kept_of_1000: int) -> bool:
    """Return whether the placement of a lease is sampled, by the random bits at the end of its id."""
    return int(room_id[-8:], 16) % _OF < kept_of_1000


def why_placed(*, was_kept: bool, workers_examined: int | None, fleet: int, together: int) -> str:
    """Return why a task was placed on its worker; `together` is the number of tasks that share the lease."""
    if was_kept:
        why = "the capacity reserved for it is free"
    elif workers_examined is None:
        why = f"the best of the examined workers, of {_workers(fleet)}"
    else:
        why = f"the best of {_workers(workers_examined)}"
    return f"{why}; {together} tasks share the lease" if together > 1 else why


def why_room_is_made(mode: Mode, victims: Sequence[PushedOut], workers_examined: int) -> str:
    """Return why preemption is allowed, and why these tasks were chosen."""
    count = Counter(victim.priority.name for victim in victims)
    who = " and ".join(f"{number} of {name}" for name, number in sorted(count.items(), reverse=True))
    lost = sum(victim.lost_seconds for victim in victims)
    return (
        f"{_RIGHTS[mode]}: {who}, losing {lost:.0f} s of work, is the cheapest choice on {_workers(workers_examined)}"
    )


def why_no_room(shape: Shape, obstacles: Iterable[Sequence[Hindrance]], fleet: int) -> str:
    """Return why no worker can take a shape. `obstacles` are those of each worker that was examined again."""
    first = Counter(min(kinds, key=_ORDER.index) for kinds in obstacles if kinds)
    parts = [f"{first[kind]} {_LACKS[kind]}" for kind in _ORDER if kind in first]
    why = f"of {_workers(fleet)} {', '.join(parts) or 'none is eligible'}" if fleet else "the pool has no workers"
    return f"no worker has capacity for {shape}: {why}"


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"
