"""The index of a folder, `DIR/.mainspring/folder.json`: data about each schedule that is not in the database.

By scheduleId: the last path of its pipeline, what was last applied on the server, and the totals of its runs, so that
totals outlive the database's retention. If the index is missing, it is rebuilt from the state files.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path, PurePosixPath

import msgspec
import structlog

from mainspring.atomic_files import write_atomically
from mainspring.folder.state import safe_files
from mainspring.folder.state.records import OWN_DIRECTORY, VERSION, RunRecord, ScheduleStats
from mainspring.protocol.errors import InvalidFile

INDEX_FILE = "folder.json"
MAX_FILE_BYTES = 1024 * 1024 * 1024

log = structlog.get_logger()


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One schedule."""

    schedule_id: str
    pipeline_id: str
    path: str
    """Path of its directory, relative to the folder; `.` is the folder itself."""
    tenant: str | None = None
    digest: str = ""
    """Digest of what was last applied on the server."""
    names: tuple[str, ...] = ()
    """Names of its schedules on the server; empty for a pipeline without a schedule."""
    stats: ScheduleStats = ScheduleStats()
    history: tuple[RunRecord, ...] = ()
    """The latest runs, newest first."""
    counted: tuple[str, ...] = ()
    """Ends of runs that are in `stats` and may be reported again (`state_view.Tally`)."""
    counted_until: datetime | None = None
    """Runs that started up to then are in `stats` too: they come from a state file, which has no run ids."""
    open: tuple[str, ...] = ()
    """Ids of unfinished runs."""


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    saved_at: datetime | None = None
    schedules: tuple[IndexEntry, ...] = ()


class Index:
    """The schedules of one folder, by scheduleId. Nothing is written before `save`."""

    def __init__(self, root: Path) -> None:
        self.path = root / OWN_DIRECTORY / INDEX_FILE
        self.entries: dict[str, IndexEntry] = {}
        self.saved_at: datetime | None = None
        """Set by the writer: every run that ended before this is counted or in `open`."""

    @classmethod
    def load(cls, root: Path) -> Index:
        """Load the index of a folder. A corrupt one is renamed, with a warning, and an empty one returned."""
        index = cls(root)
        try:
            data = safe_files.read(index.path, max_bytes=MAX_FILE_BYTES)
            file = _File() if data is None else _decode(data)
            index.entries = {known.schedule_id: known for known in file.schedules if _is_valid(known)}
            index.saved_at = file.saved_at
        except InvalidFile as fault:
            log.warning("index.corrupt", path=str(index.path), because=str(fault), kept_as=index._move_corrupt_file())
        return index

    def save(self) -> bool:
        """Write the index with fsync; False, with a log line, if that failed."""
        ordered = sorted(self.entries.values(), key=lambda known: known.schedule_id)
        data = msgspec.json.encode(_File(saved_at=self.saved_at, schedules=tuple(ordered)))
        try:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self.path, data, sync=True)
        except OSError as error:
            log.warning("index.not_written", path=str(self.path), error=error.strerror)
            return False
        return True

    def _move_corrupt_file(self) -> str | None:
        backup = self.path.with_name(f"{INDEX_FILE}.corrupt")
        try:
            self.path.rename(backup)
        except OSError as error:
            log.warning("index.not_kept", path=str(backup), error=error.strerror)
            return None
        return backup.name


def _is_valid(known: IndexEntry) -> bool:
    """Whether an entry is plausible: a path below the folder, and only its own schedules."""
    path = PurePosixPath(known.path)
    is_below = bool(known.path) and not path.is_absolute() and ".." not in path.parts and "\0" not in known.path
    times = [at for run in known.history for at in (run.started_at, run.completed_at)]
    is_plausible = safe_files.is_plausible(known.stats.last_failure, known.counted_until, *times)
    if is_below and is_plausible and set(known.names) <= {known.schedule_id, f"{known.schedule_id}-event"}:
        return True
    log.warning("index.entry_not_used", schedule=known.schedule_id[:128], path=known.path[:128])
    return False


def _decode(data: bytes) -> _File:
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFile(f"can't be parsed: {error}") from error
    if file.version != VERSION:
        raise InvalidFile(f"has version {file.version}; only version {VERSION} is supported")
    return file
