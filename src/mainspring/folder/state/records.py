"""Format of the files beside pipelines: `.schedule-state.json` and `.scheduler.lock` (FLD-3, FLD-4).

Keys in the files are in camel case (`scheduleId`), attributes here in snake case (`schedule_id`).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

STATE_FILE = ".schedule-state.json"
ARCHIVE_FILE = ".schedule-state.archive.json"
"""Keeps the state while a pipeline has no schedule."""
LOCK_FILE = ".scheduler.lock"
PIPELINE_FILE = "pipeline.yaml"
RESULTS = ".results"
OWN_DIRECTORY = ".mainspring"
ADDRESS_FILE = "server.json"
"""In that directory: the address of the scheduler that runs the folder."""
VERSION = 1

Instant: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Record(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    pass


class ScheduleStatus(StrEnum):
    """Current status of a schedule."""

    IDLE = "idle"
    """Waiting for its next run."""
    RUNNING = "running"
    PAUSED = "paused"
    """Paused by a user, even while a run is still active."""
    ERROR = "error"
    """Its last run failed; waiting for the retry or the next run."""
    DISABLED = "disabled"
    """Disabled by its file or by too many failures."""


class RunRecord(_Record, kw_only=True, frozen=True):
    """One run."""

    started_at: Instant
    completed_at: Instant | None
    """None while it is unfinished."""
    success: bool
    duration: int | msgspec.UnsetType | None = msgspec.UNSET
    """In milliseconds."""
    result_file: str | msgspec.UnsetType | None = msgspec.UNSET
    """Relative to the pipeline's directory."""
    items_processed: int | msgspec.UnsetType | None = msgspec.UNSET
    error: str | msgspec.UnsetType | None = msgspec.UNSET
    retry_attempt: int | msgspec.UnsetType = msgspec.UNSET
    """Number of retries."""


class ScheduleStats(_Record, kw_only=True, frozen=True):
    """Totals of all runs."""

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
    """The latest runs, newest first."""


class LockRecord(_Record, kw_only=True, frozen=True):
    """The content of `.scheduler.lock`."""

    pid: int
    hostname: str
    started_at: Instant
    heartbeat: Instant
