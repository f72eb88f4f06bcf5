"""What a folder tells those who listen: the events of its schedules, by their public names (FLD-7).

    execution:start      a run of a schedule has begun
    execution:complete   it has succeeded
    execution:error      a try of it failed; `will_retry` says whether there is another
    schedule:changed     a schedule was added, updated or removed
    scheduler:status     starting, running, stopping, stopped
    file:broken          a pipeline file can't be used; what it said before goes on
    file:fixed           it can again
    warning              something that a person may want to know

1. Each is told once, and only when what it says is durable on the server and, if it is about a run, in the state file.
2. Of one run `execution:start` comes first, and at most one of `execution:complete` and a last `execution:error` last.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec


class FolderEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something happened."""

    event: ClassVar[str] = ""
    """Its public name."""


class PipelineExecutionResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of a run."""

    run_id: str
    success: bool
    state: str
    """As the server says it: `SUCCEEDED`, `FAILED`, .."""
    outputs: dict[str, object] = {}
    """By the names of tasks; a list for a task that there is one of for each item."""
    items_processed: int | None = None
    result_file: str | None = None
    """Below the pipeline's directory."""
    error: str | None = None
    duration: int = 0
    """In milliseconds."""


class ExecutionStart(FolderEvent, frozen=True, kw_only=True):
    """A run has begun."""

    event: ClassVar[str] = "execution:start"
    schedule_id: str
    pipeline_id: str
    run_id: str


class ExecutionComplete(FolderEvent, frozen=True, kw_only=True):
    """A run has succeeded."""

    event: ClassVar[str] = "execution:complete"
    schedule_id: str
    pipeline_id: str
    run_id: str
    result: PipelineExecutionResult
    duration: int
    """In milliseconds."""


class ExecutionError(FolderEvent, frozen=True, kw_only=True):
    """A try of a run failed, or the run as a whole."""

    event: ClassVar[str] = "execution:error"
    schedule_id: str
    pipeline_id: str
    run_id: str
    error: str
    will_retry: bool
    retry_attempt: int = 0
    """Which try it was that failed, from 1; how often it was tried again, if it will not be any more."""


class ScheduleChanged(FolderEvent, frozen=True, kw_only=True):
    """A schedule of the folder is there, is another, or is gone."""

    event: ClassVar[str] = "schedule:changed"
    schedule_id: str
    pipeline_id: str
    change: Literal["added", "updated", "removed"]


class SchedulerStatus(FolderEvent, frozen=True, kw_only=True):
    """What the scheduler as a whole does."""

    event: ClassVar[str] = "scheduler:status"
    status: Literal["starting", "running", "stopping", "stopped"]


class FileBroken(FolderEvent, frozen=True, kw_only=True):
    """A pipeline file can't be used."""

    event: ClassVar[str] = "file:broken"
    file: str
    """Below the folder."""
    flaws: str
    """Each with `file:line:column`."""
    keeps_running: bool
    """What it said before is still in use."""


class FileFixed(FolderEvent, frozen=True, kw_only=True):
    """A pipeline file that could not be used is in use."""

    event: ClassVar[str] = "file:fixed"
    file: str


class Warned(FolderEvent, frozen=True, kw_only=True):
    """Something that a person may want to know."""

    event: ClassVar[str] = "warning"
    message: str


EVENTS: tuple[str, ...] = tuple(
    kind.event
    for kind in (
        ExecutionStart, ExecutionComplete, ExecutionError, ScheduleChanged, SchedulerStatus, FileBroken, FileFixed,
        Warned,
    )
)  # fmt: skip
