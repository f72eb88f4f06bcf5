"""Log files of attempts on this server's disk: `logs/<day>/<attempt>.<start>.log`.

A file is a segment: the part of an attempt's log that begins at `start`. Usually there is one, from 0. A piece that
does not continue an existing segment starts a new one: the gap went to a previous leader. The segment with the end of
the log is named `.end` instead of `.log`.

1. An attempt id is validated against a strict pattern before it becomes part of a path.
2. Pieces may repeat or overlap: each byte has one position in its segment and is written once.
3. A log never exceeds its limit; the directory is trimmed by whole days, oldest first.

All operations block on disk only: `api/logs/logs.py` calls them in one thread, sequentially. A written piece survives
the process; surviving a machine crash depends on the operating system and on the worker's own copy.
"""

from __future__ import annotations

import re
import shutil
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import structlog

from mainspring.protocol.wire import Log

log = structlog.get_logger()

MAX_LOG_BYTES = 64 * 1024 * 1024
MAX_DIRECTORY_BYTES = 10 * 1024 * 1024 * 1024
RETENTION = timedelta(days=7)

_ATTEMPT = re.compile(r"att_([0-9a-f]{12})-[0-9a-f]{16}")
_SEGMENT = re.compile(rf"({_ATTEMPT.pattern})\.(\d{{1,16}})\.(log|end)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CACHED_DAYS = 3
"""Number of days whose file names are cached: those being written or read."""

_MAX_EMPTY_LOGS = 50_000


class Segment(msgspec.Struct, kw_only=True):
    """One file: a contiguous part of a log."""

    start: int
    size: int
    ended: bool = False

    @property
    def stop(self) -> int:
        """Return the end offset."""
        return self.start + self.size


class _SizeChanged(Exception):
    """The file size changed: another process has written to it."""


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """The local extent of a log."""

    size: int = 0
    """End of the last segment."""
    complete: bool = False
    """Whether the end of the log is here; earlier parts may be missing."""


def is_attempt(id: str) -> bool:
    """Return whether this is a well-formed attempt id."""
    return _ATTEMPT.fullmatch(id) is not None


class LogFiles:
    """The logs in one directory."""

    def __init__(
        self,
        directory: Path,
        *,
        max_log_bytes: int = MAX_LOG_BYTES,
        max_directory_bytes: int = MAX_DIRECTORY_BYTES,
        retention: timedelta = RETENTION,
    ) -> None:
        self._directory = directory
        self._max_log_bytes = max_log_bytes
        self._max_directory_bytes = max_directory_bytes
        self._retention = retention
        self._days: OrderedDict[str, dict[str, list[Segment]]] = OrderedDict()
        self._empty_logs: OrderedDict[str, None] = OrderedDict()
        self._written = 0
        """Bytes written since the last sweep."""

    def append(self, piece: Log) -> int:
        """Write a piece; returns the offset up to which the log is stored from its start on. Raises OSError."""
        at = min(piece.offset, self._max_log_bytes)
        data = piece.data[: self._max_log_bytes - at]
        try:
            segment = self._segment_for(piece, at, data)
            if segment is not None:
                self._extend(piece.attempt, segment, data[segment.stop - at :], ended=piece.last)
                at = segment.stop
        except (OSError, _SizeChanged) as fault:
            # The disk is authoritative: another server may share the directory, or a full disk may have truncated the
            # write.
            self._days.pop(_day_of(piece.attempt), None)
            if isinstance(fault, _SizeChanged):
                return self.append(piece)
            raise
        return max(at, piece.offset + len(piece.data))

    def _segment_for(self, piece: Log, at: int, data: bytes) -> Segment | None:
        """Return the segment of a piece, perhaps a new one; None if there is nothing to write."""
        logs = self._day(piece.attempt)
        segment = next((one for one in logs.get(piece.attempt, ()) if one.start <= at <= one.stop), None)
        if segment is not None:
            return segment
        if not data and not (piece.last and at):
            self._record_empty(piece)
            return None
        segment = Segment(start=at, size=0)
        logs.setdefault(piece.attempt, []).append(segment)
        return segment

    def _extend(self, attempt: str, segment: Segment, fresh: bytes, *, ended: bool) -> None:
        path = self._path(attempt, segment)
        if fresh or not segment.size:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                if file.tell() != segment.size:
                    raise _SizeChanged
                file.write(fresh)
            segment.size += len(fresh)
            self._written += len(fresh)
        if ended and not segment.ended:
            segment.ended = True
            path.rename(self._path(attempt, segment))

    def _record_empty(self, piece: Log) -> None:
        """Record the end of an empty log, which has no file, for a while."""
        if piece.last:
            self._empty_logs[piece.attempt] = None
            if len(self._empty_logs) > _MAX_EMPTY_LOGS:
                self._empty_logs.popitem(last=False)

    def extent(self, attempt: str) -> Extent:
        """Return the local extent of a log."""
        segments = self._segments(attempt)
        if not segments:
            return Extent(complete=attempt in self._empty_logs)
        size = max(one.stop for one in segments)
        return Extent(size=size, complete=any(one.ended and one.stop == size for one in segments))

    def read(self, attempt: str, offset: int, limit: int) -> bytes:
        """Read the local log from `offset` up to the next gap; empty if that byte is not here."""
        segment = next((one for one in self._segments(attempt) if one.start <= offset < one.stop), None)
        if segment is None:
            return b""
        try:
            with self._path(attempt, segment).open("rb") as file:
                file.seek(offset - segment.start)
                return file.read(min(limit, segment.stop - offset))
        except FileNotFoundError:
            self._days.pop(_day_of(attempt), None)
            return b""

    def first_after(self, attempt: str, offset: int) -> int | None:
        """Return the start of the next segment after a gap."""
        return min((one.start for one in self._segments(attempt) if one.start > offset), default=None)

    def is_large(self) -> bool:
        """Return whether enough was written to sweep."""
        return self._written * 20 > self._max_directory_bytes

    def sweep(self, today: date) -> int:
        """Delete days beyond retention, and the oldest ones while the directory is too large; return its size.

        A log written to within the retention is kept, however old its attempt is.
        """
        self._written = 0
        sizes = {day.name: _size(day) for day in sorted(self._directory.glob("[0-9]*-[0-9]*-[0-9]*"))}
        total = sum(sizes.values())
        oldest_kept = (today - self._retention).isoformat()
        for day, size in sizes.items():
            if day >= oldest_kept and (total <= self._max_directory_bytes or day == max(sizes)):
                continue
            self._days.pop(day, None)
            left = (
                _remove_old(self._directory / day, today - self._retention) if total <= self._max_directory_bytes else 0
            )
            if not left:
                shutil.rmtree(self._directory / day, ignore_errors=True)
            because = "older than the retention" if day < oldest_kept else "the directory is too large"
            log.info("log.day_removed", day=day, size_bytes=size - left, left_bytes=left, because=because)
            total -= size - left
        return total

    def _path(self, attempt: str, segment: Segment) -> Path:
        kind = "end" if segment.ended else "log"
        return self._directory / _day_of(attempt) / f"{attempt}.{segment.start}.{kind}"

    def _segments(self, attempt: str) -> list[Segment]:
        return self._day(attempt).get(attempt, [])

    def _day(self, attempt: str) -> dict[str, list[Segment]]:
        """Return the segments of an attempt's day, by attempt."""
        day = _day_of(attempt)
        known = self._days.get(day)
        if known is None:
            known = self._days[day] = self._scan_day(day)
            if len(self._days) > _CACHED_DAYS:
                self._days.popitem(last=False)
        self._days.move_to_end(day)
        return known

    def _scan_day(self, day: str) -> dict[str, list[Segment]]:
        found: dict[str, list[Segment]] = {}
        directory = self._directory / day
        for path in directory.iterdir() if directory.is_dir() else ():
            named = _SEGMENT.fullmatch(path.name)
            if named is not None:
                segment = Segment(start=int(named[3]), size=path.stat().st_size, ended=named[4] == "end")
                found.setdefault(named[1], []).append(segment)
        for segments in found.values():
            segments.sort(key=lambda one: one.start)
        return found


def _day_of(attempt: str) -> str:
    """Return the day of an attempt, from its id; no other text gets into a path."""
    named = _ATTEMPT.fullmatch(attempt)
    if named is None:
        raise ValueError(f"{attempt!r} is not an attempt id")
    return (_EPOCH + timedelta(milliseconds=int(named[1], 16))).date().isoformat()


def _remove_old(directory: Path, oldest_kept: date) -> int:
    """Delete the files last written before that day; return the size of the others."""
    left = 0
    for path in directory.iterdir():
        status = path.stat()
        if datetime.fromtimestamp(status.st_mtime, UTC).date() < oldest_kept:
            path.unlink(missing_ok=True)
        else:
            left += status.st_size
    return left


def _size(day: Path) -> int:
    return sum(path.stat().st_size for path in day.iterdir()) if day.is_dir() else 0
