"""Pipeline files, `pipeline.yaml`: a job, its triggers and its notifications in one file (FLD-2).

Two forms, and every mixture of them, read by one parser:

    name: "Daily Bug Report"                     name: etl
    schedule:                                    on:
      cron: "0 9 * * 1-5"                          schedule: [{cron: "30 5 * * 1-5", timezone: Europe/Paris}]
      timezone: America/New_York                   event: {type: orders.ready}
      retryPolicy: {maxRetries: 3}               params: {day: {type: date, default: "{{ scheduled_for | yesterday }}"}}
    input: {from: {type: csv, path: bugs.csv}}   concurrency: {max: 1, when_busy: queue}
    map: {prompt: "Analyze: {{title}}"}          tasks:
    reduce: {type: json}                           - {id: extract, run: "python extract.py {{ params.day }}"}

The fields of the job part are in `definitions/files/job_fields.py`, as for job files; the others in
`definitions/files/pipeline_fields.py`. Every issue is reported with its line, as in job and schedule files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.definitions.files.drafts import invalid, issue_of, path_steps
from mainspring.definitions.files.field_values import Path
from mainspring.definitions.files.pipeline_drafts import ONLY_IN_PIPELINES, PipelineDraft
from mainspring.definitions.files.pipeline_fields import Notice, Param, SharedGroup
from mainspring.definitions.files.sources import FileIssue, Node, Position, parse, where
from mainspring.definitions.local_time_zone import system_zone
from mainspring.definitions.pipeline_schedules import PipelineContext, make_schedules
from mainspring.dsl.names import job_name
from mainspring.protocol.errors import Fault, InvalidFile

__all__ = ["Notice", "Param", "Pipeline", "SharedGroup", "is_pipeline", "locate_faults", "read_pipeline"]

_IN_FOLDERS = "pipeline.yaml"
"""File name in a folder of pipelines."""


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed pipeline file."""

    file: str
    text: str
    id: str
    """Name of its job."""
    title: str
    """Its `name`, as written."""
    job: bytes
    """A `JobSpec` as JSON."""
    schedules: tuple[ScheduleSpec, ...] = ()
    """Empty: it runs on request. The first is the file's own; beside a cron there may be a second one for an event.
    They are named after the pipeline, the second with `-event`; callers may rename them."""
    tenant: str | None = None
    priority: str | None = None
    params: dict[str, Param] = {}
    notices: tuple[Notice, ...] = ()
    group: SharedGroup | None = None
    """A group shared by several pipelines that counts its runs, with its limit, if given."""
    warnings: tuple[Fault, ...] = ()
    """Fields that were read but have no effect: each with `file:line:column`."""
    places: dict[Path, Position] = {}
    """Position of each part of the job."""
    schedule_places: dict[Path, Position] = {}
    """The same for the first schedule."""

    @property
    def constants(self) -> dict[str, object]:
        """Default parameters of a run, except computed ones."""
        return {
            key: param.default
            for key, param in self.params.items()
            if param.default is not None and not param.is_computed
        }


def read_pipeline(
    text: str, file: str, *, id: str | None = None, directory: str | None = None, local_zone: str | None = None
) -> Pipeline:
    """Parse a pipeline file. Raises InvalidFile, with all its issues and their lines.

    `id` is the name of its job; default: derived from the file's `name`, or from the file name. `directory`, absolute,
    is the working directory of its tasks and the base of its paths; without it paths stay relative. A `pipeline.yaml`
    with a directory is named after that, as in a folder of pipelines. `local_zone` is the time zone of a cron without
    one; default: the machine's.
    """
    root, issues = parse(text)
    if root is None:
        raise invalid(file, text, issues)
    if not isinstance(root.value, dict):
        why = "a pipeline file is a mapping with `name`, when it runs, and `tasks` or `map`"
        raise invalid(file, text, [*issues, FileIssue(place=root.place, why=why)])
    draft = PipelineDraft(root, root.value, issues)
    is_in_folder = directory is not None and PurePath(file).name == _IN_FOLDERS
    name = id or ("" if is_in_folder else job_name(draft.title)) or _name_of_file(file, directory)
    job, places = draft.job(name, directory)
    context = PipelineContext(
        id=name, entries=draft.context(name), params=draft.params, param_places=draft.param_places(),
        directory=directory, zone=local_zone or system_zone(),
    )  # fmt: skip
    schedules, schedule_places = make_schedules(issues, draft.blocks, context)
    if issues:
        raise invalid(file, text, issues)
    return Pipeline(
        file=file, text=text, id=name, title=draft.title or name, job=job, schedules=tuple(schedules),
        tenant=draft.tenant, priority=draft.priority, params=draft.params,
        notices=tuple(wanted.notice for wanted in draft.notices if wanted.notice.events), group=draft.group(name),
        warnings=tuple(Fault(where=where(file, issue.place), why=issue.why) for issue in draft.warnings()),
        places=places, schedule_places=schedule_places,
    )  # fmt: skip


def is_pipeline(root: Node) -> bool:
    """Return whether a file has fields that a job file does not have."""
    return isinstance(root.value, dict) and not ONLY_IN_PIPELINES.isdisjoint(root.value)


def locate_faults(pipeline: Pipeline, faults: Sequence[Fault]) -> InvalidFile:
    """Map the faults that a server found in a pipeline (`ApplyItemResult.problem`) to lines of the file."""
    issues = []
    for fault in faults:
        match path_steps(fault.where):
            case ("schedules", 0, "definition", *inner):
                places = pipeline.schedule_places
            case ("schedules", _, "definition", *inner):
                places = {(): pipeline.schedule_places.get((), Position(0, 0))}
            case ("job", *inner):
                places = pipeline.places
            case steps:
                places, inner = pipeline.places, list(steps)
        issues.append(issue_of(fault, places, steps=tuple(inner)))
    return invalid(pipeline.file, pipeline.text, issues)


def _name_of_file(file: str, directory: str | None) -> str:
    """Return a job name for a file without a name."""
    path = PurePath(file)
    folder = PurePath(directory).name if directory is not None else path.parent.name
    return job_name(folder if path.stem == "pipeline" and folder else path.stem) or "pipeline"
