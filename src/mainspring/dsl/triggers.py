"""Schedules in code, for `@job(schedule=..)`.

    every("15m", tz="Europe/Paris")              every quarter of an hour, counted from local midnight
    cron("30 5 * * 1-5", tz="Europe/Paris")      a cron expression in local time
    once("2026-12-01T05:00:00Z")                 one time
    on_event("orders.ready", filter="event.data.rows > 0")
    after(extract)                               at the windows of another job's schedule, after its run succeeded

Each also takes schedule options, as `@job` does: `max_active=1`, `overlap="skip"`, `missed="skip"`. The result is a
definition for `PUT /schedules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from mainspring.core.schedules.schedule_json import decode_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec, check_schedule
from mainspring.core.schedules.time_zones import EPOCH, find_zone, zone_fault
from mainspring.core.text.durations import parse_seconds
from mainspring.protocol.errors import Refused

if TYPE_CHECKING:
    from mainspring.dsl.job import Job


class ScheduleOptions(TypedDict, total=False):
    """Options of a schedule besides its trigger."""

    name: str
    """Default: the job's name."""
    params: Mapping[str, Any]
    """Parameters of each run, on top of the job's defaults."""
    max_active: int
    overlap: str
    """`queue`, `skip` or `cancel_running`, when `max_active` runs are active."""
    missed: str
    """`run` or `skip`."""
    catch_up: int
    """Maximum number of missed windows to run."""
    max_delay: str | float
    jitter: str | float
    max_failures: int | None
    """Consecutive failures that disable the schedule; None: never."""
    condition: str
    """An expression over `params` and `window`."""
    enabled: bool


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger with schedule options."""

    trigger: dict[str, Any]
    """As in a schedule's definition."""
    options: ScheduleOptions = {}
    timezone: str = "UTC"
    """Time zone for display."""
    after: dict[str, Any] | None = None

    def definition(
        self, job: str, *, params: Mapping[str, Any], priority: str, options: ScheduleOptions
    ) -> dict[str, Any]:
        """Return the schedule's definition. Raises Refused with all faults that can be detected locally."""
        given: dict[str, Any] = {**self.options, **options}
        given.pop("params", None)
        definition: dict[str, Any] = {
            "name": given.pop("name", job),
            "job": job,
            "trigger": self.trigger,
            "params": dict(params),
            "priority": priority,
        }
        if self.after is not None:
            definition["after"] = self.after
        for option, value in given.items():
            field, read = _FIELDS[option]
            definition[field] = read(value)
        # The server's validation, as of 1970, so that no time is in the past.
        faults = check_schedule(self.spec(definition), EPOCH)
        if faults:
            raise Refused(f"invalid schedule {definition['name']!r}", faults)
        return definition

    def spec(self, definition: Mapping[str, Any]) -> ScheduleSpec:
        """Decode a definition into the engine's type."""
        return decode_schedule(msgspec.json.encode(definition))


def every(length: str | float, *, tz: str = "UTC", **options: Unpack[ScheduleOptions]) -> Schedule:
    """Fire at every multiple of an interval, counted from midnight in a time zone."""
    seconds = _seconds(length)
    if seconds != int(seconds):
        raise Refused(f"every({length!r}): must be whole seconds")
    unknown = zone_fault(tz)
    zone = find_zone(tz)
    if zone is None:
        raise Refused(f"tz={tz!r}: {unknown}")
    anchor = datetime(1970, 1, 1, tzinfo=zone).astimezone(UTC)
    trigger: dict[str, Any] = {"kind": "interval", "every_seconds": int(seconds)}
    if anchor != EPOCH:
        trigger["anchor_at"] = msgspec.to_builtins(anchor)
    return Schedule(trigger=trigger, options=options, timezone=tz)


def cron(expression: str, *, tz: str = "UTC", **options: Unpack[ScheduleOptions]) -> Schedule:
    """Fire at the times of a cron expression, in a time zone."""
    return Schedule(trigger={"kind": "cron", "cron": expression, "timezone": tz}, options=options, timezone=tz)


def once(at: datetime | str, **options: Unpack[ScheduleOptions]) -> Schedule:
    """Fire once, at a time with a UTC offset."""
    return Schedule(trigger={"kind": "once", "at": msgspec.to_builtins(at)}, options=options)


def on_event(type: str, *, filter: str | None = None, **options: Unpack[ScheduleOptions]) -> Schedule:
    """Fire for each received event of this type that matches the filter, an expression over `event`.

    The job's parameter `event`, if it has one, receives the event.
    """
    trigger: dict[str, Any] = {"kind": "event", "type": type}
    if filter is not None:
        trigger["filter"] = filter
    return Schedule(trigger=trigger, options=options)


def after(job: Job[..., Any], *, within: str | float | None = None, **options: Unpack[ScheduleOptions]) -> Schedule:
    """Fire at the windows of another job's schedule, once the other job's run succeeded.

    With `within`, any success of the other job that is at most this old counts.
    """
    if job.schedule is None:
        raise Refused(f"after({job.name}): {job.name} has no schedule")
    other: dict[str, Any] = {"job": job.name}
    if within is not None:
        other["within_seconds"] = _seconds(within)
    return Schedule(trigger=job.schedule.trigger, options=options, timezone=job.schedule.timezone, after=other)


def _seconds(length: object) -> float:
    try:
        return parse_seconds(length)
    except ValueError as error:
        raise Refused(f"{length!r}: {error}") from None


def _whole_seconds(length: object) -> float:
    seconds = _seconds(length)
    return int(seconds) if seconds == int(seconds) else seconds


def _same(value: object) -> object:
    return value


_FIELDS: dict[str, tuple[str, Any]] = {
    "max_active": ("max_active", _same),
    "overlap": ("overlap", _same),
    "missed": ("missed", _same),
    "catch_up": ("max_catch_up_windows", _same),
    "max_delay": ("max_delay_seconds", _seconds),
    "jitter": ("jitter_seconds", _whole_seconds),
    "max_failures": ("max_consecutive_failures", _same),
    "condition": ("condition", lambda expression: {"expression": expression}),
    "enabled": ("enabled", _same),
}
