"""Strict reader of TOML configuration files: errors carry the line and a suggestion."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import InvalidFile

if TYPE_CHECKING:
    from mainspring.definitions.files.sources import Position

Keys = tuple[str, ...]

_WORD = re.compile(r""""[^"]*"|'[^']*'|[A-Za-z0-9_-]+""")
_HEADER = re.compile(r"\s*\[+([^\]]+)\]")
_ENTRY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_.\s-])+?)\s*=""")
_AT_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")


class TomlFile:
    """A TOML file with its text and tables."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises InvalidFile if it is not TOML."""
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.root: Mapping[str, object] = tomllib.loads(self.text)
        except OSError as error:
            raise InvalidFile(f"{path} can't be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InvalidFile(f"{path} is not UTF-8 (byte {error.start})") from error
        except tomllib.TOMLDecodeError as error:
            raise self._refuse_text(str(error)) from error

    def table(self, *keys: str) -> Mapping[str, object]:
        """Return a table, empty if missing. Raises InvalidFile if the value is not a table."""
        found: object = self.root
        for depth, key in enumerate(keys, 1):
            found = found.get(key, {}) if isinstance(found, Mapping) else {}
            if not isinstance(found, Mapping):
                raise self.error_at(keys[:depth], "must be a table")
        assert isinstance(found, Mapping), "checked in the loop"
        return found

    def text_at(self, *keys: str) -> str | None:
        """Return a string, or None if missing. Raises InvalidFile if the value is not a string."""
        value = self.table(*keys[:-1]).get(keys[-1])
        if value is None or isinstance(value, str):
            return value
        raise self.error_at(keys, "must be a string")

    def check_keys(self, table: Keys, known: Iterable[str]) -> None:
        """Raise InvalidFile for the first unknown key of a table."""
        names = sorted(known)
        for key in self.table(*table):
            if key not in names:
                hint = did_you_mean(key, names).removeprefix(", ") or f"known keys: {', '.join(names)}"
                raise self.error_at((*table, key), f"unknown field `{key}`", hint)

    def error_at(self, keys: Keys, why: str, note: str = "") -> InvalidFile:
        """Return an error located at a key."""
        return self._refuse(_place_of(self.text, keys), why, note)

    def _refuse_text(self, why: str) -> InvalidFile:
        from mainspring.definitions.files.sources import Position

        at = _AT_LINE.search(why)
        place = Position(int(at[1]) - 1, int(at[2]) - 1) if at else Position(max(0, self.text.count("\n")), 0)
        return self._refuse(place, f"is not TOML: {_AT_LINE.sub('', why).strip()}", "")

    def _refuse(self, place: Position, why: str, note: str) -> InvalidFile:
        from mainspring.definitions.files.sources import FileIssue, render

        return InvalidFile(render(str(self.path), self.text, [FileIssue(place=place, why=why, note=note)]))


def _place_of(text: str, keys: Keys) -> Position:
    """Return the position of a key; the start of the file if the key is not found."""
    from mainspring.definitions.files.sources import Position

    for number, column, found in _keys_in(text):
        if found[: len(keys)] == keys:
            return Position(number, column, len(keys[-1]))
    return Position(0, 0)


def _keys_in(text: str) -> Iterator[tuple[int, int, Keys]]:
    """Yield line, column and full name of every table and entry."""
    table: Keys = ()
    for number, line in enumerate(text.splitlines()):
        if header := _HEADER.match(line):
            table = _split(header[1])
            yield number, header.start(1), table
        elif entry := _ENTRY.match(line):
            yield number, entry.start(1), (*table, *_split(entry[1]))


def _split(name: str) -> Keys:
    return tuple(word.strip("\"'") for word in _WORD.findall(name))
