"""Console lines for transitions and results of scenes. Pure: everything comes from the server's answers.

    line_for_change      line for a task transition, if it is notable
    line_for_measure     line for the result of a scene

Lines carry hints with commands that show more; tests/demo/test_messages.py checks that these commands exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

import msgspec

from mainspring.core.text.durations import format_seconds
from mainspring.demo import measures
from mainspring.demo.measures import Measure, subject_of
from mainspring.protocol.rest.runs import AttemptView, RunView, TaskView, TransitionView

YOUR_TURN: Sequence[tuple[str, str]] = (
    ("ms top", "live overview of running and waiting work"),
    ("ms events send orders.ready", "trigger the waiting pipeline again"),
    ("ms dead-letters", "tasks that failed permanently, and why"),
    ("ms retry --filter 'job:invoices'", "retry only what failed"),
    ("ms workers", "workers, including the lost one"),
    ("ms next", "upcoming schedules"),
    ("ms init my-pipelines && ms up my-pipelines", "create and run your own"),
)
"""Commands to try in another terminal."""
_MAX_REASON_CHARS = 60


class LineCode(StrEnum):
    """What a line reports."""

    FAN_OUT = "fan_out"
    RETRY = "retry"
    FAILED = "failed"
    RECOVERED = "recovered"
    """A task succeeded after failed attempts."""
    HEARTBEAT = "heartbeat"
    RUN_ENDED = "run_ended_message"
    WAITING_FOR_EVENT = "waiting_for_event"
    EVENT_RECEIVED = "event_received"
    UNPLACEABLE = "unplaceable"
    FAIR_SHARE = "fair_share"
    DEAD_LETTER = "dead_letter"
    ALERT = "alert"
    WORKER_KILLED = "worker_killed"
    WORKER_LOST = "worker_lost"
    STORM = "storm"
    SCENE_FAILED = "scene_failed"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A console line, with the facts that it states."""

    glyph: str
    subject: str
    code: LineCode
    text: str
    hint: str = ""
    """A command that shows more."""
    task: str = ""
    """Label or name of the task."""
    attempt: int = 0
    count: int = 0
    """Tasks of a fan-out."""
    error: str = ""
    """Last output line or message of the attempt."""


class _AttemptError(msgspec.Struct, frozen=True):
    message: str = ""
    last_lines: str = ""


def is_notable(change: TransitionView) -> bool:
    """Whether `line_for_change` may report a transition: only then the task is fetched."""
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


def line_for_change(
    change: TransitionView, run: RunView, task: TaskView, attempts: Sequence[AttemptView]
) -> Line | None:
    """Return the line for a transition, or None: most are not notable.

    `task` may be newer than the transition.
    """
    who, subject = task.label or task.name, subject_of(run)
    match change.end:
        case "RUNNING" if (task.total or 0) > 1:
            text = f"{task.total} × {task.name} in parallel"
            return Line(
                glyph="▶", subject=subject, code=LineCode.FAN_OUT, task=task.name, count=task.total or 0, text=text,
                hint=f"ms watch {short(run.id)}",
            )  # fmt: skip
        case "PENDING":
            error = _error(change, attempts)
            return Line(
                glyph="↻", subject=subject, code=LineCode.RETRY, task=who, attempt=change.attempt,
                error=_last_line(error.last_lines or error.message),
                text=f"{who}: {change.because}{_suffix(error)}",
                hint=f"ms logs {_task_reference(run, task)} --attempt {change.attempt}",
            )  # fmt: skip
        case "FAILED" | "TIMED_OUT":
            error = _error(change, attempts)
            return Line(
                glyph="✕", subject=subject, code=LineCode.FAILED, task=who, attempt=change.attempt,
                error=_last_line(error.last_lines or error.message),
                text=f"{who} {change.end}: {change.because}{_suffix(error)}",
            )  # fmt: skip
        case "SUCCEEDED" if task.tries > 1:
            return Line(
                glyph="✓", subject=subject, code=LineCode.RECOVERED, task=who, attempt=change.attempt,
                text=f"{who} succeeded on attempt {change.attempt}",
            )  # fmt: skip
        case _:
            return None


def line_for_measure(measure: Measure) -> Line | None:
    """Return the line for the result of a scene, or None if transitions already cover it."""
    match measure:
        case measures.Beats():
            late = _format_delay(measure.late_seconds)
            text = f"{measure.windows} windows, {measure.runs} runs, the latest started {late} late"
            return _measured(LineCode.HEARTBEAT, "◷", "heartbeat", text, "ms schedules fires heartbeat")
        case measures.Forecast():
            text = f"{measure.state}: {measure.tasks} cities"
            return _measured(LineCode.RUN_ENDED, "✓", "weather", text, f"ms graph {short(measure.run_id)}")
        case measures.Waiting():
            text = f"waiting ({measure.trigger}), {measure.runs} runs so far"
            return _measured(LineCode.WAITING_FOR_EVENT, "…", measure.schedule, text, f"ms events send {measure.event}")
        case measures.Arrived():
            sender = "you" if measure.by_hand else "the demo"
            text = f"{measure.event} received from {sender}: {measure.state}"
            return _measured(LineCode.EVENT_RECEIVED, "✓", measure.schedule, text, f"ms events --type {measure.event}")
        case measures.Unplaceable():
            text = f"{measure.state}: {measure.offering} of {measure.workers} workers have {measure.wanted}"
            return _measured(LineCode.UNPLACEABLE, "≡", "media/thumbs", text, f"ms show {short(measure.run_id)}")
        case measures.Share():
            text = (
                f"{measure.busy_tasks} tasks; {measure.modest}'s {measure.modest_tasks} tasks were submitted later "
                f"and started before {measure.overtaken} of them"
            )
            return _measured(LineCode.FAIR_SHARE, "▲", measure.busy, text, "ms tenants")
        case measures.DeadLetter():
            text = (
                f"{measure.dead_letters} dead letter after {measure.attempts} attempt: permanent failure, not retried"
            )
            return _measured(LineCode.DEAD_LETTER, "✕", "invoices", text, "ms dead-letters")
        case measures.Stalled():
            return _measured(LineCode.ALERT, "!", "media/thumb", f"alert: {measure.alert}", "ms alerts --all")
        case measures.Killed():
            text = f"killed (SIGKILL) with {measure.running} running tasks"
            return _measured(LineCode.WORKER_KILLED, "⚡", measure.worker, text, "ms workers")
        case measures.Moved():
            took = format_seconds(measure.seconds)
            moved = f"{measure.moved} tasks moved in {took}, {measure.lost} lost, {measure.twice} run twice"
            text = f"{measure.status}; {moved}"
            return _measured(LineCode.WORKER_LOST, "⚡", measure.worker, text, f"ms show {measure.worker}")
        case measures.Storm():
            late = _format_delay(measure.p95_seconds)
            text = f"{measure.schedules} schedules in one second; p95 start +{late}"
            return _measured(LineCode.STORM, "◷", "storm", text, "ms runs --filter job:storm")
        case measures.Census():
            return None
        case _:
            assert_never(measure)


def format_census(census: measures.Census) -> str:
    """Format the totals on one line."""
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


def format_clock(seconds: float) -> str:
    """Format the time since the start: `01:10`."""
    whole = max(0, int(seconds))
    return f"{whole // 60:02d}:{whole % 60:02d}"


def short(run_id: str) -> str:
    """Return a prefix of a run id that commands accept."""
    return run_id.partition("-")[0]


def _task_reference(run: RunView, task: TaskView) -> str:
    """Return a task reference for commands."""
    return f"'{short(run.id)}/{task.name}[{task.label}]'" if task.label else f"{short(run.id)}/{task.name}"


def _measured(code: LineCode, glyph: str, subject: str, text: str, hint: str) -> Line:
    return Line(glyph=glyph, subject=subject, code=code, text=text, hint=hint)


def _format_delay(seconds: float) -> str:
    """Format a short duration."""
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else format_seconds(seconds)


def _error(change: TransitionView, attempts: Sequence[AttemptView]) -> _AttemptError:
    """Return the error of the attempt that a transition is about."""
    error = next((attempt.error for attempt in attempts if attempt.number == change.attempt), msgspec.Raw(b"null"))
    try:
        return msgspec.json.decode(error, type=_AttemptError | None) or _AttemptError()
    except msgspec.ValidationError:
        return _AttemptError()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:_MAX_REASON_CHARS] if lines else ""


def _suffix(error: _AttemptError) -> str:
    """Return the last output line in parentheses. The reason of the transition already contains the message."""
    line = _last_line(error.last_lines)
    return f" ({line})" if line else ""
