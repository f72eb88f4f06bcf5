"""`.schedule-state.json`, beside each pipeline: the status and history of its schedule (FLD-3).

The database is authoritative and this file mirrors it: it is written without fsync, and a failed write (a full disk,
missing permissions) is logged and stops nothing.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec
import structlog

from mainspring.atomic_files import write_atomically
from mainspring.folder.state import safe_files
from mainspring.folder.state.records import ARCHIVE_FILE, STATE_FILE, VERSION, ScheduleState
from mainspring.protocol.errors import InvalidFile

MAX_FILE_BYTES = 4 * 1024 * 1024

log = structlog.get_logger()

_SCHEDULE_ID = re.compile(r"[a-z0-9._-]{1,115}-[a-z0-9]{6}")


class StateFault(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid state file."""

    file: str
    why: str


class _Versioned(msgspec.Struct, frozen=True, kw_only=True):
    version: int


def read_state(directory: Path) -> ScheduleState | StateFault | None:
    """Read the state file of a pipeline; None if there is none. Unknown fields are ignored."""
    return _read(directory / STATE_FILE)


def write_state(directory: Path, state: ScheduleState) -> bool:
    """Write the state file; return whether it changed. A failure is logged, and leaves the file unchanged."""
    path = directory / STATE_FILE
    data = safe_files.encode(state)
    with contextlib.suppress(InvalidFile):  # an invalid file is replaced
        if safe_files.read(path, max_bytes=MAX_FILE_BYTES) == data:
            return False
    try:
        write_atomically(path, data)
    except OSError as error:
        log.warning("state.not_written", path=str(path), schedule=state.schedule_id, error=error.strerror)
        return False
    return True


def archive_state(directory: Path) -> bool:
    """Archive the state file of a pipeline that lost its schedule; return whether there was one."""
    return _rename(directory / STATE_FILE, directory / ARCHIVE_FILE)


def restore_archived(directory: Path) -> ScheduleState | StateFault | None:
    """Restore and read the archived state of a schedule that was added again; None if there is none.

    An existing state file has precedence.
    """
    state = _read(directory / STATE_FILE)
    if state is None and _rename(directory / ARCHIVE_FILE, directory / STATE_FILE):
        return _read(directory / STATE_FILE)
    return state


def drop_state(directory: Path) -> None:
    """Delete the state files of a removed pipeline."""
    for name in (STATE_FILE, ARCHIVE_FILE, f"{STATE_FILE}.new"):
        try:
            (directory / name).unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            log.warning("state.not_dropped", path=str(directory / name), error=error.strerror)


def _read(path: Path) -> ScheduleState | StateFault | None:
    try:
        data = safe_files.read(path, max_bytes=MAX_FILE_BYTES)
        return None if data is None else _decode(data)
    except InvalidFile as fault:
        return StateFault(file=path.name, why=str(fault))


def _decode(data: bytes) -> ScheduleState:
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != VERSION:
            raise InvalidFile(f"has version {version}; only version {VERSION} is supported")
        state = msgspec.json.decode(data, type=ScheduleState)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFile(f"can't be parsed: {error}") from error
    if not _SCHEDULE_ID.fullmatch(state.schedule_id):
        raise InvalidFile(f"has an invalid scheduleId: {state.schedule_id[:80]!r}")
    runs = [run for run in (state.last_run, *state.history) if run is not None]
    times = [at for run in runs for at in (run.started_at, run.completed_at)]
    if not safe_files.is_plausible(state.next_run, state.stats.last_failure, *times):
        raise InvalidFile("has a time out of range")
    return state


def _rename(old: Path, new: Path) -> bool:
    try:
        old.rename(new)
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("state.not_moved", path=str(old), to=new.name, error=error.strerror)
        return False
    return True
