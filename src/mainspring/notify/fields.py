"""Reads the fields of one entry of the channels file.

Each method returns None for a missing or invalid field, and records a fault with its position. Faults never quote
values: any of them may be a misplaced secret.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeVar

from mainspring.core.text.suggestions import did_you_mean
from mainspring.definitions.files.sources import Entry, FileIssue, Node
from mainspring.protocol.errors import Refused
from mainspring.secret_references import Secret, resolve_reference

_E = TypeVar("_E", bound=StrEnum)


class Fields:
    """A mapping in the file."""

    def __init__(self, path: str, node: Node, faults: list[FileIssue], environment: Mapping[str, str]) -> None:
        self._path = path
        self._node = node
        self._faults = faults
        self._faults_before = len(faults)
        self._environment = environment
        self._entries: dict[str, Entry] = node.value if isinstance(node.value, dict) else {}
        if not isinstance(node.value, dict):
            self.add_fault("", "must be a mapping")

    @property
    def is_valid(self) -> bool:
        """Whether no fault was recorded so far."""
        return len(self._faults) == self._faults_before

    def add_fault(self, key: str, why: str) -> None:
        """Record a fault of a field, or of the whole mapping."""
        place = self._entries[key].place if key in self._entries else self._node.place
        path = ".".join(part for part in (self._path, key) if part)
        self._faults.append(FileIssue(place=place, why=f"{path}: {why}" if path else why))

    def has(self, key: str) -> bool:
        """Return whether a field is present."""
        return key in self._entries

    def refuse_others(self, known: Collection[str]) -> None:
        """Record a fault for each unknown field."""
        for key in self._entries:
            if key not in known:
                self.add_fault(key, f"is unknown{did_you_mean(key, known)}")

    def text(self, key: str) -> str | None:
        """Return a required string."""
        entry = self._entries.get(key)
        if entry is None:
            self.add_fault(key, "is missing")
        elif not isinstance(entry.node.value, str) or not entry.node.value:
            self.add_fault(key, "must be a string")
        else:
            return entry.node.value
        return None

    def flag(self, key: str) -> bool | None:
        """Return an optional boolean; by default false."""
        value = self._entries[key].node.value if key in self._entries else False
        if isinstance(value, bool):
            return value
        self.add_fault(key, "must be true or false")
        return None

    def choice(self, key: str, choices: type[_E]) -> _E | None:
        """Return a required enum value."""
        value = self.text(key)
        return None if value is None else self._one_of(key, value, choices)

    def choices(self, key: str, choices: type[_E]) -> frozenset[_E]:
        """Return an optional list of enum values; by default empty."""
        found = (self._one_of(key, value, choices) for value in self.texts(key)) if self.has(key) else ()
        return frozenset(choice for choice in found if choice is not None)

    def texts(self, key: str) -> list[str]:
        """Return a required, non-empty list of strings."""
        entry = self._entries.get(key)
        items = entry.node.value if entry is not None else None
        if entry is None:
            self.add_fault(key, "is missing")
            return []
        texts = [item.value for item in items if isinstance(item.value, str)] if isinstance(items, list) else []
        if not texts or not isinstance(items, list) or len(texts) < len(items):
            self.add_fault(key, "must be a list of strings")
        return texts

    def secret(self, key: str) -> Secret | None:
        """Resolve a required secret reference."""
        reference = self.text(key)
        if reference is None:
            return None
        try:
            return resolve_reference(reference, self._environment)
        except Refused as refused:
            self.add_fault(key, str(refused))
            return None

    def _one_of(self, key: str, value: str, choices: type[_E]) -> _E | None:
        if value in set(choices):
            return choices(value)
        hint = did_you_mean(value, list(choices)) or f": must be one of {', '.join(choices)}"
        self.add_fault(key, f"has an unknown value{hint}")
        return None
