"""What becomes of a task whose attempt ended without a success: again, or not (RTY-5, and the place of RTY-1 to RTY-4).

    failed ──────┬─ tries left ─► PENDING until the delay has passed
                 └─ none left ──► FAILED
    timed out ───┬─ tries left ─► PENDING until the delay has passed
                 └─ none left ──► TIMED_OUT
    lost ────────┬─ under 3 ────► QUEUED: the worker's end is not the task's fault, and no try
                 └─ the third ──► FAILED (infrastructure)

For now every failure is alike, and a task is tried again a fixed number of times after a fixed delay. Classes of
errors, backoff and budgets go into `decide_failure`: it alone says what follows.

1. Attempts used up is asked first: nothing brings a task back that has no try left.
2. Every generation ends: tries are bounded by `max_attempts`, losses by LOSSES_ALLOWED.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, assert_never

import msgspec

from mainspring.core.jobs import TaskSpec
from mainspring.core.tasks import AttemptEnd, Task, TaskState

LOSSES_ALLOWED = 2
"""So many attempts of a generation may be lost with their worker; with one more the task fails (RTY-5)."""

Failure = Literal[AttemptEnd.FAILED, AttemptEnd.TIMED_OUT, AttemptEnd.LOST]


class NextStep(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Where the task goes: PENDING until `due_at`, QUEUED, FAILED or TIMED_OUT."""

    state: TaskState
    because: str
    due_at: datetime | None = None
    """Set if the state is PENDING, and only then."""


def decide_failure(task: Task, spec: TaskSpec, end: Failure, *, now: datetime) -> NextStep:
    """What follows the attempt that just ended, which `task.tries` or, if it was lost, `task.losses` counts already."""
    match end:
        case AttemptEnd.FAILED:
            return _again_or(TaskState.FAILED, "failed", task, spec, now)
        case AttemptEnd.TIMED_OUT:
            return _again_or(TaskState.TIMED_OUT, f"took longer than {spec.timeout_seconds:g} s", task, spec, now)
        case AttemptEnd.LOST:
            return _after_loss(task)
        case _:
            assert_never(end)


def _again_or(otherwise: TaskState, what: str, task: Task, spec: TaskSpec, now: datetime) -> NextStep:
    if task.tries >= spec.max_attempts:
        tries = "its only try" if spec.max_attempts == 1 else f"try {task.tries} of {spec.max_attempts}"
        return NextStep(state=otherwise, because=f"{tries} {what}")
    delay = spec.retry_delay_seconds
    return NextStep(
        state=TaskState.PENDING,
        because=f"try {task.tries} of {spec.max_attempts} {what}; the next one in {delay:g} s",
        due_at=now + timedelta(seconds=delay),
    )


def _after_loss(task: Task) -> NextStep:
    if task.losses > LOSSES_ALLOWED:
        return NextStep(state=TaskState.FAILED, because=f"infrastructure: its worker was lost {task.losses} times")
    times = "once" if task.losses == 1 else f"{task.losses} times"
    return NextStep(
        state=TaskState.QUEUED, because=f"its worker was lost ({times}, {LOSSES_ALLOWED} are allowed): queued again"
    )
