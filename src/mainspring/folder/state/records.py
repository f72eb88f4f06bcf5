"""The files beside pipelines, as they are written: `.schedule-state.json` and `.scheduler.lock` (FLD-3, FLD-4).

The names in the files are those of the format (`scheduleId`); here they are ours (`schedule_id`).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

STATE_FILE = ".schedule-state.json"
ARCHIVE_FILE = ".schedule-state.archive.json"
"""Where the state goes when a pipeline loses its schedule, and where it comes back from."""
LOCK_FILE = ".scheduler.lock"
PIPELINE_FILE = "pipeline.yaml"
RESULTS = ".results"
OWN_DIRECTORY = ".mainspring"
ADDRESS_FILE = "server.json"
"""In there: where the scheduler that runs the folder answers."""
VERSION = 1

Instant: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Record(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    pass


class ScheduleStatus(StrEnum):
    """What a schedule does at the moment."""

    IDLE = "idle"
    """It waits for its next run."""
    RUNNING = "running"
    PAUSED = "paused"
    """By a person; also while a run of it is still under way."""
    ERROR = "error"
    """Its last run failed; it waits for the retry, or for the next run."""
    DISABLED = "disabled"
    """By its file, or because it failed too often."""


class RunRecord(_Record, kw_only=True, frozen=True):
    """One run."""

    started_at: Instant
    completed_at: Instant | None
    """None while it is not over."""
    success: bool
    duration: int | msgspec.UnsetType | None = msgspec.UNSET
    """In milliseconds."""
    result_file: str | msgspec.UnsetType | None = msgspec.UNSET
    """Below the pipeline's directory."""
    items_processed: int | msgspec.UnsetType | None = msgspec.UNSET
    error: str | msgspec.UnsetType | None = msgspec.UNSET
    retry_attempt: int | msgspec.UnsetType = msgspec.UNSET
    """How often it was tried again."""


class ScheduleStats(_Record, kw_only=True, frozen=True):
    """All runs so far."""

    total_runs: Count = 0
    successful_runs: Count = 0
    failed_runs: Count = 0
    last_failure: Instant | None = None
    average_duration: float | msgspec.UnsetType | None = msgspec.UNSET
    """In milliseconds."""


class ScheduleState(_Record, kw_only=True, frozen=True):
    """The content of `.schedule-state.json`."""

    version: int = VERSION
    schedule_id: str
    pipeline_id: str
    status: ScheduleStatus = ScheduleStatus.IDLE
    enabled: bool = True
    last_run: RunRecord | None = None
    next_run: Instant | None = None
    stats: ScheduleStats = ScheduleStats()
    history: tuple[RunRecord, ...] = ()
    """The latest runs, the newest first."""


class LockRecord(_Record, kw_only=True, frozen=True):
    """The content of `.scheduler.lock`."""

    pid: int
    hostname: str
    started_at: Instant
    heartbeat: Instant
