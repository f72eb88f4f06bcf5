"""Build the strict form of a job, from a job file or the job part of a pipeline file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.core.work.work import KINDS
from mainspring.definitions.files.drafts import Draft
from mainspring.definitions.files.field_values import Path
from mainspring.definitions.files.job_fields import DELAY_OF_RETRY, JOB_FIELDS, OWN_FIELDS, TASK_FIELDS, unfold_retry
from mainspring.definitions.files.sources import Entry, Node
from mainspring.protocol.errors import Fault, Refused


class JobDraft(Draft):
    """Builds the strict form of a job."""

    def check(self, body: bytes) -> None:
        """Add the faults by the server's rules."""
        # Ignore faults of tasks that were not read completely: their needs, for example, may be missing.
        self.unread = {path[:2] for path in self.unread}
        self.add_faults(_faults_in(body))

    def job(self, root: Node, given: Mapping[str, Entry] | None = None) -> dict[str, object]:
        """Return the whole job. `given` has further defaults of the tasks."""
        job: dict[str, object] = {}
        if not isinstance(root.value, dict):
            self.add(root.place, "a job file must be a mapping with `name` and `tasks`")
            return job
        self.places[()] = root.place
        entries = unfold_retry(root.value)
        defaults = self._defaults(root.value.get("defaults"))
        if DELAY_OF_RETRY in entries:
            defaults.setdefault(DELAY_OF_RETRY, entries[DELAY_OF_RETRY])
        defaults |= _not_set(given or {}, defaults)
        special = {"tasks", "defaults", DELAY_OF_RETRY}
        self.fill(job, (), {key: entry for key, entry in entries.items() if key not in special}, JOB_FIELDS)
        tasks = root.value.get("tasks")
        if tasks is None:
            self.add(root.place, "`tasks` is missing")
        elif not isinstance(tasks.node.value, list):
            self.add(tasks.place, "`tasks` must be a list", "each task begins with `- id:`")
        else:
            self.places["tasks",] = tasks.place
            job["tasks"] = [self._task(node, number, defaults) for number, node in enumerate(tasks.node.value)]
        return job

    def _defaults(self, entry: Entry | None) -> dict[str, Entry]:
        if entry is None:
            return {}
        if not isinstance(entry.node.value, dict):
            self.add(entry.place, "`defaults` must be a mapping of task fields")
            return {}
        for key, default in entry.node.value.items():
            if key in OWN_FIELDS:
                self.add(default.place, f"`{key}` can't be a default")
        return {key: default for key, default in unfold_retry(entry.node.value).items() if key not in OWN_FIELDS}

    def _task(self, node: Node, number: int, defaults: Mapping[str, Entry]) -> dict[str, object]:
        task: dict[str, object] = {}
        at: Path = ("tasks", number)
        self.places[at] = node.place
        if not isinstance(node.value, dict):
            self.add(node.place, "a task must be a mapping with `id` and its work", at=at)
            return task
        entries = unfold_retry(node.value)
        # Defaults first, so that the task's own fields determine the positions.
        self.fill(task, at, _not_set(defaults, entries), TASK_FIELDS)
        self.fill(task, at, entries, TASK_FIELDS)
        work = task.get("work")
        if work and isinstance(work, dict) and self.is_complete_at((*at, "work")):
            kinds = [kind for kind in KINDS if kind in work]
            if len(kinds) != 1:
                why = f"a task needs one of {', '.join(KINDS)}; it has {' and '.join(kinds) or 'none of them'}"
                note = "move `run` into `container`" if kinds == ["run", "container"] else ""
                self.add(node.place, why, note, at=at)
        if "name" not in task and not self.is_complete_at(at):
            # Its downstream tasks would seem to need an unknown task.
            self.unread.add(())
        return task


def _not_set(defaults: Mapping[str, Entry], entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the defaults of values that these fields of a task do not set."""
    targets = {TASK_FIELDS[key].target for key in entries if key in TASK_FIELDS}
    return {
        key: default
        for key, default in defaults.items()
        if key not in entries and (key not in TASK_FIELDS or TASK_FIELDS[key].target not in targets)
    }


def _faults_in(body: bytes) -> Sequence[Fault]:
    """Return the faults by the server's rules."""
    try:
        decode_job(body, Limits())
    except Refused as refused:
        return refused.faults
    return ()
