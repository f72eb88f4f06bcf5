"""Random cron expressions with their meaning, and zones with their clock changes, computed independently of our code.

An `Expression` knows the values of its fields from how it was put together, not from reading it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import strategies as st

from mainspring.core.schedules.cron.expression import Cron
from mainspring.core.schedules.cron.occurrences import next_after

MINUTE = timedelta(minutes=1)


class Written(NamedTuple):
    """A field as it is written, and the values that it stands for."""

    text: str
    values: frozenset[int]


class Expression(NamedTuple):
    """Six fields."""

    second: Written
    minute: Written
    hour: Written
    day: Written
    month: Written
    weekday: Written

    @property
    def text(self) -> str:
        """Five fields if the first says nothing."""
        fields = [field.text for field in self]
        return " ".join(fields[1:] if fields[0] == "0" else fields)

    @property
    def is_periodic(self) -> bool:
        """Whether minutes or hours begin with `*`."""
        return self.minute.text.startswith("*") or self.hour.text.startswith("*")

    def fits(self, local: datetime) -> bool:
        """Whether a local minute is meant, whatever its seconds."""
        if local.minute not in self.minute.values or local.hour not in self.hour.values:
            return False
        if local.month not in self.month.values:
            return False
        by_date, by_weekday = local.day in self.day.values, local.isoweekday() % 7 in self.weekday.values
        if self.day.text.startswith("*") or self.weekday.text.startswith("*"):
            return by_date and by_weekday
        return by_date or by_weekday


def written(low: int, high: int) -> st.SearchStrategy[Written]:
    """A field with values from `low` to `high`."""
    values = st.integers(low, high)
    everything = st.just(Written("*", frozenset(range(low, high + 1))))
    steps = st.integers(2, high - low).map(lambda n: Written(f"*/{n}", frozenset(range(low, high + 1, n))))
    single = values.map(lambda n: Written(str(n), frozenset({n})))
    several = st.lists(values, min_size=2, max_size=4).map(
        lambda found: Written(",".join(map(str, found)), frozenset(found))
    )
    ranges = st.tuples(st.integers(low, high - 1), st.integers(1, high - low), st.sampled_from([1, 1, 2, 5])).map(
        lambda found: _range(found[0], min(found[0] + found[1], high), found[2])
    )
    return st.one_of(everything, single, several, ranges, steps)


def expressions(*, seconds: bool = True) -> st.SearchStrategy[Expression]:
    """Any expression that is due within a few days, more often than not."""
    zero = Written("0", frozenset({0}))
    any_month = Written("*", frozenset(range(1, 13)))
    return st.builds(
        Expression,
        second=st.one_of(st.just(zero), _few_seconds()) if seconds else st.just(zero),
        minute=written(0, 59),
        hour=st.one_of(written(0, 4), written(0, 23)).map(_whole_star),
        day=written(1, 31),
        month=st.just(any_month),
        weekday=st.one_of(st.just(Written("*", frozenset(range(7)))), written(0, 6)),
    )


def _few_seconds() -> st.SearchStrategy[Written]:
    """As few as a test that looks at each of them can bear."""
    return st.lists(st.integers(0, 59), min_size=1, max_size=3).map(
        lambda found: Written(",".join(map(str, found)), frozenset(found))
    )


def _whole_star(field: Written) -> Written:
    """Steps and stars of a part of the hours mean all hours of the day."""
    if not field.text.startswith("*"):
        return field
    return Written(field.text, frozenset(range(0, 24, int(field.text[2:] or 1))))


def _range(first: int, last: int, step: int) -> Written:
    text = f"{first}-{last}" if step == 1 else f"{first}-{last}/{step}"
    return Written(text, frozenset(range(first, last + 1, step)))


@cache
def zone_names() -> list[str]:
    """Every zone that there is."""
    return sorted(available_timezones())


@cache
def changes(zone_name: str, year: int) -> tuple[datetime, ...]:
    """The minutes of a year at which a zone's clocks change."""
    zone = ZoneInfo(zone_name)
    found = []
    day = datetime(year, 1, 1, tzinfo=UTC)
    while day.year == year:
        tomorrow = day + timedelta(days=1)
        if _offset(day, zone) != _offset(tomorrow, zone):
            minutes = (day + number * MINUTE for number in range(1, 24 * 60 + 1))
            found.append(next(minute for minute in minutes if _offset(minute, zone) != _offset(day, zone)))
        day = tomorrow
    return tuple(found)


def brute_force(expression: Expression, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Every instant from `start` on and before `end`, both whole minutes, by looking at the clock in each minute."""
    found: set[datetime] = set()
    minute = start
    while minute < end:
        local = minute.astimezone(zone)
        shown = local.replace(tzinfo=None)
        stood = (minute - MINUTE).astimezone(zone).replace(tzinfo=None) + MINUTE
        is_first = expression.is_periodic or not local.fold
        if is_first and expression.fits(local):
            found.update(minute + timedelta(seconds=second) for second in expression.second.values)
        while stood < shown and not expression.is_periodic:
            if expression.fits(stood):
                found.add(minute)
            stood += MINUTE
        minute += MINUTE
    return sorted(found)


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta | None:
    return instant.astimezone(zone).utcoffset()


def windows_between(cron: Cron, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the windows after an instant, up to and including another."""
    window = next_after(cron, zone, after)
    while window is not None and window <= until:
        yield window
        window = next_after(cron, zone, window)
