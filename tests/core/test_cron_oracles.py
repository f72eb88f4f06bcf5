"""Windows against two other libraries, where these are right; and where they are not (TRG-1, TRG-2).

cronsim    agrees with us on five fields, but where clocks change by half an hour: what keeps a pace then loses up to
           a half of its windows until the expression's next date. Six fields it leaves alone when clocks change.
croniter   fires what names times twice in an overlap, and what keeps a pace once too often after a gap; `5-5` is to
           it every value, and days and weekdays that begin with `*` are no exception to "one is enough".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mainspring.core.schedules.cron.expression import parse
from mainspring.core.schedules.cron.occurrences import previous_before
from tests.core.cron_texts import MINUTE, Expression, Written, changes, expressions, windows_between, zone_names

WINDOWS = 12
DAY = timedelta(days=1)
NEW_YORK = ZoneInfo("America/New_York")
SANTIAGO = ZoneInfo("America/Santiago")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
ANY_WEEKDAY = Written("*", frozenset(range(7)))


class Change(NamedTuple):
    """The wall-clock time before and after a change."""

    stood: datetime
    shown: datetime

    @property
    def is_gap(self) -> bool:
        """Otherwise it is an overlap."""
        return self.stood < self.shown

    @property
    def is_between_hours(self) -> bool:
        """From or to a time that is no full hour, as on Lord Howe and, at 00:01, in St. John's."""
        return bool(self.stood.minute or self.shown.minute)

    @property
    def skips_midnight(self) -> bool:
        """As in Chile: the day begins at 01:00."""
        return self.is_gap and (self.stood - MINUTE).date() != self.shown.date()


@st.composite
def moments(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone and an instant up to a day and a half before a change of its clocks, if there was one in that year."""
    name = draw(st.sampled_from(zone_names()))
    year = draw(st.integers(2000, 2040))
    affinity = changes(name, year) or (datetime(year, 2, 28, tzinfo=UTC),)
    return ZoneInfo(name), draw(st.sampled_from(affinity)) - timedelta(minutes=draw(st.integers(0, 36 * 60)))


@settings(max_examples=80, derandomize=True)
@given(expression=expressions(seconds=False), moment=moments())
def test_cronsim_agrees(expression: Expression, moment: tuple[ZoneInfo, datetime]) -> None:
    """Five fields, any zone; periodic ones only where clocks change at full hours, and don't skip midnight."""
    zone, start = moment
    theirs = [window.astimezone(UTC) for window in islice(CronSim(expression.text, start.astimezone(zone)), WINDOWS)]
    met = met_between(zone, start, theirs[-1])
    assume(not expression.is_periodic or not any(change.is_between_hours or change.skips_midnight for change in met))
    assert ours(expression.text, zone, start) == theirs


@settings(max_examples=60, derandomize=True)
@given(expression=expressions(), moment=moments())
def test_cronsim_agrees_where_no_clock_changes(expression: Expression, moment: tuple[ZoneInfo, datetime]) -> None:
    """Six fields, in UTC, forwards and backwards."""
    start = moment[1]
    assert ours(expression.text, ZoneInfo("UTC"), start) == list(islice(CronSim(expression.text, start), WINDOWS))
    backwards = next(CronSim(expression.text, start, reverse=True))
    assert previous_before(parse(expression.text), ZoneInfo("UTC"), start) == backwards


@settings(max_examples=60, derandomize=True)
@given(expression=expressions(seconds=False), moment=moments())
def test_croniter_agrees(expression: Expression, moment: tuple[ZoneInfo, datetime]) -> None:
    """By date alone; fixed times over a gap, periodic ones over an overlap."""
    zone, start = moment
    expression = expression._replace(weekday=ANY_WEEKDAY)
    theirs = theirs_of_croniter(expression.text, zone, start)
    assume(theirs[-1] - start < timedelta(days=60))
    assume(all(change.is_gap != expression.is_periodic for change in met_between(zone, start, theirs[-1])))
    assert ours(expression.text, zone, start) == theirs


def test_cronsim_loses_windows_where_clocks_change_by_half_an_hour() -> None:
    """Lord Howe, 5 April 2026, 02:00 becomes 01:30. If this fails, cronsim has been fixed: see the docstring above."""
    start = datetime(2026, 4, 5, 0, 30, tzinfo=LORD_HOWE)
    lost = datetime(2026, 4, 5, 4, 0, tzinfo=LORD_HOWE)
    assert lost in ours("*/15 4 * * *", LORD_HOWE, start)
    assert lost not in islice(CronSim("*/15 4 * * *", start), WINDOWS)


def test_cronsim_sees_a_midnight_that_no_clock_shows() -> None:
    """Santiago, 6 September 2026: the day begins at 01:00. If this fails, cronsim has been fixed."""
    start = datetime(2026, 9, 5, 23, 59, tzinfo=SANTIAGO)
    assert ours("*/30 */2 * * 0", SANTIAGO, start)[0] == datetime(2026, 9, 6, 2, 0, tzinfo=SANTIAGO)
    assert next(CronSim("*/30 */2 * * 0", start)).astimezone(UTC) == datetime(2026, 9, 6, 4, 0, tzinfo=UTC)


def test_cronsim_leaves_six_fields_alone() -> None:
    """The time in the gap is skipped, the one in the overlap comes twice."""
    gap, overlap = datetime(2026, 3, 8, tzinfo=NEW_YORK), datetime(2026, 11, 1, tzinfo=NEW_YORK)
    assert ours("0 30 2 * * *", NEW_YORK, gap)[0] == datetime(2026, 3, 8, 3, 0, tzinfo=NEW_YORK)
    assert next(CronSim("0 30 2 * * *", gap)).day == 9
    assert [window.day for window in ours("0 30 1 * * *", NEW_YORK, overlap)[:2]] == [1, 2]
    assert [window.day for window in islice(CronSim("0 30 1 * * *", overlap), 2)] == [1, 1]


def test_croniter_fires_twice_in_an_overlap() -> None:
    """Once after a gap, for a periodic expression that was due in it."""
    overlap = datetime(2026, 11, 1, tzinfo=NEW_YORK)
    assert [window.astimezone(NEW_YORK).day for window in theirs_of_croniter("30 1 * * *", NEW_YORK, overlap)[:2]] == [
        1,
        1,
    ]
    gap = datetime(2026, 3, 8, tzinfo=NEW_YORK)
    assert theirs_of_croniter("*/20 2 * * *", NEW_YORK, gap)[0] == datetime(2026, 3, 8, 3, 0, tzinfo=NEW_YORK)
    assert ours("*/20 2 * * *", NEW_YORK, gap)[0] == datetime(2026, 3, 9, 2, 0, tzinfo=NEW_YORK)


def ours(text: str, zone: ZoneInfo, start: datetime) -> list[datetime]:
    """The first windows after an instant."""
    forever = start + timedelta(days=366 * 50)
    return list(islice(windows_between(parse(text), zone, start, forever), WINDOWS))


def theirs_of_croniter(text: str, zone: ZoneInfo, start: datetime) -> list[datetime]:
    """The same, as croniter has it."""
    iterator = croniter(text, start.astimezone(zone))
    return [iterator.get_next(datetime).astimezone(UTC) for _ in range(WINDOWS)]


def met_between(zone: ZoneInfo, start: datetime, end: datetime) -> list[Change]:
    """Clock changes from a day before one instant to another: an overlap ends some time after it began."""
    found = []
    for year in range((start - DAY).year, end.year + 1):
        for change in changes(zone.key, year):
            if start - DAY <= change <= end:
                stood = (change - MINUTE).astimezone(zone).replace(tzinfo=None) + MINUTE
                found.append(Change(stood, change.astimezone(zone).replace(tzinfo=None)))
    return found
