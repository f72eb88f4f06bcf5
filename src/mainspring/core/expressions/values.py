"""JSON values as an expression sees them: handed over one by one, and counted.

1. One evaluation gets at most LOOKS values and TEXT characters, whichever filters they pass and however often. Past
   that `Look.fault` is set, nothing more is handed over, and whoever evaluates says so.
2. An object shows its keys and an array its items: no attributes, no methods, no way to change them.

The engine takes for an array what is registered as a Sequence, and for an object what has `items`. It asks for an
attribute where a key is missing, unless the name begins with `_`: so nothing here has a public name but that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NoReturn, TypeAlias

import msgspec

from mainspring.protocol.errors import ExpressionFailed

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

LOOKS = 4_000
"""At 0.26 µs each, about a millisecond."""
TEXT = 32 * 1024
DEEPEST_VALUE = 64
"""How deep an expression can look into nested values: the engine compares and writes them recursively."""

_TOO_MANY = f"it looks at more than {LOOKS} values"
_TOO_LONG = f"it looks at more than {TEXT} characters of text"
_TOO_DEEP = f"it looks into values that nest deeper than {DEEPEST_VALUE}"


class Look:
    """What one evaluation may still look at."""

    __slots__ = ("fault", "missing", "text", "values")

    def __init__(self) -> None:
        self.values = LOOKS
        self.text = TEXT
        self.fault: str | None = None
        self.missing: str | None = None
        """The last key that was asked for and not there."""

    def show(self, value: JsonValue, depth: int = 0) -> Seen:
        """A value as the engine may have it. Raises LookupError if that would be too much."""
        self.charge(1, len(value) if isinstance(value, str) else 0)
        if isinstance(value, dict):
            return Object(value, self, depth)
        if isinstance(value, list):
            return Array(value, self, depth)
        return value

    def charge(self, values: int, text: int) -> None:
        """Count what is about to be handed over. Raises LookupError if that would be too much."""
        self.values -= values
        self.text -= text
        if self.values < 0:
            self.refuse(_TOO_MANY)
        if self.text < 0:
            self.refuse(_TOO_LONG)

    def write(self, value: JsonValue) -> str:
        """A value as JSON text, counted. Never raises, as the engine could not bear it: the text is empty then."""
        try:
            text = msgspec.json.encode(value).decode()
            self.charge(1, len(text))
        except RecursionError:
            self.fault = self.fault or _TOO_DEEP
        except LookupError:
            pass  # The fault is set, and whoever evaluates finds it.
        else:
            return text
        return ""

    def refuse(self, fault: str) -> NoReturn:
        """Fail this evaluation. The engine may swallow what is raised here; the fault stays."""
        self.fault = self.fault or fault
        raise LookupError(fault)


class Array:
    """A JSON array. The engine asks for its length, then for each index."""

    __slots__ = ("_depth", "_look", "_values")

    def __init__(self, values: list[JsonValue], look: Look, depth: int) -> None:
        if depth > DEEPEST_VALUE:
            look.refuse(_TOO_DEEP)
        self._values = values
        self._look = look
        self._depth = depth

    def __getitem__(self, index: int) -> Seen:
        return self._look.show(self._values[index], self._depth + 1)

    def __len__(self) -> int:
        # Who asks wants them all, and would go on to ask for each of a million in vain: better there are none.
        if len(self._values) > self._look.values:
            self._look.fault = self._look.fault or _TOO_MANY
            return 0
        return len(self._values)

    def __str__(self) -> str:
        return self._look.write(self._values)


class Object:
    """A JSON object. The engine asks for keys, and walks over them."""

    __slots__ = ("_depth", "_hides_items", "_look", "_values")

    def __init__(self, values: dict[str, JsonValue], look: Look, depth: int) -> None:
        if depth > DEEPEST_VALUE:
            look.refuse(_TOO_DEEP)
        self._values = values
        self._look = look
        self._depth = depth
        self._hides_items = False

    def __getitem__(self, key: str) -> Seen:
        if key not in self._values:
            self._look.missing = str(key)
            self._hides_items = key == "items"
            raise KeyError(key)
        return self._look.show(self._values[key], self._depth + 1)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        self._look.charge(len(self._values), sum(map(len, self._values)))
        return iter(self._values)

    def __str__(self) -> str:
        return self._look.write(self._values)

    @property
    def items(self) -> None:
        """There, so that the engine knows this for an object; not there when it asks after a missing key `items`."""
        if self._hides_items:
            self._hides_items = False
            raise AttributeError


Sequence.register(Array)

Seen: TypeAlias = "bool | int | float | str | Array | Object | None"


def raw(value: Array | Object) -> list[JsonValue] | dict[str, JsonValue]:
    """What is behind a value that the engine has seen. Never to be handed back to it."""
    return value._values


def plain(value: object) -> JsonValue:
    """A result of the engine as a JSON value. Raises ExpressionFailed if it is none."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise ExpressionFailed("it gives a number that is not finite")
            return value
        case Array() | Object():
            return raw(value)
        case list() | tuple():
            return [plain(one) for one in value]
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case _:
            raise ExpressionFailed("it gives something that is no JSON value")
