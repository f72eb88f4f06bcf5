"""Labels that somebody else can choose, kept few: a series costs Prometheus memory for as long as it is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key")

OTHER = "_other"
"""The label of all that have none of their own."""
MOST = 200


class FewLabels:
    """Gives each name a label of its own, up to so many; all further ones share OTHER. A label once given stays."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._given: set[str] = set()

    def of(self, name: str) -> str:
        """The label of a name."""
        if name in self._given:
            return name
        if len(self._given) < self._most:
            self._given.add(name)
            return name
        return OTHER


def largest(values: Mapping[str, float], most: int = MOST) -> dict[str, float]:
    """The largest values by name, and all others added up under OTHER."""
    kept = sorted(values, key=lambda name: (-values[name], name))[:most]
    few = {name: values[name] for name in kept}
    if len(values) > len(kept):
        few[OTHER] = sum(values.values()) - sum(few.values())
    return few


def shared_names(names: Iterable[str], most: int = MOST) -> dict[str, str]:
    """For each name its label, the first ones in order of the alphabet their own."""
    ordered = sorted(set(names))
    return {name: name if place < most else OTHER for place, name in enumerate(ordered)}
