"""A folder of pipelines: its state files, and the client of the scheduler that runs it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.config.connection_settings import resolve_connection_settings
from mainspring.cli.options import ConnectionOptions, Printing
from mainspring.cli.render.facts import format_when, print_facts
from mainspring.cli.render.output import Column, Table, format_ago, format_time
from mainspring.client.addresses import is_loopback, read_address
from mainspring.client.api_calls import DEFAULT_SERVER
from mainspring.client.client import Client
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
    affinity = [state for state in known if state.schedule_id.startswith(reference)]
    if len(affinity) > 1:
        names = ", ".join(state.schedule_id for state in affinity[:5])
        raise Refused(f"{reference} matches {names}; use a longer prefix")
    if not affinity:
        hint = did_you_mean(reference, [state.pipeline_id for state in known])
        raise NotFound(f"{folder} has no schedule {reference}{hint}")
    return affinity[0]


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
        since = f"{format_time(max(written), printing)}, {format_ago(max(written), now)}"
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


def show_state(state: ScheduleState, printing: Printing) -> None:
    """Print the state of a schedule."""
    last, stats = state.last_run, state.stats
    print_facts(
        ("schedule", state.schedule_id),
        ("pipeline", state.pipeline_id),
        ("status", state.status),
        ("next", format_when(state.next_run, printing)),
        ("last", None if last is None else f"{_result(last)} {format_when(last.started_at, printing)}"),
        ("error", None if last is None else last.error or None),
        ("result", None if last is None else last.result_file or None),
        ("runs", f"{stats.total_runs}, {stats.failed_runs} failed"),
        ("last failure", format_when(stats.last_failure, printing)),
        ("average duration", f"{stats.average_duration:.0f} ms" if stats.average_duration else None),
    )


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
