"""Time zones as stretches of constant offset from UTC.

    offset before ──┐ change ┌── offset after
                    gap       clocks go forward: the local times between are never shown
                    overlap   clocks go back: the local times between are shown twice

Code that computes with local times walks over stretches and needs only additions. Seconds are counted from the
beginning of 1970, in UTC or, where a name says so, in wall-clock time.

1. The stretches of a year are without gaps and overlaps in UTC, and cover it completely; none crosses its ends.
2. `before` is the offset right before the stretch, even if that was in another year.

A zone's offset is probed every second day. The closest two changes since 1990, in all zones, are a week apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from mainspring.core.text.suggestions import did_you_mean

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
"""The shortest time between two instants."""
DAY = 86_400
FIRST_YEAR = 1900
LAST_YEAR = 9990
"""No windows outside of these years: the calendar types end soon after."""

_MAX_NAME_CHARS = 64
_NOT_ZONES = ("posix/", "right/", "posixrules", "localtime", "Factory")
"""Files beside the zones: copies, and machine-dependent ones. `right/` counts leap seconds."""
_SECOND = timedelta(seconds=1)
_PROBE_INTERVAL = 2 * DAY
_FIRST_SECOND = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _SECOND
_LAST_SECOND = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _SECOND


class Stretch(NamedTuple):
    """A period in which a zone has one offset."""

    start: int
    """In seconds since 1970, UTC, inclusive."""
    end: int
    """Exclusive."""
    offset: int
    """Seconds to add to UTC for local time."""
    before: int
    """The offset right before the start."""


@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo | None:
    """Return the zone with this IANA name, or None."""
    if not 1 <= len(name) <= _MAX_NAME_CHARS or name.startswith(_NOT_ZONES) or not name.isascii() or "\0" in name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # No such file, a path outside of the directory of zones, a directory, or no zone in it.
        return None


def zone_fault(name: str) -> str | None:
    """Return why there is no zone of this name; None if there is one."""
    if find_zone(name) is not None:
        return None
    shown = name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}..."
    return f"{shown!a} is not an IANA time zone{did_you_mean(shown, available_timezones()) or ', such as Europe/Paris'}"


def to_seconds(instant: datetime) -> int:
    """Return the second that contains an instant."""
    return (instant - EPOCH) // _SECOND


def to_instant(seconds: int) -> datetime:
    """Return the instant at which a second begins."""
    return EPOCH + timedelta(seconds=seconds)


def stretches_from(zone: ZoneInfo, second: int, *, years: int) -> Iterator[Stretch]:
    """Yield the stretch that contains `second` and all that follow, to the end of that many years later."""
    year = _year_of(second)
    for each in range(max(year, FIRST_YEAR), min(year + years, LAST_YEAR) + 1):
        for stretch in _stretches(zone, each):
            if stretch.end > second:
                yield stretch


def stretches_back_from(zone: ZoneInfo, second: int, *, years: int) -> Iterator[Stretch]:
    """Yield the stretch that contains `second` and all before it, latest first, back to that many years earlier."""
    year = _year_of(second)
    for each in range(min(year, LAST_YEAR), max(year - years, FIRST_YEAR) - 1, -1):
        for stretch in reversed(_stretches(zone, each)):
            if stretch.start <= second:
                yield stretch


@lru_cache(maxsize=8192)
def _stretches(zone: ZoneInfo, year: int) -> tuple[Stretch, ...]:
    """The stretches of one year. About 100 µs, and a tenth of a microsecond when cached."""
    start, end = to_seconds(datetime(year, 1, 1, tzinfo=UTC)), to_seconds(datetime(year + 1, 1, 1, tzinfo=UTC))
    before = _offset(zone, start - 1)
    offset = _offset(zone, start)
    found: list[Stretch] = []
    began = checked_until = start
    for second in [*range(start + _PROBE_INTERVAL, end, _PROBE_INTERVAL), end - 1]:
        if _offset(zone, second) != offset:
            change = _find_change(zone, checked_until, second, offset)
            found.append(Stretch(start=began, end=change, offset=offset, before=before))
            began, before, offset = change, offset, _offset(zone, second)
        checked_until = second
    return (*found, Stretch(start=began, end=end, offset=offset, before=before))


def _find_change(zone: ZoneInfo, old: int, new: int, offset: int) -> int:
    """The first second with another offset than `offset`, which `old` has and `new` has not."""
    while new - old > 1:
        middle = (old + new) // 2
        if _offset(zone, middle) == offset:
            old = middle
        else:
            new = middle
    return new


def _offset(zone: ZoneInfo, second: int) -> int:
    offset = to_instant(second).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // _SECOND


def _year_of(second: int) -> int:
    """The year of a second; beyond the calendar, the nearest year."""
    return to_instant(min(max(second, _FIRST_SECOND), _LAST_SECOND)).year
