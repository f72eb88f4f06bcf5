"""One entry of the file of channels, asked field by field.

Each question answers None for what is missing or wrong, and notes the fault with its place. A value is not quoted in a
fault: any of them may be a secret that stands where it should not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeVar

from mainspring.core.text.suggestions import did_you_mean
from mainspring.definitions.files.sources import Entry, Flaw, Node
from mainspring.notify.secret_references import Secret, look_up
from mainspring.protocol.errors import Refused

_E = TypeVar("_E", bound=StrEnum)


class Fields:
    """A mapping of the file."""

    def __init__(self, path: str, node: Node, flaws: list[Flaw], environment: Mapping[str, str]) -> None:
        self._path = path
        self._node = node
        self._flaws = flaws
        self._flaws_before = len(flaws)
        self._environment = environment
        self._entries: dict[str, Entry] = node.value if isinstance(node.value, dict) else {}
        if not isinstance(node.value, dict):
            self.complain("", "must be a mapping")

    @property
    def is_sound(self) -> bool:
        """Whether nothing was wrong with it so far."""
        return len(self._flaws) == self._flaws_before

    def complain(self, key: str, why: str) -> None:
        """Note a fault of a field, or of the whole."""
        place = self._entries[key].place if key in self._entries else self._node.place
        path = ".".join(part for part in (self._path, key) if part)
        self._flaws.append(Flaw(place=place, why=f"{path}: {why}" if path else why))

    def has(self, key: str) -> bool:
        """Whether a field is there."""
        return key in self._entries

    def refuse_others(self, known: Collection[str]) -> None:
        """Fields that nobody knows are faults."""
        for key in self._entries:
            if key not in known:
                self.complain(key, f"is not known{did_you_mean(key, known)}")

    def text(self, key: str) -> str | None:
        """A text; it must be there."""
        entry = self._entries.get(key)
        if entry is None:
            self.complain(key, "is missing")
        elif not isinstance(entry.node.value, str) or not entry.node.value:
            self.complain(key, "must be a text")
        else:
            return entry.node.value
        return None

    def flag(self, key: str) -> bool | None:
        """True or false; false if it is not there."""
        value = self._entries[key].node.value if key in self._entries else False
        if isinstance(value, bool):
            return value
        self.complain(key, "must be true or false")
        return None

    def word(self, key: str, words: type[_E]) -> _E | None:
        """One of a few words; it must be there."""
        value = self.text(key)
        return None if value is None else self._one_of(key, value, words)

    def words(self, key: str, words: type[_E]) -> frozenset[_E]:
        """Some of a few words; none if it is not there."""
        found = (self._one_of(key, value, words) for value in self.texts(key)) if self.has(key) else ()
        return frozenset(word for word in found if word is not None)

    def texts(self, key: str) -> list[str]:
        """A list of texts with something in it; it must be there."""
        entry = self._entries.get(key)
        items = entry.node.value if entry is not None else None
        if entry is None:
            self.complain(key, "is missing")
            return []
        texts = [item.value for item in items if isinstance(item.value, str)] if isinstance(items, list) else []
        if not texts or not isinstance(items, list) or len(texts) < len(items):
            self.complain(key, "must be a list of texts")
        return texts

    def secret(self, key: str) -> Secret | None:
        """What is behind a reference; it must be there."""
        reference = self.text(key)
        if reference is None:
            return None
        try:
            return look_up(reference, self._environment)
        except Refused as refused:
            self.complain(key, str(refused))
            return None

    def _one_of(self, key: str, value: str, words: type[_E]) -> _E | None:
        if value in set(words):
            return words(value)
        hint = did_you_mean(value, list(words)) or f": must be one of {', '.join(words)}"
        self.complain(key, f"it is not known{hint}")
        return None
