"""The sentences of diagnoses about tasks that are not in a queue: before it, on a worker, and held for a person.

As in `core/explain/messages.py`, a verdict names nobody of another tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.explain.diagnosis_report import say_clock, say_in
from mainspring.core.explain.messages import say_count, some_of
from mainspring.core.text.durations import say_seconds

# before the queue


def waits_for_upstream(waits: int, total: int, names: Sequence[str]) -> str:
    """What it needs is not over."""
    of = f" of {total:,}" if total > waits else ""
    return f"Waiting for {waits:,}{of} upstream task{'' if total == 1 else 's'}: {some_of(names, waits)}"


def about_to_be_ready() -> str:
    """Nothing upstream is open, and it has not been decided yet."""
    return "Everything it needs is over: it becomes ready as its run is worked through"


def never_ready(because: str, ended_at: datetime | None, now: datetime) -> str:
    """What it needs has not succeeded."""
    when = "" if ended_at is None else f" at {say_clock(ended_at, now)}"
    return f"Will never start: {because}{when}; retry that to go on"


def waits_until(due_at: datetime, because: str, now: datetime) -> str:
    """It is not due."""
    why = f" ({because})" if because else ""
    return f"Due at {say_clock(due_at, now)} ({say_in(due_at, now)}){why}"


def waits_for_retry(tries: int, most: int, failure: str, due_at: datetime, now: datetime) -> str:
    """It failed, and is tried again."""
    of = f" of {most}" if most > tries else ""
    return f"Try {tries} failed ({failure}); try {tries + 1}{of} comes {say_in(due_at, now)}"


# held for a person


def quarantined(failure: str, workers: Sequence[str], *, lost: bool) -> str:
    """Nobody tries it again until a person has looked."""
    how = "Lost with" if lost else "Failed alike on"
    where = f"{how} {say_count(len(workers), 'worker')}" if workers else "Held"
    return f"{where} ({failure}); held until somebody clears it"


# on a worker


def starting(worker: str, seconds: float) -> str:
    """It was given to a worker a moment ago."""
    return f"Assigned to {worker} {say_seconds(seconds)} ago; its process is being started"


def starting_slowly(worker: str, seconds: float, *, received: bool, limit_seconds: float) -> str:
    """A worker has it and does not start it."""
    if received:
        return f"Assigned to {worker} {say_seconds(seconds)} ago, which has it and has not started it"
    return (
        f"Assigned to {worker} {say_seconds(seconds)} ago, not acknowledged; "
        f"it is taken back after {say_seconds(limit_seconds)}"
    )


def in_a_group(worker: str, before: int) -> str:
    """It shares a room with others that run first."""
    return f"Assigned to {worker}, and waits for {say_count(before, 'task')} of the same room that run before it"


def worker_is_silent(worker: str, seconds: float, lost_in_seconds: float, again: str) -> str:
    """Its worker is not heard of."""
    return (
        f"{worker} has not answered for {say_seconds(seconds)}; "
        f"in {say_seconds(lost_in_seconds)} it counts as lost, and the task {again}, unless it returns"
    )


def asked_to_stop(why: str, kill_at: datetime, now: datetime) -> str:
    """It was asked to stop."""
    return f"Is being stopped ({why}); killed at {say_clock(kill_at, now)} if it has not ended by then"


def asked_to_make_room(kill_at: datetime, now: datetime) -> str:
    """It was asked to make room."""
    return f"Was asked to make room for another task, and has until {say_clock(kill_at, now)}; it is queued again then"


def runs(worker: str, seconds: float, usual: float | None, progress: str) -> str:
    """It runs as usual."""
    often = "" if usual is None else f", usually {say_seconds(usual)}"
    return f"Running on {worker} for {say_seconds(seconds)}{often}{progress}"


def runs_slowly(seconds: float, usual: float | None, progress: str) -> str:
    """It takes longer than it usually does."""
    often = "longer than it should" if usual is None else f"usually {say_seconds(usual)}"
    return f"Running {say_seconds(seconds)}, {often}{progress or ', and does not say how far it is'}"


def stuck(seconds: float, highest: float | None, silent: float) -> str:
    """It gets nowhere."""
    often = "" if highest is None else f", hardly ever more than {say_seconds(highest)}"
    return (
        f"Running {say_seconds(seconds)}{often}; no progress for {say_seconds(silent)}, and its worker answers: "
        "probably hung, not slow"
    )


def say_progress(percent: float | None, note: str) -> str:
    """How far it is, for the end of a sentence."""
    said = f"{percent:.0f} %" if percent is not None else note
    return f", still making progress ({said})" if said else ""


NOT_THE_QUEUE = "not the queue: it has its worker"
WORKER_ANSWERS = "its worker answers"
