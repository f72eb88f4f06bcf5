"""Build the job of a pipeline file, and read the fields around its job and schedules."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping

import msgspec

from mainspring.core.expressions.engine import keys_in
from mainspring.core.text.suggestions import did_you_mean
from mainspring.core.work.work import KINDS
from mainspring.definitions.files.drafts import Draft
from mainspring.definitions.files.field_values import Inside, Path
from mainspring.definitions.files.job_drafts import JobDraft
from mainspring.definitions.files.job_fields import JOB_FIELDS, MAP_FIELDS
from mainspring.definitions.files.pipeline_fields import (
    DEFAULT_ATTEMPTS,
    PIPELINE_FIELDS,
    RETRY_DELAY_SECONDS,
    RETRY_POLICY,
    SCHEDULE_KEYS,
    Param,
    ParsedNotice,
    SharedGroup,
    as_notices,
)
from mainspring.definitions.files.sources import Entry, FileIssue, Node, Position
from mainspring.definitions.pipeline_schedules import find_blocks
from mainspring.protocol.errors import Fault

ONLY_IN_PIPELINES = frozenset({*PIPELINE_FIELDS, *SCHEDULE_KEYS, *MAP_FIELDS} - {"name"})
_KEYS = frozenset({*JOB_FIELDS, *PIPELINE_FIELDS, *SCHEDULE_KEYS, *MAP_FIELDS})
_TASK = "map"
"""Name of the only task of a map-reduce pipeline."""
_REMOTE_KINDS = frozenset({"http", "container", "kubernetes", "ray"})
"""Kinds of work without a directory on the worker's machine."""
_TEMPLATES = {
    "http": ("url", "headers", "body", "json"), "container": ("run",), "kubernetes": ("run",), "ray": ("run",)
}  # fmt: skip
"""Kinds of work with nested fields, and which of these may have templates."""
_EVENT = "event"
"""Parameter set by an event, declared or not."""
_QUEUE = "queue"
_DEADLINE = "finish_within"


class PipelineDraft(Draft):
    """All fields of a file except its schedules; `definitions/pipeline_schedules.py` builds these from `blocks`."""

    def __init__(self, root: Node, entries: Mapping[str, Entry], issues: list[FileIssue]) -> None:
        super().__init__(issues)
        self._root = root
        self._entries = entries
        self._jobs = JobDraft(issues)
        self._said: dict[str, object] = {}
        self.fill(self._said, (), {key: entries[key] for key in entries if key in PIPELINE_FIELDS}, PIPELINE_FIELDS)
        for key in entries:
            if key not in _KEYS:
                self.add_unknown(key, entries[key], _KEYS, ())
        self.blocks = find_blocks(self, entries)
        self.notices = self._notices()
        self._check_params()

    @property
    def title(self) -> str:
        """Display name."""
        return str(self._said.get("title", ""))

    @property
    def tenant(self) -> str | None:
        """Owner, if given."""
        return None if "tenant" not in self._said else str(self._said["tenant"])

    @property
    def priority(self) -> str | None:
        """Priority, if given."""
        return self._entries["priority"].node.text.upper() if "priority" in self._entries else None

    @property
    def params(self) -> dict[str, Param]:
        """Declared parameters."""
        return self._said.get("params", {})  # type: ignore[return-value]  # its reader gives these

    def param_places(self) -> dict[str, Position]:
        """Return the position of each parameter."""
        entries = self._entries["params"].node.value if self.params else {}
        return {key: entry.place for key, entry in entries.items()} if isinstance(entries, dict) else {}

    def job(self, name: str, directory: str | None) -> tuple[bytes, dict[Path, Position]]:
        """Return the job as JSON, under this name and with tasks in the directory; and the positions of its parts."""
        place = self._entries["name"].place if "name" in self._entries else self._root.place
        entries = {key: entry for key, entry in self._entries.items() if key in JOB_FIELDS}
        entries["name"] = Entry(place, Node(value=name, text=name, place=place))
        tasks = self._tasks()
        if tasks is not None:
            entries["tasks"] = tasks
        self._deadline(entries)
        policy = self._policy()
        job = self._jobs.job(Node(value=entries, place=self._root.place), policy)
        if policy:
            retry = job.setdefault("retry", {})
            assert isinstance(retry, dict)
            retry.setdefault("linear", True)
        group = self.group(name)
        if group is not None:
            groups = job.setdefault("groups", [])
            assert isinstance(groups, list)
            self._jobs.places["groups", len(groups)] = self._entries["concurrency"].place
            groups.append(group.name)
        if directory is not None:
            _put_into(directory, job)
        body = msgspec.json.encode(job)
        self._jobs.check(body)
        self._jobs.add_faults(_misspelled_params(job, self.params.keys() | {_EVENT}))
        return body, self._jobs.places

    def context(self, name: str) -> dict[str, Entry]:
        """Return the fields that its schedules inherit, by the names of `BLOCK_FIELDS`."""
        found = {"priority": self._entries["priority"]} if "priority" in self._entries else {}
        concurrency = self._entries.get("concurrency")
        if concurrency is None or not isinstance(concurrency.node.value, dict) or "concurrency" not in self._said:
            return found
        inner = concurrency.node.value
        if self.group(name) is not None:
            if "when_busy" in inner and inner["when_busy"].node.text != _QUEUE:
                why = f"`when_busy` must be {_QUEUE} for a group"
                note = f"remove `group: {inner['group'].node.text}` to limit only the runs of this pipeline"
                self.add(inner["when_busy"].node.place, why, note)
            return found
        return found | {f"concurrency.{key}": inner[key] for key in ("max", "when_busy") if key in inner}

    def group(self, name: str) -> SharedGroup | None:
        """Return the group shared with other pipelines, if any; the pipeline's own limit is part of its schedules."""
        said = self._said.get("concurrency")
        group = said.get("group") if isinstance(said, dict) else None
        if not isinstance(said, dict) or not isinstance(group, str) or group in {name, self.title}:
            return None
        return SharedGroup(name=group, most=said.get("max"))

    def warnings(self) -> Iterator[FileIssue]:
        """Yield the fields that have no effect."""
        for key, entry in self._sla().items():
            if key != _DEADLINE:
                yield FileIssue(place=entry.place, why=f"`{key}` is not enforced yet")
        if self.blocks.manual_off is not None:
            why = "`manual: false` has no effect: users who may start runs can start this one"
            yield FileIssue(place=self.blocks.manual_off, why=why)
        for wanted in self.notices:
            for word, place in wanted.ignored:
                yield FileIssue(place=place, why=f"`{word}` is not supported yet: no notification is sent")

    def _sla(self) -> Mapping[str, Entry]:
        """Return the fields of `sla`, if it could be read."""
        sla = self._entries["sla"].node.value if "sla" in self._said else None
        return sla if isinstance(sla, dict) else {}

    def _deadline(self, entries: dict[str, Entry]) -> None:
        """Move the deadline in `sla` to the job."""
        said = self._sla().get(_DEADLINE)
        if said is None:
            return
        if _DEADLINE in entries:
            why = f"`{_DEADLINE}` is set twice: here and outside of `sla`"
            self.add(said.place, why)
        else:
            entries[_DEADLINE] = said

    def _tasks(self) -> Entry | None:
        """Return the `tasks` of a map-reduce file: one task. None if it has `tasks`."""
        asked = {key: entry for key, entry in self._entries.items() if key in MAP_FIELDS}
        if "tasks" in self._entries:
            for key, entry in asked.items():
                why = f"`{key}` and `tasks` can't be combined"
                note = "make it a task: `- {id: .., map: .., input: ..}`" if key == "map" else "it belongs to `map`"
                self.add(entry.place, why, note)
            return None
        if "map" not in asked:
            self.add(self._root.place, "a pipeline needs `tasks`, or `map` with `input`")
            self._jobs.unread.add(())
            return Entry(self._root.place, Node(value=[], place=self._root.place))
        place = asked["map"].place
        if "input" not in asked:
            why = "`map` needs an `input`"
            note = "such as `input: {from: {type: csv, path: bugs.csv}}`, or `input: {items: [..]}`"
            self.add(place, why, note)
            self._jobs.unread.add(("tasks", 0))
        task = {"id": Entry(place, Node(value=_TASK, text=_TASK, place=place)), **asked}
        return Entry(place, Node(value=[Node(value=task, place=place)], place=place))

    def _policy(self) -> dict[str, Entry]:
        """Return the defaults of the tasks' retry fields."""
        entry = self.blocks.beside.get("retryPolicy")
        if entry is None and "map" not in self._entries:
            return {}
        said: dict[str, object] = {}
        if entry is not None:
            said = self.read("retryPolicy", Inside("`retryPolicy`", RETRY_POLICY), entry.node) or {}
        place = self._root.place if entry is None else entry.place
        values = {"max_attempts": DEFAULT_ATTEMPTS, "retry_delay_seconds": RETRY_DELAY_SECONDS, **said}
        return {
            key: Entry(place, Node(value=value, place=place))  # type: ignore[arg-type]  # numbers
            for key, value in values.items()
        }

    def _notices(self) -> list[ParsedNotice]:
        """Return the notifications, beside the job and in the schedule."""
        found: list[ParsedNotice] = [*self._said.get("notices", [])]  # type: ignore[misc]  # its reader gives these
        entry = self.blocks.beside.get("notify")
        if entry is not None:
            found += self.read("notify", as_notices, entry.node) or ()
        return found

    def _check_params(self) -> None:
        """Check that scheduled runs have all required parameters."""
        places = self.param_places()
        for key, param in self.params.items() if self.blocks.all else ():
            if param.required and param.default is None:
                why = f"`{key}` is required but has no default for scheduled runs"
                self.add(places[key], why, "add a `default`")


def _misspelled_params(job: Mapping[str, object], known: Collection[str]) -> Iterator[Fault]:
    """Yield undeclared parameters that are similar to a declared one."""
    if known == {_EVENT}:
        return
    tasks = job.get("tasks")
    for number, task in enumerate(tasks if isinstance(tasks, list) else ()):
        for place, template in _templates(task):
            for key in sorted(keys_in(template, "params") - set(known)):
                if hint := did_you_mean(key, known):
                    yield Fault(where=f"tasks[{number}].{place}", why=f"unknown parameter {key!a}{hint}")


def _templates(task: object) -> Iterator[tuple[str, str]]:
    """Yield the templates of a task in the strict form, with their paths."""
    if not isinstance(task, dict):
        return
    if isinstance(when := task.get("when"), str):
        yield "when", f"{{{{{when}}}}}"
    work = task.get("work")
    work = work if isinstance(work, dict) else {}
    if isinstance(words := work.get("run"), list):
        yield from (("work.run", word) for word in words if isinstance(word, str))
    for kind, fields in _TEMPLATES.items():
        inside = work.get(kind)
        if isinstance(inside, dict):
            yield from ((f"work.{kind}.{field}", text) for field in fields for text in _texts_in(inside.get(field)))
    if isinstance(variables := work.get("env"), dict):
        yield from ((f"work.env.{name}", text) for name, text in variables.items() if isinstance(text, str))


def _texts_in(value: object) -> Iterator[str]:
    """Yield every string in a value, except keys."""
    match value:
        case str():
            yield value
        case list() | tuple():
            for one in value:
                yield from _texts_in(one)
        case dict():
            yield from _texts_in(list(value.values()))
        case _:
            pass


def _put_into(directory: str, job: dict[str, object]) -> None:
    """Set the working directory of each task that has work, or make its own relative to it."""
    tasks = job.get("tasks")
    for task in tasks if isinstance(tasks, list) else ():
        match task:
            case {"work": dict() as work} if not (KINDS.keys() - _REMOTE_KINDS).isdisjoint(work):
                own = work.get("directory")
                if own is None or isinstance(own, str):
                    work["directory"] = posixpath.join(directory, own) if own else directory
