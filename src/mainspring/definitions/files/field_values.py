"""Field readers: how a value is read, its target in the strict form, and the issue if it does not fit.

A reader takes a node and returns a value, or raises `mismatch`; `gather` combines the issues of several readers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from mainspring.core.text.durations import parse_seconds
from mainspring.core.text.quantities import parse_bytes
from mainspring.core.text.suggestions import most_similar
from mainspring.definitions.files.sources import Entry, FileIssue, Node, plain

Path: TypeAlias = "tuple[str | int, ...]"
"""Path to a value of the strict form."""
Inner: TypeAlias = "tuple[str, Callable[[Node], object]]"
"""Name of a nested field in the strict form, and its reader."""
T = TypeVar("T")
MAX_ISSUES = 100
"""Issues reported per file. Also bounds the time for a file full of them."""

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ONE_EXPRESSION = re.compile(r"\s*\{\{(?:(?!\}\}).)*\}\}\s*", re.DOTALL)
_PREDICATE = re.compile(
    r"(must|is|are|has|have|nests|leaves|uses|reads|evaluates|applies|exceeds|contains|fetches|requires|can't)\b"
)
_FOR_A_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})


class Unreadable(msgspec.Struct, frozen=True):
    """Issues of a value that could not be read."""

    issues: tuple[FileIssue, ...]


class _Mismatch(Exception):
    def __init__(self, *issues: FileIssue) -> None:
        super().__init__(", ".join(issue.why for issue in issues))
        self.issues = issues


class Field(msgspec.Struct, frozen=True):
    """Target of a field in the strict form, and its reader."""

    target: Path
    convert: Callable[[Node], object]
    names: Mapping[str, str] = {}
    """Names of nested fields in the strict form, where they differ."""


def mismatch(node: Node, why: str, note: str = "") -> Exception:
    """Return the exception of a reader that can't take a value; `attempt` catches it."""
    return _Mismatch(FileIssue(place=node.place, why=why, note=note))


def attempt(key: str, read: Callable[[Node], T], node: Node) -> T | Unreadable:
    """Return the value of a field, or its issues, with the field's name."""
    try:
        return read(node)
    except _Mismatch as flawed:
        return Unreadable(tuple(msgspec.structs.replace(issue, why=named(key, issue.why)) for issue in flawed.issues))


def gather(reads: Iterable[Callable[[], T]]) -> list[T]:
    """Return the values of several readers. Raises the issues of all of them together."""
    found: list[T] = []
    issues: list[FileIssue] = []
    for read in reads:
        try:
            found.append(read())
        except _Mismatch as flawed:
            issues.extend(flawed.issues)
        if len(issues) >= MAX_ISSUES:
            break
    if issues:
        raise _Mismatch(*issues)
    return found


def as_text(node: Node) -> str:
    """Read a string; a number is taken as written."""
    if isinstance(node.value, list | dict) or node.value is None:
        raise mismatch(node, "must be a string")
    return node.text


def as_texts(node: Node) -> dict[str, str]:
    """Read a mapping of strings; a number is taken as written."""
    if not isinstance(node.value, dict):
        raise mismatch(node, "must be a mapping of names to strings")
    return {key: as_text(entry.node) for key, entry in node.value.items()}


def as_seconds(node: Node) -> float:
    """Read a duration in seconds."""
    return measured(node, parse_seconds)


def duration_fields(*names: str) -> dict[str, Field]:
    """Return the fields of durations: `NAME` such as 10m, and `NAME_seconds` of the strict form, a number."""
    readers = {"": as_seconds, "_seconds": plain}
    return {name + end: Field((f"{name}_seconds",), read) for name in names for end, read in readers.items()}


def as_flag(node: Node) -> bool:
    """Read a boolean."""
    if not isinstance(node.value, bool):
        raise mismatch(node, "must be true or false")
    return node.value


def as_number(node: Node) -> float:
    """Read a number."""
    if not isinstance(node.value, int | float) or isinstance(node.value, bool):
        raise mismatch(node, "must be a number")
    return node.value


def as_count(node: Node) -> int:
    """Read an integer."""
    return int(measured(node, whole_number))


def count_between(node: Node, least: int, most: int) -> int:
    """Read an integer in this range."""
    count = as_count(node)
    if not least <= count <= most:
        raise mismatch(node, f"must be from {least} to {most}")
    return count


def as_bytes(node: Node) -> int:
    """Read a size."""
    return int(measured(node, parse_bytes))


def as_words(node: Node) -> list[str]:
    """Read a command as arguments: a list, or a line split as by a shell, with templates kept whole."""
    if isinstance(node.value, list):
        return [as_text(word) for word in node.value]
    line = as_text(node).strip()
    if "\n" in line:
        raise mismatch(node, "has several lines", "use `shell:` for a script")
    templates: list[str] = []

    def hide(match: re.Match[str]) -> str:
        templates.append(match[0])
        return f"\ue000{len(templates) - 1}\ue001"

    try:
        words = shlex.split(_TEMPLATE.sub(hide, line))
    except ValueError as error:
        raise mismatch(node, f"can't be split into arguments: {str(error).lower()}") from error
    shells = next((word for word in words if word in _FOR_A_SHELL), None)
    if shells is not None:
        raise mismatch(node, f"`{shells}` has no effect without a shell", "use `shell:` instead of `run:`, or quote it")
    return [re.sub("\ue000(\\d+)\ue001", lambda match: templates[int(match[1])], word) for word in words]


def as_expression(node: Node) -> str:
    """Read an expression, with or without braces; or a list, which is also one."""
    if isinstance(node.value, list):
        return msgspec.json.encode(plain(node)).decode()
    text = as_text(node)
    return text.strip()[2:-2].strip() if _ONE_EXPRESSION.fullmatch(text) else text


def as_path_inside(node: Node) -> str:
    """Read a path relative to the file."""
    path = as_text(node)
    if path.startswith("/") or ".." in path.split("/"):
        raise mismatch(node, "must be inside of the file's directory", "use a relative path such as data/input.csv")
    return path


def as_directory(node: Node) -> str:
    """Read a working directory: absolute, or relative to the default."""
    path = as_text(node)
    if ".." in path.split("/"):
        raise mismatch(node, "must not contain `..`", "use an absolute path")
    return path


class OneOf(msgspec.Struct, frozen=True):
    """Reader of one of several words."""

    words: tuple[str, ...]

    def __call__(self, node: Node) -> str:
        word = as_text(node)
        if word not in self.words:
            note = suggestion(word, self.words)
            raise mismatch(node, f"must be one of {', '.join(self.words)}", note)
        return word


class ListOf(msgspec.Struct, frozen=True):
    """Reader of a list; a single value is a list of one."""

    item: Callable[[Node], object]

    def __call__(self, node: Node) -> list[object]:
        items = node.value if isinstance(node.value, list) else [node]
        return gather(partial(self.item, item) for item in items)


class Inside(msgspec.Struct, frozen=True):
    """Reader of a mapping with these fields, converted to the names of the strict form."""

    what: str
    """Its name in messages."""
    fields: Mapping[str, Inner]

    def __call__(self, node: Node) -> dict[str, object]:
        if not isinstance(node.value, dict):
            raise mismatch(node, f"must be a mapping with {', '.join(self.fields)}")
        first: dict[str, str] = {}
        return dict(gather(partial(self._read, key, entry, first) for key, entry in node.value.items()))

    def _read(self, key: str, entry: Entry, first: dict[str, str]) -> tuple[str, object]:
        at = Node(value=None, place=entry.place)
        if key not in self.fields:
            raise unknown(at, f"unknown field `{key}` of {self.what}", key, self.fields)
        name, convert = self.fields[key]
        if first.setdefault(name, key) != key:
            raise mismatch(at, f"`{key}` sets the same value as another field of {self.what}")
        value = attempt(key, convert, entry.node)
        if isinstance(value, Unreadable):
            raise _Mismatch(*value.issues)
        return name, value


def measured(node: Node, read: Callable[[object], float]) -> float:
    """Apply a parser of plain values."""
    try:
        return read(node.value)
    except ValueError as error:
        raise mismatch(node, str(error)) from error


def whole_number(value: object) -> int:
    """Check for an integer. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("must be an integer")


def unknown(node: Node, why: str, word: str, known: Collection[str]) -> Exception:
    """Return the exception for an unknown word, with a suggestion."""
    return mismatch(node, why, suggestion(word, known) or f"known: {', '.join(known)}")


def named(key: str, why: str) -> str:
    """Prefix a fault with the field's name, unless it has its own subject."""
    return f"`{key}` {why}" if _PREDICATE.match(why) else why


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the note beside the mark of an unknown word: the most similar known one."""
    name = most_similar(word, known)
    return f"did you mean `{name}`?" if name else ""
