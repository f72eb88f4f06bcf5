"""Cron expressions: syntax and meaning (TRG-1).

    seconds minutes hours days months weekdays      six fields, or five without the seconds

A field is a list of values, ranges and steps: `5`, `1-5`, `*`, `*/15`, `10-40/10`, `5/15` (from 5 to the end). Months
and weekdays have names (`JAN`, `MON`), 0 and 7 are Sunday, a range of weekdays may wrap (`SAT-MON`). `?` is `*`, for
days and weekdays. Days may be `L` (the last of the month) and `LW` (its last Monday to Friday), weekdays `FRI#2` (the
second Friday) and `FRIL` (the last one). Macros: `@yearly @annually @monthly @weekly @daily @midnight @hourly`.

1. If days and weekdays are both restricted, one of them is enough; if one begins with `*`, both must match, as in
   Debian's cron.
2. If minutes or hours begin with `*`, the expression is periodic, else it names fixed times;
   `core/schedules/cron/occurrences.py` explains the difference across clock changes.

Fields are bit masks, bit n for the value n, in which `core/schedules/cron/wall_clock.py` finds times with shifts.
Additions here need a description in `core/schedules/cron/description.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault, Refused

MAX_EXPRESSION_LENGTH = 256
_WHOLE = "cron"
"""Where a fault is that concerns no single field."""
ALL_DAYS = 2**32 - 2
ALL_MONTHS = 2**13 - 2
ALL_WEEKDAYS = 2**7 - 1
"""As masks."""
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ITEM = re.compile(
    r"(?P<from>\*|\?|[A-Z]+|[0-9]{1,3}) (?:-(?P<to>[A-Z]+|[0-9]{1,3}))? (?:/(?P<step>[0-9]{1,3}))?", re.VERBOSE
)
_SPECIAL_WEEKDAY = re.compile(r"(?P<day>[A-Z]{3}|[0-7])(?:L|\#(?P<nth>[0-9]+))")


class Cron(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A parsed expression. The first fields are the masks of the six fields of an expression, in order."""

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    """Sunday is bit 0."""
    is_last_day: bool
    """Also the last day of a month."""
    is_last_workday: bool
    """Also the last Monday to Friday of a month."""
    nth_weekdays: tuple[int, ...]
    """Five masks of weekdays: those that match only as the first of their month, the second and so on; or empty."""
    last_weekdays: int
    """Weekdays that match only as the last of their month."""
    needs_both_days: bool
    """A date has to match both the days and the weekdays."""
    is_every_day: bool
    is_periodic: bool
    """Minutes or hours begin with `*`."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("day of week", 0, 7, _WEEKDAYS)
_FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


class _InvalidItem(Exception):
    """Why an item of a field is invalid."""


class _Special(NamedTuple):
    """The items of the day fields that a mask can't represent."""

    is_last_day: bool = False
    is_last_workday: bool = False
    weekday: int = 0
    nth: int = 0
    """0: the last one."""


# 20,000 schedules that are due together have far fewer expressions. Parsing one takes about 15 µs.
@lru_cache(maxsize=16_384)
def parse(expression: str) -> Cron:
    """Parse an expression. Raises Refused with every fault: the field, and what is wrong with it."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise _refusal([Fault(_WHOLE, f"is longer than {MAX_EXPRESSION_LENGTH} characters")])
    texts = _split(expression)
    faults: list[Fault] = []
    masks: list[int] = []
    specials: list[_Special] = []
    for field, text in zip(_FIELDS, texts, strict=True):
        mask = 0
        for item in text.split(","):
            try:
                special = _read_special(field, item)
                if special is None:
                    mask |= _read_item(field, item)
                else:
                    specials.append(special)
            except _InvalidItem as misfit:
                faults.append(Fault(field.name, str(misfit)))
        masks.append(mask)
    if faults:
        raise _refusal(faults)
    return _assemble(texts, masks, specials)


def faults_in(expression: str) -> list[str]:
    """Return what is wrong with an expression, each with its field."""
    try:
        parse(expression)
    except Refused as refused:
        return [fault.why if fault.where == _WHOLE else f"{fault.where}: {fault.why}" for fault in refused.faults]
    return []


def values(mask: int) -> Iterator[int]:
    """The values in a mask, in order."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def _split(expression: str) -> list[str]:
    """The six fields, in capitals."""
    text = expression.strip()
    if text.startswith("@"):
        macro = MACROS.get(text.lower())
        if macro is None:
            hint = did_you_mean(text.lower(), MACROS) or f"; there are {' '.join(MACROS)}"
            raise _refusal([Fault(_WHOLE, f"{text!a} is not known{hint}")])
        text = macro
    fields = text.upper().split()
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) != 6:
        names = ", ".join(field.name for field in _FIELDS[1:])
        number = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        why = f"has {number}; it needs 5 ({names}), or 6 with the second first"
        raise _refusal([Fault(_WHOLE, why)])
    return fields


def _read_item(field: _Field, item: str) -> int:
    """The mask of one item of a list."""
    found = _ITEM.fullmatch(item)
    if found is None:
        raise _InvalidItem(_say_unreadable(field, item))
    step = _read_step(field, item, found["step"])
    if found["from"] in {"*", "?"}:
        if found["from"] == "?" and field not in {_DAY, _WEEKDAY}:
            raise _InvalidItem("? stands for the day of month or the day of week only")
        if found["to"] is not None:
            raise _InvalidItem(f"{item!a}: {found['from']} can't start a range")
        first, last = field.low, field.high
    else:
        first = _read_value(field, found["from"])
        if found["to"] is not None:
            last = _read_value(field, found["to"])
        else:
            last = first if found["step"] is None else field.high
    if last < first:
        if field is not _WEEKDAY:
            raise _InvalidItem(f"{item!a} runs backwards: write {first}-{field.high},{field.low}-{last}, or reverse it")
        last += 7
    mask = 0
    for value in range(first, last + 1, step):
        mask |= 1 << (value % 7 if field is _WEEKDAY else value)
    return mask


def _read_step(field: _Field, item: str, step: str | None) -> int:
    most = field.high - field.low + (0 if field is _WEEKDAY else 1)
    if step is not None and not 1 <= int(step) <= most:
        raise _InvalidItem(f"{item!a}: a step is from 1 to {most}, not {int(step)}")
    return int(step or 1)


def _read_value(field: _Field, text: str) -> int:
    if text.isdigit():
        if not field.low <= int(text) <= field.high:
            raise _InvalidItem(f"{int(text)} is not from {field.low} to {field.high}")
        return int(text)
    if text in field.names:
        return field.names.index(text) + field.low
    raise _InvalidItem(_say_unreadable(field, text))


def _read_special(field: _Field, item: str) -> _Special | None:
    """Parse an item that a mask can't represent: `L`, `LW`, `5L`, `FRI#2`; None for others."""
    if field is _DAY and item in {"L", "LW"}:
        return _Special(is_last_day=item == "L", is_last_workday=item == "LW")
    found = _SPECIAL_WEEKDAY.fullmatch(item) if field is _WEEKDAY else None
    if found is None:
        return None
    if found["nth"] is not None and found["nth"] not in {"1", "2", "3", "4", "5"}:
        raise _InvalidItem(f"{item!a}: a month has the first to the fifth of a weekday, #1 to #5")
    return _Special(weekday=1 << _read_value(field, found["day"]) % 7, nth=int(found["nth"] or 0))


def _say_unreadable(field: _Field, item: str) -> str:
    shown = ascii(item if len(item) <= 20 else f"{item[:20]}...")
    if not item:
        return "empty list item"
    if field is _WEEKDAY and item == "L":
        return "L needs its weekday: FRIL is the last Friday"
    if field is _DAY and re.fullmatch(r"[0-9]+W|W|L-[0-9]+", item):
        return f"{shown} is not supported; there are L (the last day) and LW (the last Monday to Friday)"
    if re.fullmatch(r"H(\(.*\))?(/[0-9]+)?", item):
        return f"{shown} is not supported: choose a value, and spread the starts with jitter_seconds"
    hint = did_you_mean(item, field.names) if item.isalpha() else ""
    names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
    return f"{shown} is not a value from {field.low} to {field.high}{names}, range or step{hint}"


def _assemble(texts: list[str], masks: list[int], specials: list[_Special]) -> Cron:
    nth = [0] * 5
    for special in specials:
        if special.nth:
            nth[special.nth - 1] |= special.weekday
    is_open = [text.startswith(("*", "?")) for text in texts]
    return Cron(
        **dict(zip(Cron.__struct_fields__, masks, strict=False)),
        is_last_day=any(special.is_last_day for special in specials),
        is_last_workday=any(special.is_last_workday for special in specials),
        nth_weekdays=tuple(nth) if any(nth) else (),
        last_weekdays=sum({special.weekday for special in specials if not special.nth}),
        needs_both_days=is_open[3] or is_open[5],
        is_every_day=masks[3:] == [ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS],
        is_periodic=is_open[1] or is_open[2],
    )


def _refusal(faults: list[Fault]) -> Refused:
    return Refused("invalid cron expression", faults)
