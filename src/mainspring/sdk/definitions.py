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

from collections.abc import Mapping, Sequence

import msgspec

from mainspring.core.admission import Limits, decode_job
from mainspring.errors import Fault, InvalidFile, Refused
from mainspring.sdk.definition_fields import DELAY_OF_RETRY, JOB_FIELDS, OWN_FIELDS, TASK_FIELDS, Path, unfold_retry
from mainspring.sdk.drafts import Draft, flaw_of, invalid, steps_of
from mainspring.sdk.sources import Entry, Flaw, Node, Place, parse


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
        raise invalid(file, text, flaws)
    draft = _Draft(flaws)
    job = draft.job(root)
    body = msgspec.json.encode(job)
    flaws.extend(
        flaw_of(fault, draft.places) for fault in _faults_in(body) if draft.was_read_for(steps_of(fault.where))
    )
    if flaws:
        raise invalid(file, text, flaws)
    return Definition(file=file, text=text, body=body, name=str(job["name"]), places=draft.places)


def blame(definition: Definition, refused: Refused) -> InvalidFile:
    """A refusal of the server, led back to the lines of the file."""
    flaws = [flaw_of(fault, definition.places) for fault in refused.faults]
    error = invalid(definition.file, definition.text, flaws)
    error.problem = refused.problem
    return error


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


class _Draft(Draft):
    """The strict form of a job in the making."""

    def was_read_for(self, path: Path) -> bool:
        """Whether a fault at this path is the file's own: what was not read for a flaw seems to be missing."""
        return () not in self.unread and path[:2] not in self.unread

    def job(self, root: Node) -> dict[str, object]:
        """The whole job."""
        job: dict[str, object] = {}
        if not isinstance(root.value, dict):
            self.add(Flaw(place=root.place, why="a job file is a mapping with `name` and `tasks`"), ())
            return job
        self.places[()] = root.place
        entries = unfold_retry(root.value)
        defaults = self._defaults(root.value.get("defaults"))
        if DELAY_OF_RETRY in entries:
            defaults.setdefault(DELAY_OF_RETRY, entries[DELAY_OF_RETRY])
        special = {"tasks", "defaults", DELAY_OF_RETRY}
        self.fill(job, (), {key: entry for key, entry in entries.items() if key not in special}, JOB_FIELDS)
        tasks = root.value.get("tasks")
        if tasks is None:
            self.add(Flaw(place=root.place, why="`tasks` is missing"), ())
        elif not isinstance(tasks.node.value, list):
            self.add(Flaw(place=tasks.place, why="`tasks` must be a list", note="each task begins with `- id:`"), ())
        else:
            self.places["tasks",] = tasks.place
            job["tasks"] = [self._task(node, number, defaults) for number, node in enumerate(tasks.node.value)]
        return job

    def _defaults(self, entry: Entry | None) -> dict[str, Entry]:
        if entry is None:
            return {}
        if not isinstance(entry.node.value, dict):
            self.add(Flaw(place=entry.place, why="`defaults` must be a mapping of fields of tasks"), ())
            return {}
        for key, default in entry.node.value.items():
            if key in OWN_FIELDS:
                self.add(Flaw(place=default.place, why=f"`{key}` can't be the same for every task"), ())
        return {key: default for key, default in unfold_retry(entry.node.value).items() if key not in OWN_FIELDS}

    def _task(self, node: Node, number: int, defaults: Mapping[str, Entry]) -> dict[str, object]:
        task: dict[str, object] = {}
        at: Path = ("tasks", number)
        self.places[at] = node.place
        if not isinstance(node.value, dict):
            self.add(Flaw(place=node.place, why="a task is a mapping with an `id` and what it does"), at)
            return task
        entries = unfold_retry(node.value)
        said = {TASK_FIELDS[key].target for key in entries if key in TASK_FIELDS}
        missing = {
            key: default
            for key, default in defaults.items()
            if key not in entries and (key not in TASK_FIELDS or TASK_FIELDS[key].target not in said)
        }
        # Defaults first, so that what the task says itself has the places.
        self.fill(task, at, missing, TASK_FIELDS)
        self.fill(task, at, entries, TASK_FIELDS)
        if at in self.unread and "name" not in task:
            # Who needs it would seem to need a task that is not there.
            self.unread.add(())
        return task
