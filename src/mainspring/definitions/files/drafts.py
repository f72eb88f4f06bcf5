"""Build the strict form of a user's file, with the position of each part and all issues.

Faults by rules on the strict form are mapped to lines of the file by their paths.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from mainspring.definitions.files.field_values import (
    MAX_ISSUES,
    Field,
    Path,
    Unreadable,
    attempt,
    named,
    suggestion,
)
from mainspring.definitions.files.sources import Entry, FileIssue, Node, Position, render, where
from mainspring.protocol.errors import Fault, InvalidFile, Refused

T = TypeVar("T")
_SCHEDULE_IN_BODY = "definition"
"""Field with the schedule in the body of a request."""
_STEP = re.compile(r"""\[(\d+)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.?([^.\[\]]+)""")


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed job or schedule file: the request body, and the position of each part."""

    file: str
    text: str
    body: bytes
    """The strict form, as JSON."""
    name: str
    places: dict[Path, Position]
    params: dict[str, object] = {}
    """Default parameters of a run: the constants of the file."""

    def locate_faults(self, refused: Refused) -> InvalidFile:
        """Map the faults of a server's response to lines of the file."""
        issues = []
        for fault in refused.faults:
            steps = path_steps(fault.where)
            inside = steps[1:] if steps[:1] == (_SCHEDULE_IN_BODY,) else steps
            issues.append(issue_of(fault, self.places, steps=inside))
        error = invalid(self.file, self.text, issues)
        error.problem = refused.problem
        return error


class Draft:
    """Strict form under construction, with the positions of its parts."""

    def __init__(self, issues: list[FileIssue]) -> None:
        self.issues = issues
        self.places: dict[Path, Position] = {}
        self._written: dict[Path, str] = {}
        """Name in the file of a field of the strict form."""
        self.unread: set[Path] = {()} if issues else set()
        """Parts that could not be read completely; the root stands for everything."""

    def fill(
        self, whole: dict[str, object], at: Path, entries: Mapping[str, Entry], fields: Mapping[str, Field]
    ) -> None:
        """Convert each field to its target in the strict form."""
        used_targets: dict[Path, str] = {}
        for key, entry in entries.items():
            field = fields.get(key)
            if field is None:
                self.add_unknown(key, entry, fields, at)
                continue
            other_key = next((said for target, said in used_targets.items() if _overlap(target, field.target)), None)
            if other_key is not None:
                self.add(entry.place, f"`{key}` and `{other_key}` set the same value", at=at)
                continue
            used_targets[field.target] = key
            self.places[at + field.target] = entry.place
            self._written[at + field.target] = key
            value = attempt(key, field.convert, entry.node)
            if isinstance(value, Unreadable):
                self._add_all(value, at + field.target)
                continue
            inside = whole
            for step in field.target[:-1]:
                inside = inside.setdefault(str(step), {})  # type: ignore[assignment]  # only fields of ours nest
            inside[str(field.target[-1])] = value
            self.places.update(_places_within(entry.node, at + field.target, field.names))

    def read(self, key: str, convert: Callable[[Node], T], node: Node) -> T | None:
        """Return the value of a field that is not part of the strict form; None, with its issues added, if invalid."""
        value = attempt(key, convert, node)
        if isinstance(value, Unreadable):
            self._add_all(value, ())
            return None
        return value

    @property
    def is_full(self) -> bool:
        """Whether further issues are not recorded."""
        return len(self.issues) >= MAX_ISSUES

    def is_complete_at(self, path: Path) -> bool:
        """Return whether a fault at this path is real: parts that could not be read seem to be missing."""
        return () not in self.unread and not any(_overlap(path, unread) for unread in self.unread)

    def add_faults(self, faults: Iterable[Fault]) -> None:
        """Add faults of the strict form, except those caused by unread parts."""
        for fault in [fault for fault in faults if self.is_complete_at(path_steps(fault.where))]:
            self._add(issue_of(fault, self.places, self._written), ())

    def add(self, place: Position, why: str, note: str = "", *, at: Path = ()) -> None:
        """Add an issue of a part of the strict form; without `at`, of the whole."""
        self._add(FileIssue(place=place, why=why, note=note), at)

    def _add(self, issue: FileIssue, at: Path) -> None:
        """Add an issue, once: one in a default occurs with every task."""
        self.unread.add(at)
        if not self.is_full and issue not in self.issues:
            self.issues.append(issue)

    def add_unknown(self, key: str, entry: Entry, known: Collection[str], at: Path) -> None:
        """Add an unknown field, with a suggestion."""
        note = "" if self.is_full else suggestion(key, known)
        self.add(entry.place, f"unknown field `{key}`", note, at=at)

    def _add_all(self, flawed: Unreadable, at: Path) -> None:
        """Add the issues of a reader."""
        for issue in flawed.issues:
            self._add(issue, at)


def _overlap(one: Path, other: Path) -> bool:
    """Return whether one path contains the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _places_within(node: Node, at: Path, names: Mapping[str, str]) -> Iterator[tuple[Path, Position]]:
    """Yield the positions of the parts of a value, by the names of the strict form."""
    match node.value:
        case list() as items:
            for number, item in enumerate(items):
                yield (*at, number), item.place
                yield from _places_within(item, (*at, number), names)
        case dict() as entries:
            for key, entry in entries.items():
                inside = (*at, names.get(key, key))
                yield inside, entry.place
                yield from _places_within(entry.node, inside, names)
        case _:
            pass


def issue_of(
    fault: Fault,
    places: Mapping[Path, Position],
    written: Mapping[Path, str] | None = None,
    *,
    steps: Path | None = None,
) -> FileIssue:
    """Map a fault to the position of the nearest part in the file, under its name in the file.

    `steps` is the path in the strict form, if it is not that of the fault.
    """
    steps = path_steps(fault.where) if steps is None else steps
    key = (written or {}).get(steps) or next((step for step in reversed(steps) if isinstance(step, str)), "")
    while steps and steps not in places:
        steps = steps[:-1]
    place = places.get(steps, Position(0, 0))
    return FileIssue(place=place, why=named(key, fault.why) if key else fault.why)


def path_steps(path: str) -> Path:
    """Parse `tasks[3].needs[0]`, or the JSON pointer `/tasks/3/needs/0`."""
    if path in {"", "body"}:
        return ()
    if path.startswith("/"):
        parts = (part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
        return tuple(int(part) if part.isdigit() else part for part in parts)
    return tuple(
        int(index) if index else str(ast.literal_eval(quoted)) if quoted else word
        for index, quoted, word in _STEP.findall(path)
    )


def invalid(file: str, text: str, issues: list[FileIssue]) -> InvalidFile:
    """Combine all issues into one error, in the order of lines; the number is limited."""
    issues = sorted(issues, key=lambda issue: (issue.place.line, issue.place.column))
    more = "" if len(issues) < MAX_ISSUES else f"\n\n{file}: there may be more errors"
    error = InvalidFile(render(file, text, issues[:MAX_ISSUES]) + more)
    error.faults = tuple(
        Fault(where=where(file, issue.place), why=f"{issue.why}, {issue.note}".removesuffix(", "))
        for issue in issues[:MAX_ISSUES]
    )
    return error
