"""A folder of pipelines, as commands see it: its state files, and the scheduler that runs it, if one does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.output import Column, Table
from mainspring.core.hints import did_you_mean
from mainspring.errors import NotFound, Refused, Unavailable
from mainspring.folder.discovery import scan
from mainspring.folder.index import Index
from mainspring.folder.records import ADDRESS_FILE, OWN_DIRECTORY, RunRecord, ScheduleState
from mainspring.folder.state_files import read_state
from mainspring.sdk.client import Client


class _Address(msgspec.Struct, frozen=True):
    address: str


def states(folder: Path) -> list[ScheduleState]:
    """What the state files say, by pipeline. One that can't be read is said, and left out."""
    found = []
    for pipeline in scan(folder).found:
        state = read_state(folder / pipeline.path)
        if isinstance(state, ScheduleState):
            found.append(state)
        elif state is not None:
            click.echo(f"warning: {state.file}: {state.why}", err=True)
    return found


def find_state(folder: Path, reference: str) -> ScheduleState:
    """The schedule of a scheduleId or pipelineId, or of the beginning of one. Raises NotFound, Refused."""
    known = states(folder)
    for state in known:
        if reference in {state.schedule_id, state.pipeline_id}:
            return state
    near = [state for state in known if state.schedule_id.startswith(reference)]
    if len(near) > 1:
        raise Refused(f"{reference} is the beginning of {', '.join(state.schedule_id for state in near[:5])}: say more")
    if not near:
        hint = did_you_mean(reference, [state.pipeline_id for state in known])
        raise NotFound(f"{folder} has no schedule {reference}{hint}")
    return near[0]


def client_for(folder: Path, schedule_id: str | None = None) -> Client:
    """A client of the scheduler that runs this folder. Raises Unavailable if none does."""
    place = folder / OWN_DIRECTORY / ADDRESS_FILE
    try:
        found = msgspec.json.decode(place.read_bytes(), type=_Address)
    except (OSError, msgspec.MsgspecError) as error:
        missing = Unavailable(f"no scheduler runs {folder}")
        missing.hint = f"start it with `mainspring up {folder}`"
        raise missing from error
    known = Index.load(folder).entries.get(schedule_id or "")
    return Client(found.address, token="", tenant="" if known is None else known.tenant or "", patience=1.0)


SCHEDULES: Table[ScheduleState] = Table(
    [
        Column("schedule", lambda state, _: state.schedule_id),
        Column("pipeline", lambda state, _: state.pipeline_id),
        Column("status", lambda state, _: state.status),
        Column("next", lambda state, _: state.next_run),
        Column("last", lambda state, _: None if state.last_run is None else state.last_run.started_at),
        Column("result", lambda state, _: _result(state.last_run)),
        Column("runs", lambda state, _: state.stats.total_runs),
        Column("failed", lambda state, _: state.stats.failed_runs),
    ],
    id=lambda state: state.schedule_id,
)
RUNS: Table[RunRecord] = Table(
    [
        Column("started", lambda record, _: record.started_at),
        Column("result", lambda record, _: _result(record)),
        Column("ms", lambda record, _: record.duration or None),
        Column("items", lambda record, _: record.items_processed or None),
        Column("retries", lambda record, _: record.retry_attempt or None),
        Column("file", lambda record, _: record.result_file or None),
        Column("error", lambda record, _: record.error or None),
    ],
    id=lambda record: record.started_at.isoformat(),
)


def _result(record: RunRecord | None) -> str:
    if record is None:
        return "-"
    if record.completed_at is None:
        return "RUNNING"
    return "SUCCEEDED" if record.success else "FAILED"
