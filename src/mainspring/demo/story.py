"""From what happened to lines for people. Nothing is asked here, and nothing is known that the server did not say.

    tell       a change of a task's state, if it is worth a line
    sum_up     what became of a scene

A line names the commands of the program that show more. If you add one to a line, tests/demo/test_story.py looks
whether there is such a command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from mainspring.definitions.quantities import say_seconds
from mainspring.demo.measures import (
    Arrived,
    Beats,
    Census,
    DeadLetter,
    Forecast,
    Killed,
    Measure,
    Moved,
    Share,
    Stalled,
    Storm,
    Unplaceable,
    Waiting,
    subject_of,
)
from mainspring.protocol.rest.runs import AttemptView, RunView, TaskView, TransitionView

YOUR_TURN: Sequence[tuple[str, str]] = (
    ("ms top", "everything that runs and waits, in this terminal"),
    ("ms events send orders.ready", "release a waiting pipeline, again if you like"),
    ("ms dead-letters", "what failed for good, and why"),
    ("ms retry --filter 'job:invoices'", "run again only what failed"),
    ("ms workers", "who does the work, and who was lost"),
    ("ms next", "what fires when"),
    ("ms init my-pipelines && ms up my-pipelines", "your own"),
)
"""What somebody can type in another terminal."""
_LONGEST_REASON = 60


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell."""

    glyph: str
    subject: str
    text: str
    hint: str = ""
    """A command that shows more."""


def is_worth_a_look(change: TransitionView) -> bool:
    """Whether `tell` might make something of it: only then the task is asked for."""
    if change.attempt == 0:
        return False
    match change.end:
        case "RUNNING":
            return change.attempt == 1
        case "PENDING" | "FAILED" | "TIMED_OUT":
            return True
        case "SUCCEEDED":
            return change.attempt > 1
        case _:
            return False


def tell(change: TransitionView, run: RunView, task: TaskView, attempts: Sequence[AttemptView]) -> Line | None:
    """A line for a change, or none: most of what happens is as it should be.

    `task` may be further than the change is.
    """
    who, subject = task.label or task.name, subject_of(run)
    match change.end:
        case "RUNNING" if (task.total or 0) > 1:
            text = f"{task.total} × {task.name} side by side"
            return Line(glyph="▶", subject=subject, text=text, hint=f"ms watch {short(run.id)}")
        case "PENDING":
            reason = _reason(change, attempts)
            return Line(
                glyph="↻",
                subject=subject,
                text=f"{who}: {change.because}{reason}",
                hint=f"ms logs {_place(run, task)} --attempt {change.attempt}",
            )
        case "FAILED" | "TIMED_OUT":
            reason = _reason(change, attempts)
            return Line(glyph="✕", subject=subject, text=f"{who} {change.end}: {change.because}{reason}")
        case "SUCCEEDED" if task.tries > 1:
            return Line(glyph="✓", subject=subject, text=f"{who} succeeded on attempt {change.attempt}")
        case _:
            return None


def sum_up(measure: Measure) -> Line | None:
    """A line for what became of a scene; none if the changes have told it."""
    match measure:
        case Beats():
            late = _say_delay(measure.late_seconds)
            text = f"{measure.windows} windows, {measure.runs} runs, the latest {late} after its time"
            return Line(glyph="◷", subject="heartbeat", text=text, hint="ms schedules fires heartbeat")
        case Forecast():
            text = f"{measure.state}: {measure.tasks} cities"
            return Line(glyph="✓", subject="weather", text=text, hint=f"ms graph {short(measure.run_id)}")
        case Waiting():
            text = f"waits ({measure.trigger}), {measure.runs} runs so far"
            return Line(glyph="…", subject=measure.schedule, text=text, hint=f"ms events send {measure.event}")
        case Arrived():
            sender = "somebody" if measure.by_hand else "the demo"
            text = f"{measure.event} came, from {sender}: {measure.state}"
            return Line(glyph="✓", subject=measure.schedule, text=text, hint=f"ms events --type {measure.event}")
        case Unplaceable():
            offers = f"{measure.offering} offer" if measure.offering else "none offers"
            text = f"{measure.state}: of {measure.workers} workers {offers} {measure.wanted}"
            return Line(glyph="≡", subject="media/thumbs", text=text, hint=f"ms show {short(measure.run_id)}")
        case Share():
            return _say_share(measure)
        case DeadLetter():
            text = (
                f"{measure.dead_letters} dead letter after {measure.attempts} attempt: another would fail the same way"
            )
            return Line(glyph="✕", subject="invoices", text=text, hint="ms dead-letters")
        case Stalled():
            return Line(
                glyph="!", subject="media/thumb", text=f"told its owner: {measure.alert}", hint="ms alerts --all"
            )
        case Killed():
            text = f"killed (SIGKILL) with {measure.running} tasks in hands"
            return Line(glyph="⚡", subject=measure.worker, text=text, hint="ms workers")
        case Moved():
            text = f"{measure.status}; {_say_moved(measure)}"
            return Line(glyph="⚡", subject=measure.worker, text=text, hint=f"ms show {measure.worker}")
        case Storm():
            late = _say_delay(measure.p95_seconds)
            text = f"{measure.schedules} schedules in one second; p95 start +{late}"
            return Line(glyph="◷", subject="storm", text=text, hint="ms runs --filter job:storm")
        case Census():
            return None
        case _:
            assert_never(measure)


def say_census(census: Census) -> str:
    """Everything that there was, in one line."""
    parts = [
        f"{census.runs} runs",
        f"{census.succeeded} succeeded",
        f"{census.after_retries} of them after retries",
        f"{len(census.failed)} failed ({', '.join(sorted({*census.failed}))})",
        f"{census.cancelled} cancelled",
        f"{len(census.never_started)} never started ({', '.join(sorted({*census.never_started}))})",
        f"{census.unfinished} unfinished",
    ]
    return " · ".join(part for part in parts if not part.startswith("0 "))


def say_clock(seconds: float) -> str:
    """Minutes and seconds from the beginning: `01:10`."""
    whole = max(0, int(seconds))
    return f"{whole // 60:02d}:{whole % 60:02d}"


def short(run_id: str) -> str:
    """The beginning of an id, which is enough for commands."""
    return run_id.partition("-")[0]


def _place(run: RunView, task: TaskView) -> str:
    """A task, as commands take it."""
    return f"'{short(run.id)}/{task.name}[{task.label}]'" if task.label else f"{short(run.id)}/{task.name}"


def _say_share(measure: Share) -> Line:
    text = (
        f"{measure.busy_tasks} tasks; {measure.modest}'s {measure.modest_tasks} came later, "
        f"and started before {measure.overtaken} of them"
    )
    return Line(glyph="▲", subject=measure.busy, text=text, hint="ms tenants")


def _say_moved(measure: Moved) -> str:
    took = say_seconds(measure.seconds)
    return f"{measure.moved} tasks moved in {took}, {measure.lost} lost, {measure.twice} run twice"


def _say_delay(seconds: float) -> str:
    """A length that is short if all is well."""
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else say_seconds(seconds)


def _reason(change: TransitionView, attempts: Sequence[AttemptView]) -> str:
    """What the attempt said last, if the change does not say it already."""
    error = next((attempt.error for attempt in attempts if attempt.number == change.attempt), msgspec.Raw(b"null"))
    said = msgspec.json.decode(error)
    if not isinstance(said, dict):
        return ""
    lines = str(said.get("last_lines") or said.get("message") or "").strip().splitlines()
    last = lines[-1][:_LONGEST_REASON] if lines else ""
    return f" ({last})" if last and last.removeprefix("it ") not in change.because else ""
