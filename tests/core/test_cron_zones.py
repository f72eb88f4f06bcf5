"""Windows on special days of special zones (TRG-2, and 29 February)."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from mainspring.core.schedules.cron.expression import parse
from mainspring.core.schedules.cron.occurrences import count_between, next_after, previous_before
from mainspring.core.schedules.time_zones import find_zone, zone_fault

TABLE = {
    # New York, 8 March 2026: 02:00 becomes 03:00. 1 November: 02:00 becomes 01:00.
    "a time in a gap comes right after it": (
        "America/New_York", "30 2 * * *", "2026-03-07T12:00-05:00",
        ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
    ),
    "with six fields too": (
        "America/New_York", "0 30 2 * * *", "2026-03-07T12:00-05:00",
        ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
    ),
    "several times in a gap come as one": (
        "America/New_York", "0,30 2 * * *", "2026-03-07T12:00-05:00",
        ["2026-03-08T03:00-04:00", "2026-03-09T02:00-04:00", "2026-03-09T02:30-04:00"],
    ),
    "and as one with the time after it": (
        "America/New_York", "0 2,3 * * *", "2026-03-07T12:00-05:00",
        ["2026-03-08T03:00-04:00", "2026-03-09T02:00-04:00", "2026-03-09T03:00-04:00"],
    ),
    "seconds in a gap come as one": (
        "America/New_York", "*/20 30 2 * * *", "2026-03-07T12:00-05:00",
        ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00", "2026-03-09T02:30:20-04:00"],
    ),
    "a pace knows no time in a gap": (
        "America/New_York", "*/30 2 * * *", "2026-03-07T12:00-05:00",
        ["2026-03-09T02:00-04:00", "2026-03-09T02:30-04:00"],
    ),
    "an interval continues over a gap": (
        "America/New_York", "*/30 * * * *", "2026-03-08T01:15-05:00",
        ["2026-03-08T01:30-05:00", "2026-03-08T03:00-04:00", "2026-03-08T03:30-04:00"],
    ),
    "a time in an overlap comes the first time": (
        "America/New_York", "30 1 * * *", "2026-10-31T12:00-04:00",
        ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
    ),
    "and not again, asked between the two": (
        "America/New_York", "30 1,2 * * *", "2026-11-01T01:10-05:00",
        ["2026-11-01T02:30-05:00", "2026-11-02T01:30-05:00"],
    ),
    "an interval continues over an overlap": (
        "America/New_York", "*/30 * * * *", "2026-11-01T00:45-04:00",
        ["2026-11-01T01:00-04:00", "2026-11-01T01:30-04:00", "2026-11-01T01:00-05:00", "2026-11-01T01:30-05:00",
         "2026-11-01T02:00-05:00"],
    ),
    # London, 29 March 2026: 01:00 becomes 02:00. 25 October: 02:00 becomes 01:00.
    "london, spring": (
        "Europe/London", "15 1 * * *", "2026-03-28T12:00+00:00",
        ["2026-03-29T02:00+01:00", "2026-03-30T01:15+01:00"],
    ),
    "london, autumn": (
        "Europe/London", "15 1 * * 0", "2026-10-24T12:00+01:00",
        ["2026-10-25T01:15+01:00", "2026-11-01T01:15+00:00"],
    ),
    # Lord Howe, 4 October 2026: 02:00 becomes 02:30. 5 April: 02:00 becomes 01:30.
    "half an hour forward": (
        "Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00+10:30",
        ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"],
    ),
    "half an hour back": (
        "Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00+11:00",
        ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"],
    ),
    "every hour, half an hour back": (
        "Australia/Lord_Howe", "0 * * * *", "2026-04-05T00:30+11:00",
        ["2026-04-05T01:00+11:00", "2026-04-05T02:00+10:30", "2026-04-05T03:00+10:30"],
    ),
    # Apia had no 30 December 2011.
    "a day that does not exist comes when the next begins": (
        "Pacific/Apia", "0 9 * * *", "2011-12-29T00:00-10:00",
        ["2011-12-29T09:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00"],
    ),
    "a date that does not exist too": (
        "Pacific/Apia", "30 17 30 12 *", "2011-01-01T00:00-11:00",
        ["2011-12-31T00:00+14:00", "2012-12-30T17:30+14:00"],
    ),
    "midnight comes once": (
        "Pacific/Apia", "@daily", "2011-12-28T12:00-10:00",
        ["2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"],
    ),
    "a pace does not notice": (
        "Pacific/Apia", "@hourly", "2011-12-29T22:30-10:00",
        ["2011-12-29T23:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T01:00+14:00"],
    ),
    # Casablanca goes back for Ramadan: 15 February 2026, 03:00 becomes 02:00; 22 March, 02:00 becomes 03:00.
    "ramadan begins": (
        "Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00+01:00",
        ["2026-02-15T02:30+01:00", "2026-02-16T02:30+00:00"],
    ),
    "ramadan ends": (
        "Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00+00:00",
        ["2026-03-22T03:00+01:00", "2026-03-23T02:30+01:00"],
    ),
    # Troll, 29 March 2026: 01:00 becomes 03:00. 25 October: 03:00 becomes 01:00.
    "two hours forward": (
        "Antarctica/Troll", "30 1,2 * * *", "2026-03-28T12:00+00:00",
        ["2026-03-29T03:00+02:00", "2026-03-30T01:30+02:00", "2026-03-30T02:30+02:00"],
    ),
    "two hours back": (
        "Antarctica/Troll", "30 1,2 * * *", "2026-10-24T12:00+02:00",
        ["2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T01:30+00:00"],
    ),
    "every hour, two hours back": (
        "Antarctica/Troll", "@hourly", "2026-10-25T01:30+02:00",
        ["2026-10-25T02:00+02:00", "2026-10-25T01:00+00:00", "2026-10-25T02:00+00:00", "2026-10-25T03:00+00:00"],
    ),
    "half hours from UTC": (
        "Asia/Kolkata", "30 5 * * 1-5", "2026-01-02T05:30+05:30",
        ["2026-01-05T05:30+05:30", "2026-01-06T05:30+05:30"],
    ),
    "29 February": (
        "UTC", "0 0 29 2 *", "2026-01-01T00:00+00:00",
        ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"],
    ),
    "29 February over a century": (
        "Europe/Paris", "0 12 29 2 *", "2096-02-29T12:00+01:00",
        ["2104-02-29T12:00+01:00", "2108-02-29T12:00+01:00"],
    ),
    "29 February on a Sunday takes 40 years": (
        "UTC", "0 0 29 2 */7", "2088-02-29T00:00+00:00",
        ["2128-02-29T00:00+00:00"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("zone_name", "text", "start", "expected"), TABLE.values(), ids=TABLE)
def test_windows_of_special_days(zone_name: str, text: str, start: str, expected: list[str]) -> None:
    """Next, previous and count agree on the windows."""
    zone, cron = ZoneInfo(zone_name), parse(text)
    windows = [datetime.fromisoformat(each) for each in expected]
    began = datetime.fromisoformat(start)
    for before, after in pairwise([began, *windows]):
        found = next_after(cron, zone, before)
        assert found is not None
        assert (found, found.astimezone(zone).utcoffset()) == (after, after.utcoffset())
    for before, after in pairwise(windows):
        assert previous_before(cron, zone, after) == before
    assert count_between(cron, zone, began, windows[-1]) == len(windows)


def test_an_expression_that_never_matches() -> None:
    """There is no 30 February, and the search ends."""
    cron, utc = parse("0 0 30 2 *"), ZoneInfo("UTC")
    assert next_after(cron, utc, datetime(2026, 1, 1, tzinfo=UTC)) is None
    assert previous_before(cron, utc, datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize("text", ["* * * * *", "0 0 29 2 *"])
def test_the_ends_of_the_calendar(text: str) -> None:
    """Nothing is due there, and nothing breaks."""
    cron, apia = parse(text), ZoneInfo("Pacific/Apia")
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert next_after(cron, apia, first) is None
    assert previous_before(cron, apia, first) is None
    assert next_after(cron, apia, last) is None
    assert previous_before(cron, apia, last) is not None
    assert count_between(cron, apia, last, last) == 0


def test_a_zone_is_an_iana_name() -> None:
    """Files beside the zones are not zones."""
    assert find_zone("Europe/Paris") is not None
    for name in (
        "",
        "Europe",
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/localtime",
        "right/UTC",
        "x" * 999,
        "a\0b",
        "é",
    ):
        assert find_zone(name) is None
        assert zone_fault(name) is not None
    assert zone_fault("europe/paris") == "'europe/paris' is not an IANA time zone, did you mean Europe/Paris?"
    assert zone_fault("UTC") is None
