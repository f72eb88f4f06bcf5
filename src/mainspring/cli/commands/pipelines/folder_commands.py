"""A folder of pipelines: its state files, and the client of the scheduler that runs it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.config.connection_settings import resolve_connection_settings
from mainspring.cli.options import ConnectionOptions, Printing
from mainspring.cli.render.output import Table, format_when
from mainspring.client.api_calls import DEFAULT_SERVER
from mainspring.client.client import Client
from mainspring.client.server_urls import is_loopback, read_address
from mainspring.core.text.suggestions import did_you_mean
from mainspring.folder.discover import scan, walk
from mainspring.folder.lock import is_locked
from mainspring.folder.state.index import Index
from mainspring.folder.state.records import ADDRESS_FILE, OWN_DIRECTORY, STATE_FILE, RunRecord, ScheduleState
from mainspring.folder.state.state_files import read_state
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotFound, Refused, Unavailable


class _Address(msgspec.Struct, frozen=True):
    address: str


def states(folder: Path) -> list[ScheduleState]:
    """Read the state files of all pipelines. Unreadable ones are skipped with a warning."""
    found = []
    for pipeline in scan(folder).found:
        state = read_state(folder / pipeline.path)
        if isinstance(state, ScheduleState):
            found.append(state)
        elif state is not None:
            click.echo(f"warning: {state.file}: {state.why}", err=True)
    return found


def find_state(folder: Path, reference: str) -> ScheduleState:
    """Find a schedule by scheduleId, pipelineId, or a prefix of scheduleId. Raises NotFound, Refused."""
    known = states(folder)
    for state in known:
        if reference in {state.schedule_id, state.pipeline_id}:
            return state
    matching = [state for state in known if state.schedule_id.startswith(reference)]
    if len(matching) > 1:
        names = ", ".join(state.schedule_id for state in matching[:5])
        raise Refused(f"{reference} matches {names}; use a longer prefix")
    if not matching:
        hint = did_you_mean(reference, [state.pipeline_id for state in known])
        raise NotFound(f"{folder} has no schedule {reference}{hint}")
    return matching[0]


def client_for(folder: Path, schedule_id: str | None = None) -> Client:
    """Return a client of the scheduler that runs this folder. Raises Unavailable if none does."""
    address = _address_in(folder)
    if address is None:
        missing = Unavailable(f"no scheduler runs {folder}")
        missing.hint = f"start it with `mainspring up {folder}`"
        raise missing
    known = Index.load(folder).entries.get(schedule_id or "")
    return Client(address, token="", tenant="" if known is None else known.tenant or "", retry_timeout_seconds=1.0)


def is_served_folder(connection: ConnectionOptions, folder: Path) -> bool:
    """Whether the target server is the scheduler that runs this folder or a parent folder."""
    now = SystemClock().wall()
    place = folder.resolve()
    address = next((_address_in(root) for root in (place, *place.parents) if is_locked(root, now)), None)
    meant = resolve_connection_settings(connection).server.value or DEFAULT_SERVER
    return address is not None and _endpoint(address) == _endpoint(meant)


def warn_if_stopped(folder: Path, printing: Printing) -> None:
    """Warn that state files are out of date if no scheduler runs the folder."""
    now = SystemClock().wall()
    if not printing.is_human_readable or is_locked(folder, now):
        return
    written = [
        datetime.fromtimestamp((folder / listing.path / STATE_FILE).lstat().st_mtime, UTC)
        for listing in walk(folder, frozenset({STATE_FILE}))
        if listing.names
    ]
    if written:
        since = format_when(max(written), printing)
        click.echo(f"no scheduler runs {folder}; showing its last state, from {since}", err=True)


def _address_in(folder: Path) -> str | None:
    """Return the address published by the scheduler that runs a folder."""
    try:
        return msgspec.json.decode((folder / OWN_DIRECTORY / ADDRESS_FILE).read_bytes(), type=_Address).address
    except (OSError, msgspec.MsgspecError):
        return None


def _endpoint(address: str) -> tuple[str, str, int | None]:
    """Normalize an address, so that addresses of the same server are equal."""
    url = read_address(address)
    return url.scheme, "localhost" if is_loopback(url.host) else url.host, url.port


SCHEDULES = Table.of(
    ScheduleState,
    "schedule=schedule_id pipeline=pipeline_id status next=next_run last result runs failed",
    last=lambda state, _: None if state.last_run is None else state.last_run.started_at,
    result=lambda state, _: _result(state.last_run),
    runs=lambda state, _: state.stats.total_runs,
    failed=lambda state, _: state.stats.failed_runs,
    id=lambda state: state.schedule_id,
)
RUNS = Table.of(
    RunRecord,
    "started=started_at result ms items retries file error",
    result=lambda record, _: _result(record),
    ms=lambda record, _: record.duration or None,
    items=lambda record, _: record.items_processed or None,
    retries=lambda record, _: record.retry_attempt or None,
    file=lambda record, _: record.result_file or None,
    error=lambda record, _: record.error or None,
    id=lambda record: record.started_at.isoformat(),
)


def state_table(printing: Printing) -> Table[ScheduleState]:
    """Return the facts about a schedule."""

    def last(state: ScheduleState, _now: datetime) -> str | None:
        run = state.last_run
        return None if run is None else f"{_result(run)} {format_when(run.started_at, printing)}"

    return Table.of(
        ScheduleState,
        "schedule=schedule_id pipeline=pipeline_id status next=next_run last error result runs last_failure "
        "average_duration",
        last=last,
        error=lambda state, _: None if state.last_run is None else state.last_run.error or None,
        result=lambda state, _: None if state.last_run is None else state.last_run.result_file or None,
        runs=lambda state, _: f"{state.stats.total_runs}, {state.stats.failed_runs} failed",
        last_failure=lambda state, _: state.stats.last_failure,
        average_duration=lambda state, _: (
            f"{state.stats.average_duration:.0f} ms" if state.stats.average_duration else None
        ),
        id=lambda state: state.schedule_id,
    )


def _result(record: RunRecord | None) -> str:
    if record is None:
        return "-"
    if record.completed_at is None:
        return "RUNNING"
    return "SUCCEEDED" if record.success else "FAILED"
