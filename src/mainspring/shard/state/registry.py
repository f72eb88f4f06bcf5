"""Entries by id: everyone reads them like a dictionary, and only the methods of a subclass change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

_V = TypeVar("_V")


class Registry(Generic[_V]):
    """Entries by id, in the order in which they were added."""

    def __init__(self) -> None:
        self._by_id: dict[str, _V] = {}
        self.get = self._by_id.get
        self.values = self._by_id.values
        self.items = self._by_id.items
        self.keys = self._by_id.keys

    def __getitem__(self, id: str) -> _V:
        return self._by_id[id]

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)
