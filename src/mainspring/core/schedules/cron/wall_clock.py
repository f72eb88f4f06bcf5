"""When an expression matches in wall-clock time: dates and times of day, without any zone.

A wall time is a number of seconds since the beginning of 1970 as the clock shows it. The calendar is Gregorian and ends
with `time_zones.LAST_YEAR`. An expression without a match in 50 years never matches: the rarest is a 29 February on a
given weekday, 40 years apart around 2100.
"""

from __future__ import annotations

from datetime import date

from mainspring.core.schedules.cron.expression import Cron
from mainspring.core.schedules.time_zones import DAY, FIRST_YEAR, LAST_YEAR

SEARCHED_YEARS = 50

_BEFORE_1970 = date(1970, 1, 1).toordinal()
_EVERY_WEEK = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
_WORKDAYS = 0b0111110


def next_wall(cron: Cron, wall: int) -> int | None:
    """The first wall time from `wall` on that matches; None if none does."""
    today, second = divmod(wall, DAY)
    day = _next_day(cron, today)
    if day == today:
        time = _next_time(cron, second)
        if time is not None:
            return today * DAY + time
        day = _next_day(cron, today + 1)
    return None if day is None else day * DAY + _time(_lowest(cron.hours), _lowest(cron.minutes), _lowest(cron.seconds))


def previous_wall(cron: Cron, wall: int) -> int | None:
    """The last wall time up to and including `wall` that matches; None if none does."""
    today, second = divmod(wall, DAY)
    day = _previous_day(cron, today)
    if day == today:
        time = _previous_time(cron, second)
        if time is not None:
            return today * DAY + time
        day = _previous_day(cron, today - 1)
    return (
        None if day is None else day * DAY + _time(_highest(cron.hours), _highest(cron.minutes), _highest(cron.seconds))
    )


def count_walls(cron: Cron, start: int, end: int) -> int:
    """Count matching wall times from `start` up to `end`. The cost grows with the months between, not the times."""
    if end <= start:
        return 0
    first, second = divmod(start, DAY)
    last, until = divmod(end, DAY)
    of_a_day = cron.hours.bit_count() * cron.minutes.bit_count() * cron.seconds.bit_count()
    whole = _count_days(cron, first, last) * of_a_day
    missing = _count_times(cron, second) if _next_day(cron, first) == first else 0
    more = _count_times(cron, until) if _next_day(cron, last) == last else 0
    return whole - missing + more


def _next_time(cron: Cron, second: int) -> int | None:
    """The first second of a day from `second` on that matches."""
    hour, rest = divmod(second, 3600)
    minute, second = divmod(rest, 60)
    if cron.hours >> hour & 1:
        if cron.minutes >> minute & 1 and (seconds := cron.seconds >> second):
            return _time(hour, minute, second + _lowest(seconds))
        if minutes := cron.minutes >> minute + 1:
            return _time(hour, minute + 1 + _lowest(minutes), _lowest(cron.seconds))
    if hours := cron.hours >> hour + 1:
        return _time(hour + 1 + _lowest(hours), _lowest(cron.minutes), _lowest(cron.seconds))
    return None


def _previous_time(cron: Cron, second: int) -> int | None:
    """The last second of a day up to and including `second` that matches."""
    hour, rest = divmod(second, 3600)
    minute, second = divmod(rest, 60)
    if cron.hours >> hour & 1:
        if cron.minutes >> minute & 1 and (seconds := _below(cron.seconds, second + 1)):
            return _time(hour, minute, _highest(seconds))
        if minutes := _below(cron.minutes, minute):
            return _time(hour, _highest(minutes), _highest(cron.seconds))
    if hours := _below(cron.hours, hour):
        return _time(_highest(hours), _highest(cron.minutes), _highest(cron.seconds))
    return None


def _count_times(cron: Cron, second: int) -> int:
    """Count matching seconds of a day before `second`."""
    hour, rest = divmod(second, 3600)
    minute, second = divmod(rest, 60)
    count = _below(cron.hours, hour).bit_count() * cron.minutes.bit_count() * cron.seconds.bit_count()
    if cron.hours >> hour & 1:
        count += _below(cron.minutes, minute).bit_count() * cron.seconds.bit_count()
        if cron.minutes >> minute & 1:
            count += _below(cron.seconds, second).bit_count()
    return count


def _next_day(cron: Cron, day: int) -> int | None:
    """The first day from `day` on that matches, counted from 1970."""
    if cron.is_every_day:
        return day
    start = date.fromordinal(day + _BEFORE_1970)
    days = _days_of(cron, start.year, start.month) >> start.day << start.day
    month = start.year * 12 + start.month - 1
    for later in range(month, month + 12 * SEARCHED_YEARS):
        if later > month:
            days = _days_of(cron, later // 12, later % 12 + 1)
        if days:
            return _first_of(later) + _lowest(days) - 1
    return None


def _previous_day(cron: Cron, day: int) -> int | None:
    """The last day up to and including `day` that matches."""
    if cron.is_every_day:
        return day
    start = date.fromordinal(day + _BEFORE_1970)
    days = _below(_days_of(cron, start.year, start.month), start.day + 1)
    month = start.year * 12 + start.month - 1
    for earlier in range(month, month - 12 * SEARCHED_YEARS, -1):
        if earlier < month:
            days = _days_of(cron, earlier // 12, earlier % 12 + 1)
        if days:
            return _first_of(earlier) + _highest(days) - 1
    return None


def _count_days(cron: Cron, start: int, end: int) -> int:
    """Count matching days from `start` up to `end`."""
    if cron.is_every_day:
        return end - start
    first, last = date.fromordinal(start + _BEFORE_1970), date.fromordinal(end + _BEFORE_1970)
    count = -_below(_days_of(cron, first.year, first.month), first.day).bit_count()
    for month in range(first.year * 12 + first.month - 1, last.year * 12 + last.month - 1):
        count += _days_of(cron, month // 12, month % 12 + 1).bit_count()
    return count + _below(_days_of(cron, last.year, last.month), last.day).bit_count()


def _days_of(cron: Cron, year: int, month: int) -> int:
    """The matching days of a month, as a mask."""
    if not cron.months >> month & 1 or not FIRST_YEAR <= year <= LAST_YEAR:
        return 0
    first = date(year, month, 1).toordinal()
    length = date(year + month // 12, month % 12 + 1, 1).toordinal() - first
    existing = (2 << length) - 2
    weekday = first % 7
    days = cron.days
    if cron.is_last_day:
        days |= 1 << length
    if cron.is_last_workday:
        days |= 1 << _highest(_on(_WORKDAYS, weekday) & existing)
    by_weekday = _on(cron.weekdays, weekday)
    for week, mask in enumerate(cron.nth_weekdays):
        by_weekday |= _on(mask, weekday) & 0b1111111 << 7 * week + 1
    if cron.last_weekdays:
        by_weekday |= _on(cron.last_weekdays, weekday) & 0b1111111 << length - 6
    return (days & by_weekday if cron.needs_both_days else days | by_weekday) & existing


def _on(weekdays: int, first: int) -> int:
    """The days of a month that begins with the weekday `first` that are on one of these weekdays, as a mask."""
    week = (weekdays >> first | weekdays << 7 - first) & 0b1111111
    return week * _EVERY_WEEK << 1


def _first_of(month: int) -> int:
    """The first day of a month, counted from 1970; months are counted from year 0."""
    return date(month // 12, month % 12 + 1, 1).toordinal() - _BEFORE_1970


def _time(hour: int, minute: int, second: int) -> int:
    return hour * 3600 + minute * 60 + second


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1


def _below(mask: int, value: int) -> int:
    return mask & (1 << value) - 1
