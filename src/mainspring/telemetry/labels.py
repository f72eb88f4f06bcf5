"""Bounds the values of labels that callers can choose: every series costs Prometheus memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key")

OTHER = "_other"
"""The label that further names share."""
MAX_LABELS = 200


class BoundedLabels:
    """Gives each name its own label up to a limit; further names share OTHER. Labels are permanent."""

    def __init__(self, limit: int = MAX_LABELS) -> None:
        self._limit = limit
        self._given: set[str] = set()

    def of(self, name: str) -> str:
        """Return the label of a name."""
        if name in self._given:
            return name
        if len(self._given) < self._limit:
            self._given.add(name)
            return name
        return OTHER


def largest(values: Mapping[str, float], limit: int = MAX_LABELS) -> dict[str, float]:
    """Return the largest values by name, and the sum of the others under OTHER."""
    kept = sorted(values, key=lambda name: (-values[name], name))[:limit]
    top = {name: values[name] for name in kept}
    if len(values) > len(kept):
        top[OTHER] = sum(values.values()) - sum(top.values())
    return top


def bounded_labels(names: Iterable[str], limit: int = MAX_LABELS) -> dict[str, str]:
    """Return the label of each name; in alphabetical order, the first names get their own."""
    ordered = sorted(set(names))
    return {name: name if place < limit else OTHER for place, name in enumerate(ordered)}
