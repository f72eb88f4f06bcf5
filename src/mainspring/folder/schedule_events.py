"""Events that a folder emits to listeners, by their public names (FLD-7).

    execution:start      a run of a schedule started
    execution:complete   the run succeeded
    execution:error      an attempt failed; `will_retry` says whether it is retried
    schedule:changed     a schedule was added, updated or removed
    scheduler:status     starting, running, stopping, stopped
    file:broken          a pipeline file is invalid; its last valid version stays in use
    file:fixed           the file is valid again
    warning              a condition that needs attention

1. Each event is emitted once, after its content is durable on the server and, for a run, in the state file.
2. For one run, `execution:start` is first, and either `execution:complete` or a final `execution:error` is last.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec


class FolderEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all events."""

    event: ClassVar[str] = ""
    """Its public name."""


class PipelineExecutionResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a run."""

    run_id: str
    success: bool
    state: str
    """The run's state: `SUCCEEDED`, `FAILED`, .."""
    outputs: dict[str, object] = {}
    """By task name; a list for a fan-out."""
    items_processed: int | None = None
    result_file: str | None = None
    """Relative to the pipeline's directory."""
    error: str | None = None
    duration: int = 0
    """In milliseconds."""


class ExecutionEvent(FolderEvent, frozen=True, kw_only=True):
    """Base of the events of runs."""

    schedule_id: str
    pipeline_id: str
    run_id: str


class ExecutionStart(ExecutionEvent, frozen=True, kw_only=True):
    """A run started."""

    event: ClassVar[str] = "execution:start"


class ExecutionComplete(ExecutionEvent, frozen=True, kw_only=True):
    """A run succeeded."""

    event: ClassVar[str] = "execution:complete"
    result: PipelineExecutionResult
    duration: int
    """In milliseconds."""


class ExecutionError(ExecutionEvent, frozen=True, kw_only=True):
    """An attempt of a run failed, or the run failed."""

    event: ClassVar[str] = "execution:error"
    error: str
    will_retry: bool
    retry_attempt: int = 0
    """Number of the failed attempt, from 1; the number of retries if `will_retry` is false."""


class ScheduleChanged(FolderEvent, frozen=True, kw_only=True):
    """A schedule of the folder was added, updated or removed."""

    event: ClassVar[str] = "schedule:changed"
    schedule_id: str
    pipeline_id: str
    change: Literal["added", "updated", "removed"]


class SchedulerStatus(FolderEvent, frozen=True, kw_only=True):
    """The scheduler changed its status."""

    event: ClassVar[str] = "scheduler:status"
    status: Literal["starting", "running", "stopping", "stopped"]


class FileBroken(FolderEvent, frozen=True, kw_only=True):
    """A pipeline file is invalid."""

    event: ClassVar[str] = "file:broken"
    file: str
    """Relative to the folder."""
    errors: str
    """Each with `file:line:column`."""
    keeps_running: bool
    """The last valid version stays in use."""


class FileFixed(FolderEvent, frozen=True, kw_only=True):
    """A pipeline file that was invalid is in use."""

    event: ClassVar[str] = "file:fixed"
    file: str


class WarningRaised(FolderEvent, frozen=True, kw_only=True):
    """A condition that needs attention."""

    event: ClassVar[str] = "warning"
    message: str


EVENTS = tuple(kind.event for kind in (*ExecutionEvent.__subclasses__(), *FolderEvent.__subclasses__()) if kind.event)
