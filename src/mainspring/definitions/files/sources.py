"""Parse YAML or JSON, strictly and with limits, into a tree with the position of every value.

PyYAML implements YAML 1.1, in which `no` is false, `12:30:00` a number and a duplicate key wins silently. Only its
parser is used; plain words are resolved here as in YAML 1.2 (and JSON: every JSON text is read the same):

    null, ~, nothing    true, false    1, -2, 0x1f, 0o17    1.5, 2e3    everything else is a string

1. Duplicate keys, tags, merge keys and a second document are errors, each with its position.
2. Nesting is limited, and an alias counts as much as its value: no text can blow up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
import yaml

MAX_TEXT_BYTES = 16 * 1024 * 1024
MAX_NODES = 1_000_000
MAX_DEPTH = 64

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MAX_DIGITS = 400
_LINES_BEFORE = 2
_MAX_LINE_LENGTH = 120
"""Of a longer line, only the part around the error is shown."""

Scalar: TypeAlias = "str | int | float | bool | None"


class Position(msgspec.Struct, frozen=True):
    """Position in a text; lines and columns count from 0."""

    line: int
    column: int
    width: int = 1


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A value and its position."""

    value: Scalar | list[Node] | dict[str, Entry]
    place: Position
    text: str = ""
    """A scalar as written."""
    weight: int = 1
    """Number of values in it, aliases expanded."""


class Entry(msgspec.Struct, frozen=True):
    """Position of a key, and its value."""

    place: Position
    node: Node


class FileIssue(msgspec.Struct, frozen=True, kw_only=True):
    """An error in a file."""

    place: Position
    why: str
    note: str = ""
    """How to fix it; shown beside the mark."""


class _Open(msgspec.Struct):
    """A list or mapping that is not closed yet."""

    event: yaml.CollectionStartEvent
    value: list[Node] | dict[str, Entry]
    key: Node | None = None
    weight: int = 1


class _ParseFailed(Exception):
    def __init__(self, place: Position, why: str) -> None:
        super().__init__(why)
        self.issue = FileIssue(place=place, why=why)


def parse(text: str) -> tuple[Node | None, list[FileIssue]]:
    """Parse a text; return its tree, None if it is unreadable, and the errors."""
    builder = _Builder()
    try:
        if len(text) > MAX_TEXT_BYTES:
            raise _ParseFailed(Position(0, 0), f"is larger than {MAX_TEXT_BYTES >> 20} MiB")
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except _ParseFailed as flawed:
        return None, [*builder.issues, flawed.issue]
    except yaml.YAMLError as error:
        return None, [*builder.issues, _issue_of_yaml(error, text)]
    except UnicodeEncodeError as error:
        before = text[: error.start].splitlines() or [""]
        return None, [FileIssue(place=Position(len(before) - 1, len(before[-1])), why="contains a lone surrogate")]
    if builder.root is None:
        return None, [FileIssue(place=Position(0, 0), why="the file is empty")]
    return builder.root, builder.issues


def plain(node: Node) -> object:
    """Return the value of a node as JSON."""
    match node.value:
        case list() as items:
            return [plain(item) for item in items]
        case dict() as entries:
            return {key: plain(entry.node) for key, entry in entries.items()}
        case scalar:
            return scalar


def render(name: str, text: str, issues: Sequence[FileIssue]) -> str:
    """Format errors: position, message, the lines, and a mark below."""
    lines = text.splitlines()
    return "\n\n".join("\n".join(_render(name, lines, issue)) for issue in issues)


def where(name: str, place: Position) -> str:
    """Format a position as `name:line:column`."""
    return f"{name}:{place.line + 1}:{place.column + 1}"


def _render(name: str, lines: Sequence[str], issue: FileIssue) -> Iterator[str]:
    yield _printable(f"{where(name, issue.place)}: {issue.why}")
    if issue.place.line >= len(lines):
        return
    yield ""
    width = max(5, len(str(issue.place.line + 1)) + 2)
    first = max(0, issue.place.column - _MAX_LINE_LENGTH // 2) if len(lines[issue.place.line]) > _MAX_LINE_LENGTH else 0
    for number in range(max(0, issue.place.line - _LINES_BEFORE), issue.place.line + 1):
        yield f"{number + 1:>{width}} | {_printable(lines[number][first : first + _MAX_LINE_LENGTH])}".rstrip()
    column = issue.place.column - first
    mark = "^" * max(
        1, min(issue.place.width, len(lines[issue.place.line]) - issue.place.column, _MAX_LINE_LENGTH - column)
    )
    yield f"{'':>{width}} | {' ' * column}{mark} {issue.note}".rstrip()


def _printable(line: str) -> str:
    """Replace non-printable characters, so that every character takes one column and none controls the terminal."""
    return "".join(character if character.isprintable() else " " for character in line)


class _Builder:
    """Builds the tree from the parser's events."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.issues: list[FileIssue] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._weight = 0

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent() if self.root is not None:
                raise _ParseFailed(_place(event), "a file must have one document; a second one begins here")
            case yaml.AliasEvent():
                node = self._anchors.get(event.anchor or "")
                if node is None:
                    raise _ParseFailed(_place(event), f"`*{event.anchor}` has no complete anchor")
                self._put(msgspec.structs.replace(node, place=_place(event)))
            case yaml.ScalarEvent():
                self._refuse_tag(event, plain_tag=event.implicit[0] or event.implicit[1])
                is_plain = event.style is None or not event.style
                value = _resolve(event.value) if is_plain else event.value
                self._finish(event, Node(value=value, text=event.value, place=_place(event)))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._refuse_tag(event, plain_tag=event.implicit)
                if len(self._open) >= MAX_DEPTH:
                    raise _ParseFailed(_place(event), f"is nested deeper than {MAX_DEPTH}")
                self._open.append(_Open(event, [] if isinstance(event, yaml.SequenceStartEvent) else {}))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                done = self._open.pop()
                self._finish(done.event, Node(value=done.value, place=_place(done.event), weight=done.weight))
            case _:
                pass

    def _finish(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._put(node)

    def _put(self, node: Node) -> None:
        """Add a complete value to its parent."""
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        parent.weight += node.weight
        if parent.weight > MAX_NODES:
            raise _ParseFailed(node.place, f"has more than {MAX_NODES} values")
        if isinstance(parent.value, list):
            parent.value.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            self._put_entry(parent.value, parent.key, node)
            parent.key = None

    def _put_entry(self, entries: dict[str, Entry], key: Node, node: Node) -> None:
        if isinstance(key.value, list | dict):
            self.issues.append(FileIssue(place=key.place, why="a key must be a string"))
        elif key.text == "<<":
            self.issues.append(
                FileIssue(place=key.place, why="merge keys are not supported", note="use `defaults` for all tasks")
            )
        elif key.text in entries:
            first = entries[key.text].place.line + 1
            self.issues.append(
                FileIssue(place=key.place, why=f"duplicate key `{key.text}`", note=f"first in line {first}")
            )
        else:
            entries[key.text] = Entry(key.place, node)

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, *, plain_tag: bool) -> None:
        if not plain_tag:
            self.issues.append(FileIssue(place=_place(event), why=f"tags such as `{event.tag}` are not supported"))


def _place(event: yaml.Event) -> Position:
    start, end = event.start_mark, event.end_mark
    if start is None or end is None:
        return Position(0, 0)
    width = end.column - start.column if end.line == start.line else 1
    return Position(start.line, start.column, max(1, width))


def _resolve(word: str) -> Scalar:
    """Resolve a plain word."""
    if _NULL.fullmatch(word):
        return None
    if _TRUE.fullmatch(word):
        return True
    if _FALSE.fullmatch(word):
        return False
    if len(word) > _MAX_DIGITS:
        return word
    if _INTEGER.fullmatch(word):
        return int(word) if word.lstrip("+-").isdigit() else int(word, 0)
    if not _FLOAT.fullmatch(word):
        return word
    number = float(word)
    return number if math.isfinite(number) else word


def _issue_of_yaml(error: yaml.YAMLError, text: str) -> FileIssue:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return FileIssue(place=Position(0, 0), why=f"is not YAML: {str(error).splitlines()[0]}")
    mark = error.problem_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    has_tab = "\t" in line[: mark.column + 1]
    note = "indent with spaces, not tabs" if has_tab else (error.context or "")
    if note == "while scanning an alias":
        note = "quote a string that begins with *"
    return FileIssue(place=Position(mark.line, mark.column), why=f"is not YAML: {error.problem}", note=note)
