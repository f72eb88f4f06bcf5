"""Triggers of schedules, and the windows that follow from them (TRG-1, TRG-3).

    cron       an expression in a time zone        `core/schedules/cron/expression.py`
    interval   a fixed number of seconds, counted from an anchor
    once       at one instant
    event      on an incoming event                windows only if it sets by when an event is expected
    manual     on request                          no windows

A window is the instant that a schedule fires for, in UTC. Windows follow from the trigger alone and are the same for
every caller at any time. When you add a kind, add it to `Trigger` and to the functions here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo

import msgspec

from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.expressions import engine as expressions
from mainspring.core.schedules.cron import occurrences
from mainspring.core.schedules.cron.description import explain
from mainspring.core.schedules.cron.expression import faults_in, parse
from mainspring.core.schedules.time_zones import EPOCH, INSTANT, find_zone, zone_fault
from mainspring.protocol.errors import Broken

MAX_INTERVAL_SECONDS = 366 * 86_400
MAX_EVENT_TYPE_CHARS = 256
MAX_BUFFER_SECONDS = 7 * 86_400.0
FILTER_NAMES = frozenset({"event"})
"""Names available to the filter of an event trigger."""


class CronTrigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="cron", forbid_unknown_fields=True):
    """At the times of an expression, in the wall-clock time of a zone."""

    cron: str
    timezone: str = "UTC"


class IntervalTrigger(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="interval", forbid_unknown_fields=True
):
    """Every `every_seconds`, independent of clock changes: the anchor plus or minus multiples of the interval."""

    every_seconds: int
    anchor_at: datetime = EPOCH


class OnceTrigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="once", forbid_unknown_fields=True):
    """At one instant."""

    at: datetime


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """By when an event is expected: if none has come by then, the run starts without one, flagged (TRG-7)."""

    cron: str
    timezone: str = "UTC"
    buffer_seconds: float = 0.0
    """Grace period after that time."""


class EventTrigger(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="event", forbid_unknown_fields=True
):
    """On an event of this type that passes the filter."""

    type: str
    filter: str | None = None
    """An expression over `event` (its attributes and `data`) that must evaluate to true or false."""
    expected: Expected | None = None


class ManualTrigger(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="manual", forbid_unknown_fields=True
):
    """On request only."""


Trigger = CronTrigger | IntervalTrigger | OnceTrigger | EventTrigger | ManualTrigger


def next_window(trigger: Trigger, after: datetime) -> datetime | None:
    """Return the first window after an instant, or None."""
    match trigger:
        case CronTrigger():
            return occurrences.next_after(parse(trigger.cron), _zone(trigger), after)
        case IntervalTrigger():
            return _interval_window(trigger, (after - trigger.anchor_at) // _interval(trigger) + 1)
        case OnceTrigger():
            return _in_utc(trigger.at) if trigger.at > after else None
        case EventTrigger(expected=Expected() as expected):
            return next_window(_as_cron(expected), after)
        case EventTrigger() | ManualTrigger():
            return None


def previous_window(trigger: Trigger, until: datetime) -> datetime | None:
    """Return the last window up to and including an instant, or None. Also used for the upstream job's window."""
    match trigger:
        case CronTrigger():
            return occurrences.previous_before(parse(trigger.cron), _zone(trigger), until + INSTANT)
        case IntervalTrigger():
            return _interval_window(trigger, (until - trigger.anchor_at) // _interval(trigger))
        case OnceTrigger():
            return _in_utc(trigger.at) if trigger.at <= until else None
        case EventTrigger(expected=Expected() as expected):
            return previous_window(_as_cron(expected), until)
        case EventTrigger() | ManualTrigger():
            return None


def count_windows(trigger: Trigger, after: datetime, until: datetime) -> int:
    """Count the windows after an instant, up to and including another, without walking over them."""
    if until <= after:
        return 0
    match trigger:
        case CronTrigger():
            return occurrences.count_between(parse(trigger.cron), _zone(trigger), after, until)
        case IntervalTrigger():
            every = _interval(trigger)
            return (until - trigger.anchor_at) // every - (after - trigger.anchor_at) // every
        case OnceTrigger():
            return int(after < trigger.at <= until)
        case EventTrigger(expected=Expected() as expected):
            return count_windows(_as_cron(expected), after, until)
        case EventTrigger() | ManualTrigger():
            return 0


def format_window(trigger: Trigger, window_at: datetime) -> str:
    """Format a window in RFC 3339 in its trigger's time zone, or UTC if the trigger has none."""
    match trigger:
        case CronTrigger():
            return window_at.astimezone(_zone(trigger)).isoformat()
        case EventTrigger() if trigger.expected is not None:
            return format_window(_as_cron(trigger.expected), window_at)
        case _:
            return window_at.astimezone(UTC).isoformat()


def buffer_of(trigger: Trigger) -> timedelta:
    """Return how long after a window it is planned: an expected event may be that late."""
    if isinstance(trigger, EventTrigger) and trigger.expected is not None:
        return timedelta(seconds=trigger.expected.buffer_seconds)
    return timedelta(0)


def check_trigger(trigger: Trigger, where: str, now: datetime, faults: Faults) -> None:
    """Report every fault of a trigger, including one that never fires."""
    match trigger:
        case CronTrigger():
            _check_cron(trigger, where, now, faults)
        case IntervalTrigger():
            every, most = trigger.every_seconds, MAX_INTERVAL_SECONDS
            validate_job.check_range(every, f"{where}.every_seconds", faults, least=1, most=most)
            if trigger.anchor_at.tzinfo is None:
                faults.add(f"{where}.anchor_at", "must have a time zone")
        case OnceTrigger():
            if trigger.at.tzinfo is None:
                faults.add(f"{where}.at", "must have a time zone")
            elif trigger.at <= now:
                faults.add(f"{where}.at", f"is in the past (now: {now:%Y-%m-%dT%H:%M:%SZ})")
        case EventTrigger():
            if not 1 <= len(trigger.type) <= MAX_EVENT_TYPE_CHARS or not trigger.type.isprintable():
                faults.add(f"{where}.type", f"must have 1 to {MAX_EVENT_TYPE_CHARS} printable characters")
            if trigger.filter is not None:
                faults.add(f"{where}.filter", expressions.check(trigger.filter, FILTER_NAMES))
            if trigger.expected is not None:
                _check_expected(trigger.expected, f"{where}.expected", now, faults)
        case ManualTrigger():
            pass
        case _:
            assert_never(trigger)


def describe_trigger(trigger: Trigger) -> str:
    """Describe a trigger: `every weekday at 05:30 (Europe/Paris)`."""
    match trigger:
        case CronTrigger():
            return f"{explain(parse(trigger.cron))} ({trigger.timezone})"
        case IntervalTrigger():
            return f"every {_describe_interval(trigger.every_seconds)}"
        case OnceTrigger():
            return f"once at {trigger.at.isoformat()}"
        case EventTrigger():
            return f"on events of type {trigger.type}{_describe_expected(trigger.expected)}"
        case ManualTrigger():
            return "on request"


def _check_cron(trigger: CronTrigger, where: str, now: datetime, faults: Faults) -> None:
    unknown = zone_fault(trigger.timezone)
    faults.add(f"{where}.timezone", unknown)
    invalid = faults_in(trigger.cron)
    if not invalid and unknown is None and next_window(trigger, now) is None:
        invalid = ["cron expression never matches (no such date)"]
    for why in invalid:
        faults.add(f"{where}.cron", why)


def _check_expected(expected: Expected, where: str, now: datetime, faults: Faults) -> None:
    _check_cron(_as_cron(expected), where, now, faults)
    validate_job.check_seconds(
        expected.buffer_seconds, f"{where}.buffer_seconds", faults, longest=MAX_BUFFER_SECONDS, zero=True
    )


def _as_cron(expected: Expected) -> CronTrigger:
    return CronTrigger(cron=expected.cron, timezone=expected.timezone)


def _describe_expected(expected: Expected | None) -> str:
    if expected is None:
        return ""
    waited = f" plus {expected.buffer_seconds:g} seconds" if expected.buffer_seconds else ""
    return f"; if none is received, {describe_trigger(_as_cron(expected))}{waited}"


def _zone(trigger: CronTrigger) -> ZoneInfo:
    zone = find_zone(trigger.timezone)
    if zone is None:
        raise Broken(f"the time zone {trigger.timezone!a} of a schedule is unknown on this server")
    return zone


def _interval(trigger: IntervalTrigger) -> timedelta:
    return timedelta(seconds=trigger.every_seconds)


def _interval_window(trigger: IntervalTrigger, number: int) -> datetime | None:
    try:
        return _in_utc(trigger.anchor_at + number * _interval(trigger))
    except OverflowError:
        # Outside of the calendar.
        return None


def _in_utc(at: datetime) -> datetime | None:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        # On the calendar's first or last day, in a zone that has it though UTC has not.
        return None


def _describe_interval(seconds: int) -> str:
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            return unit if seconds == length else f"{seconds // length} {unit}s"
    return "second" if seconds == 1 else f"{seconds} seconds"
