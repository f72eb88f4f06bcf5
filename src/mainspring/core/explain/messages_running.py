"""Messages of diagnoses of tasks that are not queued: pending, on a worker, and quarantined.

As in `core/explain/messages.py`, a verdict names no other tenant's work.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.explain.diagnosis_report import format_clock, format_relative
from mainspring.core.explain.messages import count_of, list_some
from mainspring.core.text.durations import format_seconds

# before the queue


def waiting_for_upstream(waits: int, total: int, names: Sequence[str]) -> str:
    """Upstream tasks have not finished."""
    of = f" of {total:,}" if total > waits else ""
    return f"Waiting for {waits:,}{of} upstream task{'' if total == 1 else 's'}: {list_some(names, waits)}"


def about_to_be_ready() -> str:
    """All upstream tasks have ended, and readiness has not been decided yet."""
    return "All its upstream tasks have ended; it becomes ready as its run is processed"


def never_ready(because: str, ended_at: datetime | None, now: datetime) -> str:
    """An upstream task has not succeeded."""
    when = "" if ended_at is None else f" at {format_clock(ended_at, now)}"
    return f"Will never start: {because}{when}; retry that task to continue"


def waiting_until(due_at: datetime, because: str, now: datetime) -> str:
    """It is not due."""
    why = f" ({because})" if because else ""
    return f"Due at {format_clock(due_at, now)} ({format_relative(due_at, now)}){why}"


def waiting_for_retry(tries: int, most: int, failure: str, due_at: datetime, now: datetime) -> str:
    """It failed, and will be retried."""
    of = f" of {most}" if most > tries else ""
    return f"Attempt {tries} failed ({failure}); attempt {tries + 1}{of} {format_relative(due_at, now)}"


# quarantined


def quarantined(failure: str, workers: Sequence[str], *, lost: bool) -> str:
    """It is held until a person clears it."""
    how = "Lost with" if lost else "Failed the same way on"
    where = f"{how} {count_of(len(workers), 'worker')}" if workers else "Quarantined"
    return f"{where} ({failure}); held until it is cleared"


# on a worker


def starting(worker: str, seconds: float) -> str:
    """It was assigned a moment ago."""
    return f"Assigned to {worker} {format_seconds(seconds)} ago; its process is starting"


def starting_slowly(worker: str, seconds: float, *, received: bool, limit_seconds: float) -> str:
    """A worker has it and does not start it."""
    if received:
        return f"Assigned to {worker} {format_seconds(seconds)} ago and received, but not started"
    return (
        f"Assigned to {worker} {format_seconds(seconds)} ago, not acknowledged; "
        f"it is requeued after {format_seconds(limit_seconds)}"
    )


def behind_in_group(worker: str, before: int) -> str:
    """It shares a lease with tasks that run first."""
    return f"Assigned to {worker}, behind {count_of(before, 'task')} of the same lease"


def worker_is_silent(worker: str, seconds: float, lost_in_seconds: float, again: str) -> str:
    """Its worker has missed heartbeats."""
    return (
        f"No heartbeat from {worker} for {format_seconds(seconds)}; "
        f"after another {format_seconds(lost_in_seconds)} it counts as lost, and the task {again}"
    )


def worker_gone(worker: str) -> str:
    """Its worker is not known any more."""
    return f"{worker or 'Its worker'} is gone; the task is about to be requeued"


def being_stopped(why: str, kill_at: datetime, now: datetime) -> str:
    """It is being stopped."""
    return f"Stopping ({why}); killed at {format_clock(kill_at, now)} unless it ends before"


def being_preempted(kill_at: datetime, now: datetime) -> str:
    """It is being preempted."""
    return f"Being preempted for another task; requeued by {format_clock(kill_at, now)}"


def runs(worker: str, seconds: float, usual: float | None, progress: str) -> str:
    """It runs as usual."""
    often = "" if usual is None else f", usually {format_seconds(usual)}"
    return f"Running on {worker} for {format_seconds(seconds)}{often}{progress}"


def runs_slowly(seconds: float, usual: float | None, progress: str) -> str:
    """It takes longer than usual."""
    often = "longer than expected" if usual is None else f"usually {format_seconds(usual)}"
    return f"Running {format_seconds(seconds)}, {often}{progress or '; no progress reported'}"


def stuck(seconds: float, highest: float | None, silent: float) -> str:
    """It makes no progress."""
    often = "" if highest is None else f", rarely more than {format_seconds(highest)}"
    return (
        f"Running {format_seconds(seconds)}{often}; no progress for {format_seconds(silent)} "
        f"while its worker responds: "
        "probably hung, not slow"
    )


def format_progress(percent: float | None, note: str) -> str:
    """Its progress, as the end of a sentence."""
    said = f"{percent:.0f} %" if percent is not None else note
    return f", still making progress ({said})" if said else ""


NOT_THE_QUEUE = "not the queue: it has a worker"
WORKER_ANSWERS = "its worker responds"
