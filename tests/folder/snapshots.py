"""Directories, files and index entries, for tests of `reconcile`."""

from __future__ import annotations

from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.folder.reconcile import Directory, FolderSnapshot, Kind, Plan, is_schedule, reconcile
from mainspring.folder.state.index import IndexEntry


def pipeline(id: str, *, says: str = "1", scheduled: bool = True, event: bool = False) -> Pipeline:
    """A parsed pipeline file; `says` distinguishes its versions."""
    specs = []
    if scheduled:
        specs.append(ScheduleSpec(name=id, job=id, trigger=CronTrigger(cron="0 9 * * *")))
    if event:
        specs.append(ScheduleSpec(name=f"{id}-event", job=id, trigger=EventTrigger(type="orders")))
    job = msgspec.json.encode({"name": id, "description": says})
    return Pipeline(file=f"{id}/pipeline.yaml", text="", id=id, title=id, job=job, schedules=tuple(specs))


def directory(path: str, claim: str | None = None, read: Pipeline | None = None, **more: object) -> Directory:
    """A directory with a valid file."""
    name = path.lower()
    return Directory(path=path, pipeline_id=name, pipeline=read or pipeline(name), claim=claim, claimed_as=name, **more)  # type: ignore[arg-type]


def broken(path: str, claim: str | None = None) -> Directory:
    """A directory with an invalid file."""
    return Directory(path=path, pipeline_id=path, pipeline=None, claim=claim)


def known_after(plan: Plan) -> dict[str, IndexEntry]:
    """The index after a plan was executed."""
    return {
        one.identity.schedule_id: IndexEntry(
            schedule_id=one.identity.schedule_id, pipeline_id=one.identity.pipeline_id, path=one.identity.path,
            digest=one.digest, names=one.names,
        )
        for one in plan.wanted
    }  # fmt: skip


def look(directories: list[Directory], known: dict[str, IndexEntry] | None = None, **more: object) -> Plan:
    """Reconcile once."""
    world = FolderSnapshot(directories=directories, known=known or {}, **more)  # type: ignore[arg-type]
    return reconcile(world, Random(1))


def settled(*directories: Directory) -> tuple[dict[str, IndexEntry], list[Directory]]:
    """A reconciled folder: the index, and the directories with their state files."""
    plan = look(list(directories))
    ids = {one.path: one.schedule_id for one in plan.identities}
    written = [
        replace(one, claim=ids[one.path] if is_schedule(ids[one.path]) else None, claimed_as=one.pipeline_id)
        for one in directories
    ]
    return known_after(plan), written


def kinds(plan: Plan) -> dict[str, Kind]:
    """How each directory was matched to its schedule."""
    return {one.path: one.kind for one in plan.identities}


def ids(plan: Plan) -> dict[str, str]:
    """The schedule of each directory."""
    return {one.path: one.schedule_id for one in plan.identities}


def is_quiet(plan: Plan) -> bool:
    """Whether a plan has no changes and no warnings."""
    return plan == Plan(identities=plan.identities)
