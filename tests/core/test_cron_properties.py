"""Windows in every zone, from 2000 to 2040, against a look at the clock in every minute (TRG-2).

That nothing is skipped, nothing comes twice and everything is in order follows from the comparison.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.schedules.cron.expression import parse
from mainspring.core.schedules.cron.occurrences import count_between, next_after, previous_before
from tests.core.cron_texts import Expression, Written, brute_force, changes, expressions, windows_between, zone_names

INSTANT = timedelta(microseconds=1)
DAY = timedelta(days=1)


@st.composite
def moments(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone and a whole minute, near a change of its clocks if it had one in that year."""
    name = draw(st.sampled_from(zone_names()))
    year = draw(st.integers(2000, 2040))
    affinity = changes(name, year) or (datetime(year, 2, 28, tzinfo=UTC),)
    return ZoneInfo(name), draw(st.sampled_from(affinity)) - draw(st.integers(0, 4 * 60)) * timedelta(minutes=1)


@settings(max_examples=80)
@given(expression=expressions(), moment=moments())
def test_windows_are_those_that_the_clock_shows(expression: Expression, moment: tuple[ZoneInfo, datetime]) -> None:
    """Forwards, backwards and counted."""
    zone, start = moment
    check_against_the_clock(expression, zone, start, start + timedelta(hours=8))


@settings(max_examples=200)
@given(expression=expressions(), moment=moments(), microseconds=st.integers(0, 10**11))
def test_next_and_previous_are_neighbours(
    expression: Expression, moment: tuple[ZoneInfo, datetime], microseconds: int
) -> None:
    """From any instant, also between two seconds."""
    zone, start = moment
    cron, instant = parse(expression.text), start + timedelta(microseconds=microseconds)
    following = next_after(cron, zone, instant)
    assert following is not None
    assert following > instant
    assert previous_before(cron, zone, following + INSTANT) == following
    before = previous_before(cron, zone, following)
    assert before is not None
    assert before <= instant
    assert next_after(cron, zone, before) == following
    assert count_between(cron, zone, before, following) == 1


@settings(max_examples=60)
@given(expression=expressions(), moment=moments(), days=st.integers(0, 900))
def test_counts_add_up(expression: Expression, moment: tuple[ZoneInfo, datetime], days: int) -> None:
    """A span counts as its two parts do, wherever it is cut."""
    zone, cut = moment
    cron, start, end = parse(expression.text), cut - timedelta(days=days), cut + timedelta(days=days)
    whole = count_between(cron, zone, start, end)
    assert whole == count_between(cron, zone, start, cut) + count_between(cron, zone, cut, end)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_change_of_every_zone(soak_scale: float) -> None:
    """All changes of 2000 to 2040: fixed times, and periodic expressions."""
    chance = Random(7)
    every_hour = Written("*", frozenset(range(24)))
    for name, year in product(zone_names(), range(2000, 2041)):
        if chance.random() >= soak_scale:
            continue
        for change in changes(name, year):
            start = change - timedelta(minutes=chance.randrange(120))
            minutes = several(chance, 60, 3)
            for hours in (several(chance, 24, 12), every_hour):
                check_against_the_clock(on_any_day(minutes, hours), ZoneInfo(name), start, start + DAY / 6)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_expressions(soak_scale: float) -> None:
    """The first property, for longer."""

    @settings(max_examples=max(1, int(5000 * soak_scale)))
    @given(expression=expressions(), moment=moments())
    def compare(expression: Expression, moment: tuple[ZoneInfo, datetime]) -> None:
        check_against_the_clock(expression, moment[0], moment[1], moment[1] + 2 * DAY)

    compare()


def several(chance: Random, of: int, most: int) -> Written:
    """A list of up to `most` values."""
    values = chance.sample(range(of), chance.randint(1, most))
    return Written(",".join(map(str, values)), frozenset(values))


def on_any_day(minute: Written, hour: Written) -> Expression:
    """An expression without dates."""
    days, months, weekdays = (Written("*", frozenset(range(32))) for _ in range(3))
    return Expression(Written("0", frozenset({0})), minute, hour, days, months, weekdays)


def check_against_the_clock(expression: Expression, zone: ZoneInfo, start: datetime, end: datetime) -> None:
    """Windows from `start` on and before `end` are what the clock shows."""
    expected = brute_force(expression, zone, start, end)
    cron = parse(expression.text)
    assert cron.is_periodic == expression.is_periodic
    assert list(windows_between(cron, zone, start - INSTANT, end - INSTANT)) == expected
    assert count_between(cron, zone, start - INSTANT, end - INSTANT) == len(expected)
    backwards = []
    window = previous_before(cron, zone, end)
    while window is not None and window >= start:
        backwards.append(window)
        window = previous_before(cron, zone, window)
    assert backwards[::-1] == expected
