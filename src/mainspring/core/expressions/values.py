"""JSON values as an expression sees them: passed one by one, and counted.

1. One evaluation gets at most MAX_VALUES values and MAX_TEXT characters, whichever filters they pass and however often.
   Beyond that `EvaluationBudget.fault` is set, no more values are passed, and the evaluation reports the fault.
2. An object exposes its keys and an array its items: no attributes, no methods, no mutation.

The engine treats a registered Sequence as an array, and a value with `items` as an object. It asks for an attribute
where a key is missing, unless the name begins with `_`: so `items` is the only public name here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NoReturn, TypeAlias

import msgspec

from mainspring.protocol.errors import ExpressionFailed

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_VALUES = 4_000
"""At 0.26 µs each, about a millisecond."""
MAX_TEXT = 32 * 1024
MAX_VALUE_DEPTH = 64
"""Maximum nesting that an expression can read: the engine compares and writes values recursively."""

_TOO_MANY = f"reads more than {MAX_VALUES} values"
_TOO_LONG = f"reads more than {MAX_TEXT} characters of text"
_TOO_DEEP = f"reads values nested deeper than {MAX_VALUE_DEPTH}"


class EvaluationBudget:
    """Remaining budget of one evaluation."""

    __slots__ = ("fault", "missing", "text", "values")

    def __init__(self) -> None:
        self.values = MAX_VALUES
        self.text = MAX_TEXT
        self.fault: str | None = None
        self.missing: str | None = None
        """The last key that was looked up and not found."""

    def show(self, value: JsonValue, depth: int = 0) -> EngineValue:
        """Wrap a value for the engine. Raises LookupError if the budget is exhausted."""
        self.charge(1, len(value) if isinstance(value, str) else 0)
        if isinstance(value, dict):
            return Object(value, self, depth)
        if isinstance(value, list):
            return Array(value, self, depth)
        return value

    def charge(self, values: int, text: int) -> None:
        """Charge values and text. Raises LookupError if the budget is exhausted."""
        self.values -= values
        self.text -= text
        if self.values < 0:
            self.refuse(_TOO_MANY)
        if self.text < 0:
            self.refuse(_TOO_LONG)

    def write(self, value: JsonValue) -> str:
        """Return a value as JSON text, charged. Never raises, since the engine can't handle it: returns an empty text
        then."""
        try:
            text = msgspec.json.encode(value).decode()
            self.charge(1, len(text))
        except RecursionError:
            self.fault = self.fault or _TOO_DEEP
        except LookupError:
            pass  # The fault is set; the evaluation reports it.
        else:
            return text
        return ""

    def refuse(self, fault: str) -> NoReturn:
        """Fail this evaluation. The engine may swallow the exception; the fault stays."""
        self.fault = self.fault or fault
        raise LookupError(fault)


class Array:
    """A JSON array. The engine asks for its length, then for each index."""

    __slots__ = ("_budget", "_depth", "_values")

    def __init__(self, values: list[JsonValue], budget: EvaluationBudget, depth: int) -> None:
        if depth > MAX_VALUE_DEPTH:
            budget.refuse(_TOO_DEEP)
        self._values = values
        self._budget = budget
        self._depth = depth

    def __getitem__(self, index: int) -> EngineValue:
        return self._budget.show(self._values[index], self._depth + 1)

    def __len__(self) -> int:
        # The engine would ask for every item after the budget is exhausted: report an empty array instead.
        if len(self._values) > self._budget.values:
            self._budget.fault = self._budget.fault or _TOO_MANY
            return 0
        return len(self._values)

    def __str__(self) -> str:
        return self._budget.write(self._values)


class Object:
    """A JSON object. The engine looks up keys, and iterates over them."""

    __slots__ = ("_budget", "_depth", "_hides_items", "_values")

    def __init__(self, values: dict[str, JsonValue], budget: EvaluationBudget, depth: int) -> None:
        if depth > MAX_VALUE_DEPTH:
            budget.refuse(_TOO_DEEP)
        self._values = values
        self._budget = budget
        self._depth = depth
        self._hides_items = False

    def __getitem__(self, key: str) -> EngineValue:
        if key not in self._values:
            self._budget.missing = str(key)
            self._hides_items = key == "items"
            raise KeyError(key)
        return self._budget.show(self._values[key], self._depth + 1)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        self._budget.charge(len(self._values), sum(map(len, self._values)))
        return iter(self._values)

    def __str__(self) -> str:
        return self._budget.write(self._values)

    @property
    def items(self) -> None:
        """Exists so that the engine recognizes an object; raises AttributeError when it looks up a missing key
        `items`."""
        if self._hides_items:
            self._hides_items = False
            raise AttributeError


Sequence.register(Array)

EngineValue: TypeAlias = "bool | int | float | str | Array | Object | None"


def raw(value: Array | Object) -> list[JsonValue] | dict[str, JsonValue]:
    """Return the wrapped value. Must not be passed back to the engine."""
    return value._values


def plain(value: object) -> JsonValue:
    """Convert a result of the engine to a JSON value. Raises ExpressionFailed if it is not one."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise ExpressionFailed("evaluates to a number that is not finite")
            return value
        case Array() | Object():
            return raw(value)
        case list() | tuple():
            return [plain(one) for one in value]
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case _:
            raise ExpressionFailed("evaluates to something that is not a JSON value")
