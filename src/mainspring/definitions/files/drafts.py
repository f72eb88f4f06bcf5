"""Build the strict form of a user's file, with the position of each part and all issues.

Faults by rules on the strict form are mapped to lines of the file by their paths.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from mainspring.core.text.suggestions import did_you_mean
from mainspring.definitions.files.field_values import MOST_FLAWS, SUGGESTION, Field, Flawed, Path, named, suggestion
from mainspring.definitions.files.sources import Entry, Flaw, Node, Place, render, where
from mainspring.protocol.errors import Fault, InvalidFile

_STEP = re.compile(r"""\[(\d+)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.?([^.\[\]]+)""")


class Draft:
    """Strict form under construction, with the positions of its parts."""

    def __init__(self, flaws: list[Flaw]) -> None:
        self.flaws = flaws
        self.places: dict[Path, Place] = {}
        self._written: dict[Path, str] = {}
        """Name in the file of a field of the strict form."""
        self.unread: set[Path] = {()} if flaws else set()
        """Parts that could not be read completely; the root stands for everything."""

    def fill(
        self, whole: dict[str, object], at: Path, entries: Mapping[str, Entry], fields: Mapping[str, Field]
    ) -> None:
        """Convert each field to its target in the strict form."""
        taken: dict[Path, str] = {}
        for key, entry in entries.items():
            field = fields.get(key)
            if field is None:
                self.add_unknown(key, entry, fields, at)
                continue
            twin = next((said for target, said in taken.items() if _overlap(target, field.target)), None)
            if twin is not None:
                self.add(Flaw(place=entry.place, why=f"`{key}` and `{twin}` set the same value"), at)
                continue
            taken[field.target] = key
            self.places[at + field.target] = entry.place
            self._written[at + field.target] = key
            value = field.read(key, entry.node)
            if isinstance(value, Flawed):
                self.add_all(value, at + field.target)
                continue
            inside = whole
            for step in field.target[:-1]:
                inside = inside.setdefault(str(step), {})  # type: ignore[assignment]  # only fields of ours nest
            inside[str(field.target[-1])] = value
            self.places.update(_places_within(entry.node, at + field.target, field.names))

    @property
    def is_full(self) -> bool:
        """Whether further issues are not recorded."""
        return len(self.flaws) >= MOST_FLAWS

    def was_read(self, path: Path) -> bool:
        """Return whether a fault at this path is real: parts that could not be read seem to be missing."""
        return () not in self.unread and not any(_overlap(path, unread) for unread in self.unread)

    def add_faults(self, faults: Iterable[Fault]) -> None:
        """Add faults of the strict form, except those caused by unread parts."""
        for fault in [fault for fault in faults if self.was_read(steps_of(fault.where))]:
            self.add(flaw_of(fault, self.places, self._written), ())

    def add(self, flaw: Flaw, at: Path) -> None:
        """Add an issue, once: one in a default occurs with every task."""
        self.unread.add(at)
        if not self.is_full and flaw not in self.flaws:
            self.flaws.append(flaw)

    def add_unknown(self, key: str, entry: Entry, known: Collection[str], at: Path) -> None:
        """Add an unknown field, with a suggestion."""
        note = "" if self.is_full else suggestion(did_you_mean(key, known))
        self.add(Flaw(place=entry.place, why=f"unknown field `{key}`", note=note), at)

    def add_all(self, flawed: Flawed, at: Path) -> None:
        """Add the issues of a reader."""
        for flaw in flawed.flaws:
            self.add(flaw, at)


def _overlap(one: Path, other: Path) -> bool:
    """Return whether one path contains the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _places_within(node: Node, at: Path, names: Mapping[str, str]) -> Iterator[tuple[Path, Place]]:
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


def flaw_of(fault: Fault, places: Mapping[Path, Place], written: Mapping[Path, str] | None = None) -> Flaw:
    """Map a fault to the position of the nearest part in the file, under its name in the file."""
    steps = steps_of(fault.where)
    why = SUGGESTION.sub("", fault.why)
    key = next((step for step in reversed(steps) if isinstance(step, str)), "")
    key = (written or {}).get(steps, key)
    if key:
        why = named(key, why)
    while steps and steps not in places:
        steps = steps[:-1]
    place = places.get(steps, Place(0, 0))
    return Flaw(place=place, why=why, note=suggestion(fault.why))


def steps_of(path: str) -> Path:
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


def invalid(file: str, text: str, flaws: list[Flaw]) -> InvalidFile:
    """Combine all issues into one error, in the order of lines; the number is limited."""
    flaws = sorted(flaws, key=lambda flaw: (flaw.place.line, flaw.place.column))
    more = "" if len(flaws) < MOST_FLAWS else f"\n\n{file}: there may be more errors"
    error = InvalidFile(render(file, text, flaws[:MOST_FLAWS]) + more)
    error.faults = tuple(
        Fault(where=where(file, flaw.place), why=f"{flaw.why}, {flaw.note}".removesuffix(", "))
        for flaw in flaws[:MOST_FLAWS]
    )
    return error
