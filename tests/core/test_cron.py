"""Cron expressions: syntax, dates and descriptions (TRG-1)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.schedules.cron.description import explain
from mainspring.core.schedules.cron.expression import MACROS, parse, values
from mainspring.protocol.errors import Refused
from tests.core.cron_texts import windows_between

UTC_ZONE = ZoneInfo("UTC")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def first_days(text: str, count: int) -> list[str]:
    """The dates of the first windows of 2026."""
    windows = windows_between(parse(text), UTC_ZONE, NEW_YEAR, LATER)
    return [f"{window:%m-%d}" for window in islice(windows, count)]


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("0 0 * * 0", "0 0 * * 7"),
        ("0 0 * * sun", "0 0 * * SUN"),
        ("0 0 * jan-mar mon-fri", "0 0 * 1-3 1-5"),
        ("0 0 * * SAT-MON", "0 0 * * 6,0,1"),
        ("0 0 * * 5-7", "0 0 * * 5,6,0"),
        ("0 0 ? * ?", "0 0 * * *"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("10-40/10 * * * *", "10,20,30,40 * * * *"),
        ("0  30\t2 * * *", "30 2 * * *"),
        ("*/60 * * * *", "0 * * * *"),
        ("0 0 * * */7", "0 0 * * 0"),
        *MACROS.items(),
        (" @Daily ", "0 0 * * *"),
    ],
)
def test_two_ways_to_write_the_same(written: str, same: str) -> None:
    """They may differ across clock changes, if only one begins with `*`."""
    one, other = parse(written), parse(same)
    fields = ("seconds", "minutes", "hours", "days", "months", "weekdays", "nth_weekdays", "last_weekdays")
    assert [getattr(one, field) for field in fields] == [getattr(other, field) for field in fields]


def test_a_mask_holds_values() -> None:
    """In order."""
    assert list(values(parse("50,5-7 * * * *").minutes)) == [5, 6, 7, 50]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 13 * FRI", ["01-02", "01-09", "01-13", "01-16"]),
        ("0 0 */13 * FRI", ["02-27", "03-27", "05-01", "08-14"]),
        ("0 0 L * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 0 L,15 * *", ["01-15", "01-31", "02-15", "02-28"]),
        ("0 0 LW * *", ["01-30", "02-27", "03-31", "04-30"]),
        ("0 0 * * FRI#2", ["01-09", "02-13", "03-13", "04-10"]),
        ("0 0 * * 1#5", ["03-30", "06-29", "08-31", "11-30"]),
        ("0 0 * * 5L", ["01-30", "02-27", "03-27", "04-24"]),
        ("0 0 * * SATL", ["01-31", "02-28", "03-28", "04-25"]),
        ("0 0 * * SUNL,MON#1", ["01-05", "01-25", "02-02", "02-22"]),
        ("0 0 31 * *", ["01-31", "03-31", "05-31", "07-31"]),
        ("0 0 1 */5 *", ["06-01", "11-01", "01-01", "06-01"]),
    ],
)
def test_dates(text: str, expected: list[str]) -> None:
    """Days and weekdays, one or both, and the special ones."""
    assert first_days(text, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("61 * * * *", {"minute": "61 is not from 0 to 59"}),
        ("* 24 * * *", {"hour": "24 is not from 0 to 23"}),
        ("* * 0 * *", {"day of month": "0 is not from 1 to 31"}),
        ("* * * 13 *", {"month": "13 is not from 1 to 12"}),
        ("* * * * 8", {"day of week": "8 is not from 0 to 7"}),
        ("60 * * * * *", {"second": "60 is not from 0 to 59"}),
        ("61 24 * * *", {"minute": "61 is not from 0 to 59", "hour": "24 is not from 0 to 23"}),
        ("*/0 * * * *", {"minute": "'*/0': a step is from 1 to 60, not 0"}),
        ("*/90 * * * *", {"minute": "'*/90': a step is from 1 to 60, not 90"}),
        ("0 22-2 * * *", {"hour": "'22-2' runs backwards: write 22-23,0-2, or reverse it"}),
        ("0 0 * * MONDAY", {"day of week": "did you mean MON?"}),
        ("0 0 * * L", {"day of week": "L needs its weekday: FRIL is the last Friday"}),
        ("0 0 * * 5#6", {"day of week": "'5#6': a month has the first to the fifth of a weekday, #1 to #5"}),
        ("0 0 15W * *", {"day of month": "'15W' is not supported; there are L"}),
        ("H * * * *", {"minute": "'H' is not supported: choose a value, and spread the starts with jitter_seconds"}),
        ("? * * * *", {"minute": "? stands for the day of month or the day of week only"}),
        ("*-5 * * * *", {"minute": "'*-5': * can't start a range"}),
        ("1,,2 * * * *", {"minute": "empty list item"}),
        ("-1 * * * *", {"minute": "'-1' is not a value from 0 to 59, range or step"}),
        ("٣ * * * *", {"minute": "is not a value from 0 to 59, range or step"}),
        ("", {"cron": "has 0 fields; it needs 5 (minute, hour, day of month, month, day of week), or 6"}),
        ("0 0 1 1 * 2026 x", {"cron": "has 7 fields"}),
        ("hourly", {"cron": "has 1 field; it needs 5"}),
        ("@reboot", {"cron": "'@reboot' is not known; there are @yearly"}),
        ("@dayly", {"cron": "'@dayly' is not known, did you mean @daily?"}),
        ("0 " * 200, {"cron": "is longer than 256 characters"}),
    ],
)
def test_every_fault_is_reported(text: str, faults: dict[str, str]) -> None:
    """With its field and its reason."""
    with pytest.raises(Refused) as refused:
        parse(text)
    assert [fault.where for fault in refused.value.faults] == list(faults)
    for fault in refused.value.faults:
        assert faults[fault.where] in fault.why


@given(st.text(alphabet="0123456789*/-,#LW? @abcMONJAN\x00é", max_size=40))
def test_any_other_text_is_parsed_or_refused(text: str) -> None:
    """Any text is either parsed and described, or refused."""
    with suppress(Refused):
        assert explain(parse(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("30 5 * * 1-5", "every weekday at 05:30"),
        ("@daily", "every day at 00:00"),
        ("@hourly", "every hour"),
        ("@weekly", "every Sunday at 00:00"),
        ("@monthly", "on day 1 of every month at 00:00"),
        ("@yearly", "on day 1 of January at 00:00"),
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 9-17 * * 1-5", "every 15 minutes of the hours 9 to 17, every weekday"),
        ("5,35 * * * *", "at the minutes 5 and 35 of every hour"),
        ("0 8-18/2 * * *", "at the hours 8, 10, 12, 14, 16 and 18"),
        ("0,30 6 * * *", "every day at 06:00 and 06:30"),
        ("15 30 5 * * *", "every day at 05:30:15"),
        ("0 9 * 6-8 mon,thu", "every Monday and Thursday in June, July and August at 09:00"),
        ("0 9 13 * FRI", "on day 13 of every month, and every Friday, at 09:00"),
        ("0 9 */13 * FRI", "on day 1, 14 and 27 of every month, if it is a Friday, at 09:00"),
        ("0 9 L * *", "on the last day of every month at 09:00"),
        ("0 9 * * FRI#2,5L", "the second Friday of the month and the last Friday of the month at 09:00"),
        ("0 0 * 12 *", "every day in December at 00:00"),
    ],
)
def test_descriptions(text: str, words: str) -> None:
    """For people to check what they wrote."""
    assert explain(parse(text)) == words
