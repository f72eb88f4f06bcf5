"""Public view of a folder's schedules (FLD-7)."""

from __future__ import annotations

import msgspec

from mainspring.core.schedules.schedule_spec import Missed
from mainspring.core.schedules.triggers import CronTrigger
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.folder.state.records import ScheduleState


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Retry policy of a run."""

    max_retries: int = 3
    retry_delay_ms: int = 60_000


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How late a run may start."""

    max_delay_minutes: float | None = None


class ScheduleConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The `schedule` of a pipeline file, with defaults filled in."""

    cron: str | None = None
    """None for another kind of trigger."""
    timezone: str | None = None
    enabled: bool = True
    retry_policy: RetrySettings = RetrySettings()
    missed_execution: str = "run"
    window: WindowSettings = WindowSettings()


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A scheduled pipeline."""

    schedule_id: str
    pipeline_id: str
    pipeline_name: str
    pipeline_directory: str
    config: ScheduleConfig
    state: ScheduleState
    trigger: str = ""
    """Description of the trigger."""
    next_run_in: int | None = None
    """In milliseconds."""


class _TaskRetries(msgspec.Struct, frozen=True):
    max_attempts: int = 3
    retry_delay_seconds: float | None = None


class _Job(msgspec.Struct, frozen=True):
    tasks: tuple[_TaskRetries, ...] = ()


_JOB = msgspec.json.Decoder(_Job)


def config_of(pipeline: Pipeline) -> ScheduleConfig:
    """Return the schedule configuration of a pipeline file."""
    if not pipeline.schedules:
        return ScheduleConfig(enabled=False)
    spec = pipeline.schedules[0]
    retries = next(iter(_JOB.decode(pipeline.job).tasks), _TaskRetries())
    trigger = spec.trigger if isinstance(spec.trigger, CronTrigger) else None
    delay = retries.retry_delay_seconds
    return ScheduleConfig(
        cron=None if trigger is None else trigger.cron,
        timezone=None if trigger is None else trigger.timezone,
        enabled=spec.enabled,
        retry_policy=RetrySettings(
            max_retries=retries.max_attempts, retry_delay_ms=60_000 if delay is None else round(delay * 1_000)
        ),
        missed_execution="skip" if spec.missed is Missed.SKIP else "run",
        window=WindowSettings(
            max_delay_minutes=None if spec.max_delay_seconds is None else spec.max_delay_seconds / 60
        ),
    )
