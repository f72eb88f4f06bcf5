"""Describe a cron expression: `every weekday at 05:30`. For people to check what they wrote, not for programs."""

from __future__ import annotations

from itertools import product

from mainspring.core.schedules.cron.expression import ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS, Cron, values
from mainspring.core.text.sentences import join_words

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = ("first", "second", "third", "fourth", "fifth")
_EVERY_MINUTE = 2**60 - 1
_EVERY_HOUR = 2**24 - 1
_MONDAY_TO_FRIDAY = 0b0111110
_NAMED_TIMES = 4
"""Up to this many times of a day are listed."""


def explain(cron: Cron) -> str:
    """Describe the expression as a phrase that fits after "runs"."""
    days = _say_days(cron)
    if cron.hours.bit_count() * cron.minutes.bit_count() * cron.seconds.bit_count() <= _NAMED_TIMES:
        times = product(values(cron.hours), values(cron.minutes), values(cron.seconds))
        return f"{days or 'every day'} at {join_words([_format_time(cron, *time) for time in times])}"
    pace = _say_pace(cron)
    return f"{pace}, {days.rstrip(',')}" if days else pace


def _format_time(cron: Cron, hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if cron.seconds != 1 else "")


def _say_pace(cron: Cron) -> str:
    """`every 15 minutes`, `at the minutes 5 and 35 of every hour`, with the hours if they are restricted."""
    hours, minutes, seconds = (_join_numbers(mask) for mask in (cron.hours, cron.minutes, cron.seconds))
    in_hours = "" if cron.hours == _EVERY_HOUR else f" of the hours {hours}"
    if cron.seconds != 1:
        in_minutes = "" if cron.minutes == _EVERY_MINUTE else f" of the minutes {minutes}"
        return (_format_steps(cron.seconds, "second") or f"at the seconds {seconds}") + in_minutes + in_hours
    if cron.minutes == 1:
        return f"at the hours {hours}" if in_hours else "every hour"
    steps = _format_steps(cron.minutes, "minute")
    return f"{steps}{in_hours}" if steps else f"at the minutes {minutes}{in_hours or ' of every hour'}"


def _format_steps(mask: int, unit: str) -> str:
    """`every 15 minutes` if the values are evenly spaced, else empty."""
    if mask == _EVERY_MINUTE:
        return f"every {unit}"
    for step in range(2, 31):
        if 60 % step == 0 and mask == sum(1 << value for value in range(0, 60, step)):
            return f"every {step} {unit}s"
    return ""


def _say_days(cron: Cron) -> str:
    """`every weekday`, `on day 1 of every month`; empty if it is every day."""
    months = "" if cron.months == ALL_MONTHS else join_words([_MONTHS[month - 1] for month in values(cron.months)])
    dates = [f"day {_join_numbers(cron.days)}"] if cron.days not in {0, ALL_DAYS} else []
    dates += ["the last day"] * cron.is_last_day + ["the last Monday to Friday"] * cron.is_last_workday
    by_date = f"on {join_words(dates)} of {months or 'every month'}" if dates else ""
    by_weekday = _say_weekdays(cron)
    if by_date and by_weekday and cron.needs_both_days:
        return f"{by_date}, if it is {_say_weekdays(cron, 'a')},"
    if by_date and by_weekday:
        return f"{by_date}, and {by_weekday}{f' in {months}' if months else ''},"
    if by_date:
        return by_date
    if by_weekday:
        return f"{by_weekday} in {months}" if months else by_weekday
    return f"every day in {months}" if months else ""


def _say_weekdays(cron: Cron, article: str = "every") -> str:
    if cron.weekdays == ALL_WEEKDAYS:
        return ""
    named = []
    if cron.weekdays == _MONDAY_TO_FRIDAY:
        named.append(f"{article} weekday")
    elif cron.weekdays:
        named.append(f"{article} {join_words([_WEEKDAYS[day] for day in values(cron.weekdays)])}")
    for nth, mask in zip(_NTH, cron.nth_weekdays, strict=False):
        named += [f"the {nth} {_WEEKDAYS[day]} of the month" for day in values(mask)]
    named += [f"the last {_WEEKDAYS[day]} of the month" for day in values(cron.last_weekdays)]
    return join_words(named)


def _join_numbers(mask: int) -> str:
    """`0, 15 and 30`, or `8 to 18` for a contiguous range."""
    numbers = list(values(mask))
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return join_words([str(number) for number in numbers])
