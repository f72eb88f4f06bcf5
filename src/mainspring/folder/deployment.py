"""Rules of deploying a folder of pipelines: what to apply, and what is stale on the server (FLD-9).

Pure except `read_folder`. The folder is read and never written, so a deployment is the same from every machine: a
schedule is named after its pipeline, not after the state file that a scheduler wrote beside it.

Deployed jobs have the label `deployed-from`, deployed webhooks have it in their note. Only objects with this folder's
label are ever deleted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from mainspring.core.schedules.schedule_json import encode_schedule
from mainspring.definitions.pipeline_file import Pipeline, read_pipeline
from mainspring.dsl.names import job_name
from mainspring.folder.discover import ROOT, FoundPipeline, scan
from mainspring.folder.state.records import PIPELINE_FILE
from mainspring.protocol.errors import Fault, InvalidFile
from mainspring.protocol.rest.admin import WebhookRequest, WebhookView
from mainspring.protocol.rest.apply import ApplyItem, ScheduleItem
from mainspring.protocol.rest.runs import JobView
from mainspring.protocol.rest.schedules import ScheduleView

LABEL = "deployed-from"
MAX_LABEL_LENGTH = 63
_CREATED, _UNCHANGED = "created", "unchanged"
_EVENT = "-event"


def folder_label(name: str) -> str:
    """Return a folder's name as a label value."""
    return job_name(name)[:MAX_LABEL_LENGTH].rstrip("-.") or "pipelines"


def label_filter(label: str, *, all_tenants: bool) -> str:
    """Return the job filter that matches a folder's label."""
    return f"label.{LABEL}={label}{' tenant:*' if all_tenants else ''}"


def read_folder(root: Path, at: str) -> list[Pipeline]:
    """Read every pipeline below `root`, which workers have at `at`. Raises InvalidFile with the errors of all files."""
    scanned = scan(root)
    pipelines: dict[str, Pipeline] = {}
    sentences = list(scanned.faults)
    faults: list[Fault] = [Fault(where=str(root), why=why) for why in scanned.faults]
    for found in scanned.found:
        file = str(root / found.path / PIPELINE_FILE)
        try:
            pipeline = _read(found, file, at)
        except InvalidFile as invalid:
            sentences.append(str(invalid))
            faults.extend(invalid.faults)
            continue
        if pipeline.id in pipelines:
            why = f"has the same id as {pipelines[pipeline.id].file}, {pipeline.id}: rename one of the directories"
            sentences.append(f"{file}: {why}")
            faults.append(Fault(where=file, why=why))
        else:
            pipelines[pipeline.id] = pipeline
    if faults:
        error = InvalidFile("\n\n".join(sentences))
        error.faults = tuple(faults)
        raise error
    return list(pipelines.values())


def _read(found: FoundPipeline, file: str, at: str) -> Pipeline:
    if found.fault is not None:
        raise InvalidFile(f"{file}: {found.fault}", [Fault(where=file, why=found.fault)])
    directory = at if found.path == ROOT else posixpath.join(at, found.path)
    return read_pipeline(found.text, file, id=found.pipeline_id, directory=directory)


def item_of(pipeline: Pipeline, label: str) -> ApplyItem:
    """Return a pipeline as an item of an apply request."""
    job = msgspec.json.decode(pipeline.job, type=dict[str, object])
    labels = job.get("labels")
    job["labels"] = {**(labels if isinstance(labels, dict) else {}), LABEL: label}
    schedules = (encode_schedule(msgspec.json.encode(spec).decode()) for spec in pipeline.schedules)
    return ApplyItem(
        job=msgspec.Raw(msgspec.json.encode(job)),
        schedules=[ScheduleItem(definition=msgspec.Raw(text)) for text in schedules],
        tenant=pipeline.tenant,
    )


def pipeline_of(job: JobView, pipelines: Mapping[str, Pipeline]) -> Pipeline | None:
    """Return the pipeline of a deployed job, or None. A pipeline without a tenant matches a job of any tenant."""
    found = pipelines.get(job.name)
    return found if found is not None and found.tenant in {None, job.tenant} else None


def stale_schedules(existing: Iterable[ScheduleView], pipeline: Pipeline | None, job: str) -> list[str]:
    """Return the deployed schedules of a job that its file no longer has. `pipeline` is None if the file is gone."""
    wanted = () if pipeline is None else {spec.name for spec in pipeline.schedules}
    ours = {job, job + _EVENT}
    return [one.name for one in existing if one.job == job and one.name in ours and one.name not in wanted]


def plan_webhooks(
    pipelines: Sequence[Pipeline], existing: Iterable[WebhookView], label: str, *, prune: bool
) -> tuple[list[WebhookRequest], list[WebhookView]]:
    """Return the webhooks to create for these pipelines, and those to delete.

    Only webhooks with this folder's label are considered. With `prune`, those of removed pipelines are deleted too.
    """
    note = webhook_note(label)
    jobs = {pipeline.id for pipeline in pipelines}
    missing = [
        WebhookRequest(url=notice.url, events=notice.events, job=pipeline.id, note=note, tenant=pipeline.tenant)
        for pipeline in pipelines
        for notice in pipeline.notices
    ]
    stale = []
    for webhook in existing:
        if webhook.note != note:
            continue
        same = next((request for request in missing if _matches(webhook, request)), None)
        if same is not None:
            missing.remove(same)
        elif webhook.job in jobs or prune:
            stale.append(webhook)
    return missing, stale


def _matches(webhook: WebhookView, request: WebhookRequest) -> bool:
    return (webhook.job, webhook.url, set(webhook.events)) == (request.job, request.url, set(request.events)) and (
        request.tenant in {None, webhook.tenant}
    )


def webhook_note(label: str) -> str:
    """Return the note of a deployed webhook."""
    return f"{LABEL} {label}"


def change_of(job: str, schedules: Mapping[str, str], *, others_changed: bool) -> str:
    """Return the change of a pipeline, from the changes of its parts."""
    if job in {"", _CREATED}:
        return job
    parts = {job, *schedules.values()}
    return _UNCHANGED if parts == {_UNCHANGED} and not others_changed else "updated"
