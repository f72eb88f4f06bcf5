"""The index of a folder, `DIR/.mainspring/folder.json`: what we know of each schedule besides the database.

By scheduleId: where its pipeline was last seen, what of it the server was last given, and what its runs came to, so
that totals outlive the database's retention. Without the index everything still runs: it is made again from the state
files.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path, PurePosixPath

import msgspec
import structlog

from mainspring.folder.state import safe_files
from mainspring.folder.state.records import OWN_DIRECTORY, VERSION, RunRecord, ScheduleStats
from mainspring.protocol.errors import InvalidFile

INDEX_FILE = "folder.json"
LARGEST_BYTES = 1024 * 1024 * 1024

log = structlog.get_logger()


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What we know of one schedule."""

    schedule_id: str
    pipeline_id: str
    path: str
    """Of its directory, below the folder; `.` is the folder itself."""
    tenant: str | None = None
    digest: str = ""
    """Of what the server was last given."""
    names: tuple[str, ...] = ()
    """Of its schedules on the server; none for a pipeline that runs only when somebody asks."""
    stats: ScheduleStats = ScheduleStats()
    history: tuple[RunRecord, ...] = ()
    """The latest runs, the newest first."""
    counted: tuple[str, ...] = ()
    """Ends of runs that are in `stats`, and could come again (`states.Tally`)."""
    counted_until: datetime | None = None
    """Runs that began up to then are in `stats` too: a state file counted them, and knows no ids."""
    open: tuple[str, ...] = ()
    """Ids of runs that were not over."""


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    saved_at: datetime | None = None
    schedules: tuple[Known, ...] = ()


class Index:
    """What is known of the schedules of one folder, by scheduleId. Nothing is written before `save`."""

    def __init__(self, root: Path) -> None:
        self.path = root / OWN_DIRECTORY / INDEX_FILE
        self.entries: dict[str, Known] = {}
        self.saved_at: datetime | None = None
        """When it was last written, as whoever saves it says: runs that ended before are counted, or open."""

    @classmethod
    def load(cls, root: Path) -> Index:
        """The index of a folder. One that can't be read is put aside, with a warning, and it is empty."""
        index = cls(root)
        try:
            data = safe_files.read(index.path, most_bytes=LARGEST_BYTES)
            file = _File() if data is None else _decode(data)
            index.entries = {known.schedule_id: known for known in file.schedules if _is_sound(known)}
            index.saved_at = file.saved_at
        except InvalidFile as fault:
            log.warning("index.corrupt", path=str(index.path), because=str(fault), kept_as=index._put_aside())
        return index

    def save(self) -> bool:
        """Write the index so that it outlives a power failure; whether that worked. A fault is logged."""
        ordered = sorted(self.entries.values(), key=lambda known: known.schedule_id)
        data = msgspec.json.encode(_File(saved_at=self.saved_at, schedules=tuple(ordered)))
        try:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            safe_files.replace(self.path, data, sync=True)
        except OSError as error:
            log.warning("index.not_written", path=str(self.path), error=error.strerror)
            return False
        return True

    def _put_aside(self) -> str | None:
        aside = self.path.with_name(f"{INDEX_FILE}.corrupt")
        try:
            self.path.rename(aside)
        except OSError as error:
            log.warning("index.not_kept", path=str(aside), error=error.strerror)
            return None
        return aside.name


def _is_sound(known: Known) -> bool:
    """Whether an entry is one that we could have written: what is below the folder, and its own schedules."""
    path = PurePosixPath(known.path)
    is_below = bool(known.path) and not path.is_absolute() and ".." not in path.parts and "\0" not in known.path
    times = [at for run in known.history for at in (run.started_at, run.completed_at)]
    can_be = safe_files.can_be(known.stats.last_failure, known.counted_until, *times)
    if is_below and can_be and set(known.names) <= {known.schedule_id, f"{known.schedule_id}-event"}:
        return True
    log.warning("index.entry_not_used", schedule=known.schedule_id[:128], path=known.path[:128])
    return False


def _decode(data: bytes) -> _File:
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFile(f"can't be read: {error}") from error
    if file.version != VERSION:
        raise InvalidFile(f"has version {file.version}, and we read version {VERSION}")
    return file
