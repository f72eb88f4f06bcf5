"""Bounds the values of labels that callers can choose: every series costs Prometheus memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key")

OTHER = "_other"
"""The label that further names share."""
MOST = 200


class FewLabels:
    """Gives each name its own label up to a limit; further names share OTHER. Labels are permanent."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._given: set[str] = set()

    def of(self, name: str) -> str:
        """Return the label of a name."""
        if name in self._given:
            return name
        if len(self._given) < self._most:
            self._given.add(name)
            return name
        return OTHER


def largest(values: Mapping[str, float], most: int = MOST) -> dict[str, float]:
    """Return the largest values by name, and the sum of the others under OTHER."""
    kept = sorted(values, key=lambda name: (-values[name], name))[:most]
    few = {name: values[name] for name in kept}
    if len(values) > len(kept):
        few[OTHER] = sum(values.values()) - sum(few.values())
    return few


def shared_names(names: Iterable[str], most: int = MOST) -> dict[str, str]:
    """Return the label of each name; in alphabetical order, the first names get their own."""
    ordered = sorted(set(names))
    return {name: name if place < most else OTHER for place, name in enumerate(ordered)}
