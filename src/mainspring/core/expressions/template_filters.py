"""Our own template filters: those that iterate or build lists, may grow a text, or compute dates.

1. Their input is charged to the evaluation's `EvaluationBudget`, and a list that they return is an `Array` again, so
   that the next filter is charged as well.
2. They never pass a Python list or dict to the engine, which would expose its methods to the expression.
3. They fail with a sentence when the value has the wrong type.

To add one: `FILTERS` here and in `core/expressions/grammar.py`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta

import msgspec
from minijinja import pass_state
from minijinja._lowlevel import State

from mainspring.core.expressions.values import Array, EngineValue, EvaluationBudget, JsonValue, Object, plain, raw
from mainspring.protocol.errors import ExpressionFailed

BUDGET_VARIABLE = "_budget"
"""Name of an evaluation's `EvaluationBudget` in the engine's context. Expressions can't name it: it begins with _."""

_COMPARISONS: Mapping[str, Callable[..., bool]] = {
    "eq": operator.eq, "equalto": operator.eq, "==": operator.eq, "ne": operator.ne, "!=": operator.ne,
    "lt": operator.lt, "lessthan": operator.lt, "<": operator.lt, "le": operator.le, "<=": operator.le,
    "gt": operator.gt, "greaterthan": operator.gt, ">": operator.gt, "ge": operator.ge, ">=": operator.ge,
}  # fmt: skip
_ABSENT = object()
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d(?::\d\d)?)?)?",
    re.ASCII,
)
"""A date, or an RFC 3339 time: the date is that of its own zone."""
_MAX_DAYS = 1_000_000


def _length(_budget: EvaluationBudget, value: object) -> EngineValue:
    """Return the number of items, keys or characters."""
    if isinstance(value, (Array, Object)):
        return len(raw(value))
    if isinstance(value, (list, dict, str)):
        return len(value)
    raise ExpressionFailed(f"length needs a list, an object or a string, not {_kind(value)}")


def _list(budget: EvaluationBudget, value: object) -> EngineValue:
    """Return a list unchanged, and an object as the list of its keys."""
    values = plain(value)
    if isinstance(values, dict):
        budget.charge(len(values), sum(map(len, values)))
        return Array([*values], budget, 0)
    if isinstance(values, list):
        return Array(values, budget, 0)
    raise ExpressionFailed(f"list needs a list or an object, not {_kind(value)}")


def _map(budget: EvaluationBudget, value: object, *, attribute: str, default: object = _ABSENT) -> EngineValue:
    """Return one field of each item: `rows|map(attribute='size')`."""
    found: list[JsonValue] = []
    for row in _rows(budget, value, "map"):
        field = _field(row, attribute)
        if field is _ABSENT:
            if default is _ABSENT:
                raise ExpressionFailed(f"an item has no {attribute!r} (use `default=...`)")
            field = default
        found.append(plain(field))
    return Array(found, budget, 0)


def _by_attribute(name: str, *, passing: bool) -> Callable[..., EngineValue]:
    """Return the filter for the items whose field passes, or does not: `rows|selectattr('state', 'equalto', 'bad')`, or
    just `selectattr('flag')`."""

    def called(
        budget: EvaluationBudget, value: object, attribute: str, test: str = "true", than: object = None
    ) -> EngineValue:
        rows = _rows(budget, value, name)
        return Array([row for row in rows if _passes(row, attribute, test, than) == passing], budget, 0)

    return called


def _sort(
    budget: EvaluationBudget, value: object, *, reverse: bool = False, attribute: str | None = None
) -> EngineValue:
    """Return the items sorted; numbers or texts only."""
    rows = _rows(budget, value, "sort")
    keys = rows if attribute is None else [_field(row, attribute) for row in rows]
    if not (all(isinstance(key, str) for key in keys) or all(_is_number(key) for key in keys)):
        raise ExpressionFailed("sort needs only numbers or only strings")
    order = sorted(range(len(rows)), key=keys.__getitem__, reverse=bool(reverse))  # type: ignore[arg-type]
    return Array([rows[index] for index in order], budget, 0)


def _unique(budget: EvaluationBudget, value: object) -> EngineValue:
    """Return each distinct item once, at its first position."""
    rows = _rows(budget, value, "unique")
    return Array(list({msgspec.json.encode(row): row for row in reversed(rows)}.values())[::-1], budget, 0)


def _join(budget: EvaluationBudget, value: object, separator: str = "") -> EngineValue:
    """Return the items joined into one text."""
    rows = _rows(budget, value, "join")
    budget.charge(0, len(_text(separator, "join")) * len(rows))
    return separator.join(row if isinstance(row, str) else budget.write(row) for row in rows)


def _replace(budget: EvaluationBudget, value: object, old: str, new: str) -> EngineValue:
    """Return a text with each `old` replaced."""
    text, old, new = _text(value, "replace"), _text(old, "replace"), _text(new, "replace")
    if not old:
        raise ExpressionFailed("replace needs a string to replace")
    budget.charge(1, text.count(old) * len(new))
    return text.replace(old, new)


def _times(_budget: EvaluationBudget, value: object, factor: object) -> EngineValue:
    """Return the product of two numbers."""
    if not _is_number(value) or not _is_number(factor):
        raise ExpressionFailed(f"times needs two numbers, not {_kind(value)} and {_kind(factor)}")
    assert isinstance(value, (int, float))
    assert isinstance(factor, (int, float))
    return value * factor


def _tojson(budget: EvaluationBudget, value: object) -> EngineValue:
    """Return a value as JSON text."""
    return budget.write(plain(value))


def _date_after(days: int) -> Callable[..., EngineValue]:
    """Return the filter that adds this number of days to the date of a time: with 0, `2026-11-16T06:30:00+01:00` gives
    `2026-11-16`."""

    def called(budget: EvaluationBudget, value: object) -> EngineValue:
        return _plus_days(budget, value, days)

    return called


def _plus_days(_budget: EvaluationBudget, value: object, days: object) -> EngineValue:
    """Return the date that many days after that of a time, or before it if the number is negative."""
    if not isinstance(days, int) or isinstance(days, bool):
        raise ExpressionFailed("plus_days needs a whole number of days")
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    try:
        if match is not None and abs(days) <= _MAX_DAYS:
            return (date.fromisoformat(match[1]) + timedelta(days=days)).isoformat()
    except (ValueError, OverflowError):
        # No such date, or out of range: reported below.
        match = None
    if match is not None:
        raise ExpressionFailed(f"plus_days needs from -{_MAX_DAYS} to {_MAX_DAYS} days")
    raise ExpressionFailed("needs a time such as 2026-11-16T06:30:00Z, or a date in the years 1 to 9999")


def _counted(function: Callable[..., EngineValue]) -> Callable[..., EngineValue]:
    """Wrap a filter for the engine: pass it the `EvaluationBudget` of the evaluation."""

    @pass_state
    def called(state: State, /, *args: object, **named: object) -> EngineValue:
        budget = state.lookup(BUDGET_VARIABLE)
        assert isinstance(budget, EvaluationBudget)
        return function(budget, *args, **named)

    return called


FILTERS: Mapping[str, Callable[..., EngineValue]] = {
    "count": _counted(_length),
    "date": _counted(_date_after(0)),
    "join": _counted(_join),
    "length": _counted(_length),
    "list": _counted(_list),
    "map": _counted(_map),
    "plus_days": _counted(_plus_days),
    "rejectattr": _counted(_by_attribute("rejectattr", passing=False)),
    "replace": _counted(_replace),
    "selectattr": _counted(_by_attribute("selectattr", passing=True)),
    "sort": _counted(_sort),
    "times": _counted(_times),
    "tojson": _counted(_tojson),
    "tomorrow": _counted(_date_after(1)),
    "unique": _counted(_unique),
    "yesterday": _counted(_date_after(-1)),
}


def _rows(budget: EvaluationBudget, value: object, what: str) -> list[JsonValue]:
    """Return the items of a list, charged to the budget."""
    values = plain(value)
    if not isinstance(values, list):
        raise ExpressionFailed(f"{what} needs a list, not {_kind(value)}")
    budget.charge(len(values), 0)
    budget.charge(0, sum(len(one) for one in values if isinstance(one, str)))
    return values


def _field(row: JsonValue, path: str) -> object:
    """Return the value at a dotted path, or _ABSENT."""
    found = row
    for key in path.split("."):
        if not isinstance(found, dict) or key not in found:
            return _ABSENT
        found = found[key]
    return found


def _passes(row: JsonValue, attribute: str, test: str, than: object) -> bool:
    field = _field(row, attribute)
    if test in ("defined", "undefined"):
        return (field is not _ABSENT) == (test == "defined")
    if field is _ABSENT:
        return False
    value = plain(field)
    if test in ("true", "false"):
        return bool(value) == (test == "true")
    if test == "none":
        return value is None
    if test not in _COMPARISONS:
        raise ExpressionFailed(f"unknown test {test!r}")
    other = plain(than)
    if (
        test in ("eq", "equalto", "==", "ne", "!=")
        or (_is_number(value) and _is_number(other))
        or (isinstance(value, str) and isinstance(other, str))
    ):
        return _COMPARISONS[test](value, other)
    return False


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ExpressionFailed(f"{what} needs a string, not {_kind(value)}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(value: object) -> str:
    """Return the name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, (Array, list)) else "an object"
