"""What the scheduler decided and why, kept for people (PLC-8).

    placed     a worker was given a task; so many of 1,000 as `decisions_kept_of_1000` says
    preempts   others are asked to go so that a task fits; every time
    no_room    no worker will do for the oldest task of a shape; at most once in 10 seconds for each shape

A batch has the decisions that it carries out, so that a decision is in the log exactly if it was carried out. What is
kept of placements follows from the id of the room: no generator is asked, and the same seed decides the same.

If you add a kind: the sentence of it here, its place in `shard/decision_log.py`, the check in `tests/sim`.
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
"""Of those that make room so many are named, all are counted."""
_OF = 1_000
_RIGHTS = {
    Mode.TAKE_OVER: "it takes room over that was kept for less important ones",
    Mode.PREEMPT: "a P0 takes from what is less important",
    Mode.RECLAIM: "it is within its tenant's guarantee, and takes back what others have on burst",
    Mode.DEFRAGMENT: "it fits the pool but no single worker, so P2 moves elsewhere",
}
_LACKS = {
    Hindrance.NOT_READY: "not ready",
    Hindrance.HELD: "cordoned, draining or leaving",
    Hindrance.UNCLAIMED: "without an open claim",
    Hindrance.LABEL: "without a label that it needs",
    Hindrance.ZONE: "in another zone",
    Hindrance.OUTSIDE: "outside the pool's zones",
    Hindrance.TOO_BIG: "too small even if empty",
    Hindrance.NO_ROOM: "with too little left",
    Hindrance.KEPT: "with room that is kept for others",
    Hindrance.NEAR: "not where it must be near to",
    Hindrance.APART: "where it must not be",
    Hindrance.REFUSED: "that refused such a task",
}
"""What to say of a worker, in the order in which one reason goes before another."""
_ORDER = list(_LACKS)


class DecisionKind(StrEnum):
    """What was decided."""

    PLACED = "placed"
    PREEMPTS = "preempts"
    NO_ROOM = "no_room"


class PushedOut(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A task that was asked to make room."""

    task_id: str
    tenant: str
    priority: Priority
    lost_seconds: float
    """Work that has to be done again."""


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
    """The task's."""
    attempt: int
    """The number of the attempt that was placed, or of the one before."""
    priority: Priority
    request: Shape
    """What it asked for."""
    worker_id: str | None = None
    """None: there was none."""
    free: Resources | None = None
    """What was free on that worker for this task, before the decision."""
    score: float | None = None
    """How good the worker was for it (`core/placement/feasibility.py`)."""
    looked_at: int | None = None
    """How many workers were looked at; None if that is not known."""
    victims: tuple[PushedOut, ...] = ()
    """Who was asked to make room, the first `MOST_NAMED` of them."""
    victim_count: int = 0
    why: str
    """For people; names neither tenants nor tasks of others."""
    version: str
    """Of the scheduler."""


def is_kept(room_id: str, kept_of_1000: int) -> bool:
    """Whether the placing of what shares a room is kept, by the random bits at the end of the room's id."""
    return int(room_id[-8:], 16) % _OF < kept_of_1000


def why_placed(*, was_kept: bool, looked_at: int | None, fleet: int, together: int) -> str:
    """Why a task was given its worker; `together` is how many share the room."""
    if was_kept:
        why = "the room that was kept for it there is free by now"
    elif looked_at is None:
        why = f"the best of those that were looked at, of {_workers(fleet)}"
    else:
        why = f"the best of {_workers(looked_at)}"
    return f"{why}; {together} share the room" if together > 1 else why


def why_room_is_made(mode: Mode, victims: Sequence[PushedOut], looked_at: int) -> str:
    """By what right others are asked to go, and why these."""
    count = Counter(victim.priority.name for victim in victims)
    who = " and ".join(f"{number} of {name}" for name, number in sorted(count.items(), reverse=True))
    lost = sum(victim.lost_seconds for victim in victims)
    return (
        f"{_RIGHTS[mode]}: {who}, with {lost:.0f} s of work lost, are the cheapest on {_workers(looked_at)} looked at"
    )


def why_no_room(shape: Shape, obstacles: Iterable[Sequence[Hindrance]], fleet: int) -> str:
    """Why no worker will do. `obstacles` are those of each worker that was looked at again, if any was."""
    first = Counter(min(kinds, key=_ORDER.index) for kinds in obstacles if kinds)
    parts = [f"{first[kind]} {_LACKS[kind]}" for kind in _ORDER if kind in first]
    why = f"of {_workers(fleet)} {', '.join(parts) or 'none will do'}" if fleet else "there is none"
    return f"no worker has room for {shape}: {why}"


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"
