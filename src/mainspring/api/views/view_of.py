"""Build a view from a row, or a row from a request: fields of the same name are copied, the others are given."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

V = TypeVar("V", bound=msgspec.Struct)
_NULL = msgspec.Raw(b"null")


def view_of(kind: type[V], row: Any, **given: Any) -> V:
    """Build a struct from the attributes of another, except for the fields that are given."""
    for name in _common_fields(kind, type(row)):  # type: ignore[arg-type]
        if name not in given:
            given[name] = getattr(row, name)
    return kind(**given)


def raw(text: str | bytes | None) -> msgspec.Raw:
    """Return stored JSON as part of a view; null for none."""
    return _NULL if text is None else msgspec.Raw(text)


@cache
def _common_fields(view: type[msgspec.Struct], row: type) -> tuple[str, ...]:
    return tuple(name for name in view.__struct_fields__ if hasattr(row, name))
