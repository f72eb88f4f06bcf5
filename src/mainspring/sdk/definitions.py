"""A job file: the friendly form that people write, made into the strict form that the server takes (`core/jobs.py`).

    name: etl
    timeout: 2h
    defaults: {retries: 2, timeout: 10m}
    tasks:
      - id: extract
        run: python extract.py --day {{ params.day }}
      - id: load
        needs: [extract, {task: check, when: "output.rows > 0"}]
        shell: sort < in | uniq > out
        resources: {cpu: 0.5, memory: 512Mi}

`read_definition` names every flaw that it can see, each with its line: its own, and those of `core/admission.py`, which
are the rules of the server. What only the server can know comes back as pointers, which `blame` leads back to the
lines. The strict form is taken as well, and each field of it beside the friendly ones.

When you add a field: a line in one of the tables of `definition_fields.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mainspring.core.admission import Limits, decode_job
from mainspring.core.hints import did_you_mean
from mainspring.errors import Fault, InvalidFile, Refused
from mainspring.sdk.definition_fields import JOB_FIELDS, OWN_FIELDS, SUGGESTION, TASK_FIELDS, Field, Path, suggestion
from mainspring.sdk.sources import Entry, Flaw, Node, Place, parse, render, where

_STEP = re.compile(r"""\[(\d+)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.?([^.\[\]]+)""")
_PREDICATE = re.compile(r"(must|is|are|has|have|nests)\b")


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A job file that was read: what to send, and where each part of it stands."""

    file: str
    text: str
    body: bytes
    """The strict form, as JSON."""
    name: str
    places: dict[Path, Place]


def read_definition(text: str, file: str) -> Definition:
    """The job in a file's text. Raises InvalidFile, with the lines, if it has flaws."""
    if text.lstrip().startswith("{") and (strict := _read_strict(text, file)) is not None:
        return strict
    root, flaws = parse(text)
    if root is None:
        raise _invalid(file, text, flaws)
    draft = _Draft(flaws)
    job = draft.job(root)
    body = msgspec.json.encode(job)
    flaws.extend(_flaw_of(fault, draft.places) for fault in _faults_in(body) if draft.was_read_for(_steps(fault.where)))
    if flaws:
        raise _invalid(file, text, flaws)
    return Definition(file=file, text=text, body=body, name=str(job["name"]), places=draft.places)


def blame(definition: Definition, refused: Refused) -> InvalidFile:
    """A refusal of the server, led back to the lines of the file."""
    flaws = [_flaw_of(fault, definition.places) for fault in refused.faults]
    invalid = _invalid(definition.file, definition.text, flaws)
    invalid.problem = refused.problem
    return invalid


def _read_strict(text: str, file: str) -> Definition | None:
    """A file that has the strict form already, as it is: a large one takes a second this way, and minutes by lines."""
    body = text.encode()
    try:
        spec = decode_job(body, Limits())
    except Refused:
        return None
    return Definition(file=file, text=text, body=body, name=spec.name, places={})


def _faults_in(body: bytes) -> Sequence[Fault]:
    """What the server's rules say to it."""
    try:
        decode_job(body, Limits())
    except Refused as refused:
        return refused.faults
    return ()


class _Draft:
    """The strict form in the making, and where each part of it came from."""

    def __init__(self, flaws: list[Flaw]) -> None:
        self.flaws = flaws
        self.places: dict[Path, Place] = {}
        self._unread: set[Path] = {()} if flaws else set()
        """The job, or the tasks, of which some part was not read."""

    def was_read_for(self, path: Path) -> bool:
        """Whether a fault at this path is the file's own: what was not read for a flaw seems to be missing."""
        return () not in self._unread and path[:2] not in self._unread

    def job(self, root: Node) -> dict[str, object]:
        """The whole job."""
        job: dict[str, object] = {}
        if not isinstance(root.value, dict):
            self._add(Flaw(place=root.place, why="a job file is a mapping with `name` and `tasks`"), ())
            return job
        self.places[()] = root.place
        defaults = self._defaults(root.value.get("defaults"))
        special = {"tasks", "defaults"}
        self._fill(job, (), {key: entry for key, entry in root.value.items() if key not in special}, JOB_FIELDS)
        tasks = root.value.get("tasks")
        if tasks is None:
            self._add(Flaw(place=root.place, why="`tasks` is missing"), ())
        elif not isinstance(tasks.node.value, list):
            self._add(Flaw(place=tasks.place, why="`tasks` must be a list", note="each task begins with `- id:`"), ())
        else:
            self.places["tasks",] = tasks.place
            job["tasks"] = [self._task(node, number, defaults) for number, node in enumerate(tasks.node.value)]
        return job

    def _defaults(self, entry: Entry | None) -> dict[str, Entry]:
        if entry is None:
            return {}
        if not isinstance(entry.node.value, dict):
            self._add(Flaw(place=entry.place, why="`defaults` must be a mapping of fields of tasks"), ())
            return {}
        for key, default in entry.node.value.items():
            if key in OWN_FIELDS:
                self._add(Flaw(place=default.place, why=f"`{key}` can't be the same for every task"), ())
        return {key: default for key, default in entry.node.value.items() if key not in OWN_FIELDS}

    def _task(self, node: Node, number: int, defaults: Mapping[str, Entry]) -> dict[str, object]:
        task: dict[str, object] = {}
        at: Path = ("tasks", number)
        self.places[at] = node.place
        if not isinstance(node.value, dict):
            self._add(Flaw(place=node.place, why="a task is a mapping with an `id` and what it does"), at)
            return task
        said = {TASK_FIELDS[key].target for key in node.value if key in TASK_FIELDS}
        missing = {
            key: default
            for key, default in defaults.items()
            if key not in node.value and (key not in TASK_FIELDS or TASK_FIELDS[key].target not in said)
        }
        # Defaults first, so that what the task says itself has the places.
        self._fill(task, at, missing, TASK_FIELDS)
        self._fill(task, at, node.value, TASK_FIELDS)
        if at in self._unread and "name" not in task:
            # Who needs it would seem to need a task that is not there.
            self._unread.add(())
        return task

    def _fill(
        self, whole: dict[str, object], at: Path, entries: Mapping[str, Entry], fields: Mapping[str, Field]
    ) -> None:
        """Put each field into its place of the strict form."""
        taken: dict[Path, str] = {}
        for key, entry in entries.items():
            field = fields.get(key)
            if field is None:
                note = did_you_mean(key, fields)
                self._add(Flaw(place=entry.place, why=f"unknown field `{key}`", note=suggestion(note)), at)
                continue
            twin = next((said for target, said in taken.items() if _overlap(target, field.target)), None)
            if twin is not None:
                self._add(Flaw(place=entry.place, why=f"`{key}` says the same as `{twin}`"), at)
                continue
            taken[field.target] = key
            self.places[at + field.target] = entry.place
            value = field.read(entry.node)
            if isinstance(value, Flaw):
                why = f"`{key}` {value.why}" if _PREDICATE.match(value.why) else value.why
                self._add(msgspec.structs.replace(value, why=why), at)
                continue
            inside = whole
            for step in field.target[:-1]:
                inside = inside.setdefault(str(step), {})  # type: ignore[assignment]  # only fields of ours nest
            inside[str(field.target[-1])] = value
            self.places.update(_places_within(entry.node, at + field.target))

    def _add(self, flaw: Flaw, at: Path) -> None:
        """Take note of a flaw, once: a default that has one is met with every task."""
        self._unread.add(at)
        if flaw not in self.flaws:
            self.flaws.append(flaw)


def _overlap(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same value, or one into the other's."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _places_within(node: Node, at: Path) -> Iterator[tuple[Path, Place]]:
    """Where the parts of a value stand."""
    match node.value:
        case list() as items:
            for number, item in enumerate(items):
                yield (*at, number), item.place
                yield from _places_within(item, (*at, number))
        case dict() as entries:
            for key, entry in entries.items():
                yield (*at, key), entry.place
                yield from _places_within(entry.node, (*at, key))
        case _:
            pass


def _flaw_of(fault: Fault, places: Mapping[Path, Place]) -> Flaw:
    """A fault of the rules, with the place of the nearest part that the file has."""
    steps = _steps(fault.where)
    why = SUGGESTION.sub("", fault.why)
    named = next((step for step in reversed(steps) if isinstance(step, str)), "")
    if named and _PREDICATE.match(why):
        why = f"`{named}` {why}"
    while steps and steps not in places:
        steps = steps[:-1]
    place = places.get(steps, Place(0, 0))
    return Flaw(place=place, why=why, note=suggestion(fault.why))


def _steps(path: str) -> Path:
    """The steps of `tasks[3].needs[0]`, or of the JSON pointer `/tasks/3/needs/0`."""
    if path in {"", "body"}:
        return ()
    if path.startswith("/"):
        parts = (part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
        return tuple(int(part) if part.isdigit() else part for part in parts)
    return tuple(
        int(index) if index else str(ast.literal_eval(quoted)) if quoted else word
        for index, quoted, word in _STEP.findall(path)
    )


def _invalid(file: str, text: str, flaws: list[Flaw]) -> InvalidFile:
    """All flaws as one error, in the order of the lines."""
    flaws = sorted(flaws, key=lambda flaw: (flaw.place.line, flaw.place.column))
    invalid = InvalidFile(render(file, text, flaws))
    invalid.faults = tuple(
        Fault(where=where(file, flaw.place), why=f"{flaw.why}, {flaw.note}".removesuffix(", ")) for flaw in flaws
    )
    return invalid
