"""When a job runs by itself, in code: what `@job(schedule=..)` takes.

    every("15m", tz="Europe/Paris")              at each quarter of an hour, counted from midnight there
    cron("30 5 * * 1-5", tz="Europe/Paris")      at the times of an expression, as clocks show them there
    once("2026-12-01T05:00:00Z")                 at one instant
    on_event("orders.ready", filter="event.data.rows > 0")
    after(extract)                               at the windows of another job's schedule, once its run has succeeded

Each takes the options of a schedule besides, and so does `@job`: `max_active=1`, `overlap="skip"`, `missed="skip"`.
They become a schedule as `PUT /schedules` takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from mainspring.core.schedules.schedule_json import decode_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec, check_schedule
from mainspring.core.schedules.time_zones import EPOCH, find_zone, zone_fault
from mainspring.definitions.quantities import seconds_of
from mainspring.protocol.errors import Refused

if TYPE_CHECKING:
    from mainspring.dsl.job import Job


class ScheduleOptions(TypedDict, total=False):
    """What can be said of a schedule besides when it fires."""

    name: str
    """The job's name unless said."""
    params: Mapping[str, Any]
    """Of each run; the job's defaults fill in what is not said."""
    max_active: int
    overlap: str
    """`queue`, `skip` or `cancel_running`, when `max_active` runs are still going."""
    missed: str
    """`run` or `skip`."""
    catch_up: int
    """How many missed windows run."""
    max_delay: str | float
    jitter: str | float
    max_failures: int | None
    """So many in a row disable the schedule; None never does."""
    condition: str
    """An expression over `params` and `window`."""
    enabled: bool


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When a job runs by itself."""

    trigger: dict[str, Any]
    """As a definition has it."""
    options: ScheduleOptions = {}
    timezone: str = "UTC"
    """Where people look at it from."""
    after: dict[str, Any] | None = None

    def definition(
        self, job: str, *, params: Mapping[str, Any], priority: str, options: ScheduleOptions
    ) -> dict[str, Any]:
        """The schedule as the server takes it. Raises Refused, with every fault that can be seen here."""
        said: dict[str, Any] = {**self.options, **options}
        said.pop("params", None)
        definition: dict[str, Any] = {
            "name": said.pop("name", job),
            "job": job,
            "trigger": self.trigger,
            "params": dict(params),
            "priority": priority,
        }
        if self.after is not None:
            definition["after"] = self.after
        for option, value in said.items():
            field, read = _FIELDS[option]
            definition[field] = read(value)
        self._check(definition)
        return definition

    def spec(self, definition: Mapping[str, Any]) -> ScheduleSpec:
        """A definition, as the engine reads it."""
        return decode_schedule(msgspec.json.encode(definition))

    def _check(self, definition: Mapping[str, Any]) -> None:
        """Ask the server's rules; it is as if it were 1970, so that nothing is over."""
        faults = check_schedule(self.spec(definition), EPOCH)
        if faults:
            raise Refused(f"the schedule {definition['name']!r} can't be used", faults)


def every(length: str | float, *, tz: str = "UTC", **options: Unpack[ScheduleOptions]) -> Schedule:
    """At every multiple of a length of time, counted from midnight in a time zone."""
    seconds = _seconds(length)
    if seconds != int(seconds):
        raise Refused(f"every({length!r}): it must be whole seconds")
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
    """At the times of an expression, as clocks show them in a time zone."""
    return Schedule(trigger={"kind": "cron", "cron": expression, "timezone": tz}, options=options, timezone=tz)


def once(at: datetime | str, **options: Unpack[ScheduleOptions]) -> Schedule:
    """At one instant, which says its time zone."""
    return Schedule(trigger={"kind": "once", "at": msgspec.to_builtins(at)}, options=options)


def on_event(type: str, *, filter: str | None = None, **options: Unpack[ScheduleOptions]) -> Schedule:
    """When an event of this type comes in and the filter, an expression over `event`, is true of it.

    The job's parameter `event`, if it has one, is the event that it runs for.
    """
    trigger: dict[str, Any] = {"kind": "event", "type": type}
    if filter is not None:
        trigger["filter"] = filter
    return Schedule(trigger=trigger, options=options)


def after(job: Job[..., Any], *, within: str | float | None = None, **options: Unpack[ScheduleOptions]) -> Schedule:
    """At the windows of another job's schedule, as soon as the other's run has succeeded.

    With `within`, any success of the other that is not older is enough.
    """
    if job.schedule is None:
        raise Refused(f"after({job.name}): {job.name} has no schedule, so it has no windows to come after")
    other: dict[str, Any] = {"job": job.name}
    if within is not None:
        other["within_seconds"] = _seconds(within)
    return Schedule(trigger=job.schedule.trigger, options=options, timezone=job.schedule.timezone, after=other)


def _seconds(length: object) -> float:
    try:
        return seconds_of(length)
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
