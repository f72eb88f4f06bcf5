"""What attempts printed, as files of this server's disk: `logs/<day>/<attempt>.<start>.log`.

A file is a segment: the part of one attempt's log that begins at `start`. Usually there is one, from 0. A piece that
does not follow what is here begins another: what is in between went to the server that led before. The segment that
has the end of the log is called `.end` instead of `.log`.

1. An attempt's id is checked against a strict pattern before it becomes a part of a path.
2. A piece may come twice, or overlap: a byte of the log is at one place in its segment, and never written twice there.
3. A log is never longer than its limit, and the directory shrinks by whole days, the oldest first.

Nothing here waits on anything but the disk: the store of logs (`api/logs/logs.py`) calls it in a thread, one call at a
time. A piece that was written survives the process; whether it survives the machine is up to the operating system, and
to the worker's own copy.
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

LARGEST_LOG_BYTES = 64 * 1024 * 1024
LARGEST_DIRECTORY_BYTES = 10 * 1024 * 1024 * 1024
KEPT = timedelta(days=7)

_ATTEMPT = re.compile(r"att_([0-9a-f]{12})-[0-9a-f]{16}")
_SEGMENT = re.compile(rf"({_ATTEMPT.pattern})\.(\d{{1,16}})\.(log|end)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_IN_MIND = 3
"""Of so many days the names of all files are in memory: those that are written or read now."""

_MOST_SILENT = 50_000


class Segment(msgspec.Struct, kw_only=True):
    """One file: a part of a log without a gap."""

    start: int
    size: int
    ended: bool = False

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + self.size


class _Moved(Exception):
    """A file is not as long as it was: somebody else has written there."""


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a log is here."""

    size: int = 0
    """Where the last segment ends."""
    complete: bool = False
    """The end of the log is here; what is before it need not be."""


def is_attempt(id: str) -> bool:
    """Whether this can be the id of an attempt."""
    return _ATTEMPT.fullmatch(id) is not None


class LogFiles:
    """The logs below one directory."""

    def __init__(
        self,
        directory: Path,
        *,
        largest_log: int = LARGEST_LOG_BYTES,
        largest_directory: int = LARGEST_DIRECTORY_BYTES,
        kept: timedelta = KEPT,
    ) -> None:
        self._directory = directory
        self._largest_log = largest_log
        self._largest_directory = largest_directory
        self._kept = kept
        self._days: OrderedDict[str, dict[str, list[Segment]]] = OrderedDict()
        self._silent: OrderedDict[str, None] = OrderedDict()
        self._written = 0
        """Bytes since the last sweep."""

    def append(self, piece: Log) -> int:
        """Keep a piece; returns up to where the log is known here, from the piece's beginning on. Raises OSError."""
        at = min(piece.offset, self._largest_log)
        data = piece.data[: self._largest_log - at]
        try:
            segment = self._segment_for(piece, at, data)
            if segment is not None:
                self._extend(piece.attempt, segment, data[segment.stop - at :], ended=piece.last)
                at = segment.stop
        except (OSError, _Moved) as fault:
            # What is on the disk is what counts: a server that shares the directory may have written there, or a full
            # disk may have taken a part.
            self._days.pop(_day_of(piece.attempt), None)
            if isinstance(fault, _Moved):
                return self.append(piece)
            raise
        return max(at, piece.offset + len(piece.data))

    def _segment_for(self, piece: Log, at: int, data: bytes) -> Segment | None:
        """The segment that a piece belongs to, perhaps a new one; None if there is nothing to write."""
        logs = self._day(piece.attempt)
        segment = next((one for one in logs.get(piece.attempt, ()) if one.start <= at <= one.stop), None)
        if segment is not None:
            return segment
        if not data and not (piece.last and at):
            self._note_silence(piece)
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
                    raise _Moved
                file.write(fresh)
            segment.size += len(fresh)
            self._written += len(fresh)
        if ended and not segment.ended:
            segment.ended = True
            path.rename(self._path(attempt, segment))

    def _note_silence(self, piece: Log) -> None:
        """An attempt that printed nothing has no file: that it is over is remembered for a while."""
        if piece.last:
            self._silent[piece.attempt] = None
            if len(self._silent) > _MOST_SILENT:
                self._silent.popitem(last=False)

    def extent(self, attempt: str) -> Extent:
        """How much of a log is here."""
        segments = self._segments(attempt)
        if not segments:
            return Extent(complete=attempt in self._silent)
        size = max(one.stop for one in segments)
        return Extent(size=size, complete=any(one.ended and one.stop == size for one in segments))

    def read(self, attempt: str, offset: int, limit: int) -> bytes:
        """What is here of a log from `offset` on, without a gap; nothing if that byte is not here."""
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
        """Where the next segment behind a gap begins."""
        return min((one.start for one in self._segments(attempt) if one.start > offset), default=None)

    def is_large(self) -> bool:
        """Whether so much was written that it is time to sweep."""
        return self._written * 20 > self._largest_directory

    def sweep(self, today: date) -> int:
        """Take away the days that are past their time, and the oldest ones while all is too large; returns the size.

        A log that was written to within that time stays, however old its attempt is.
        """
        self._written = 0
        sizes = {day.name: _size(day) for day in sorted(self._directory.glob("[0-9]*-[0-9]*-[0-9]*"))}
        total = sum(sizes.values())
        oldest_kept = (today - self._kept).isoformat()
        for day, size in sizes.items():
            if day >= oldest_kept and (total <= self._largest_directory or day == max(sizes)):
                continue
            self._days.pop(day, None)
            left = _remove_old(self._directory / day, today - self._kept) if total <= self._largest_directory else 0
            if not left:
                shutil.rmtree(self._directory / day, ignore_errors=True)
            because = "past its time" if day < oldest_kept else "all logs together are too large"
            log.info("log.day_removed", day=day, size_bytes=size - left, left_bytes=left, because=because)
            total -= size - left
        return total

    def _path(self, attempt: str, segment: Segment) -> Path:
        kind = "end" if segment.ended else "log"
        return self._directory / _day_of(attempt) / f"{attempt}.{segment.start}.{kind}"

    def _segments(self, attempt: str) -> list[Segment]:
        return self._day(attempt).get(attempt, [])

    def _day(self, attempt: str) -> dict[str, list[Segment]]:
        """All logs of an attempt's day, by attempt."""
        day = _day_of(attempt)
        known = self._days.get(day)
        if known is None:
            known = self._days[day] = self._look(day)
            if len(self._days) > _DAYS_IN_MIND:
                self._days.popitem(last=False)
        self._days.move_to_end(day)
        return known

    def _look(self, day: str) -> dict[str, list[Segment]]:
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
    """The day on which an attempt was made, from its id; no other text gets into a path."""
    named = _ATTEMPT.fullmatch(attempt)
    if named is None:
        raise ValueError(f"{attempt!r} is no attempt")
    return (_EPOCH + timedelta(milliseconds=int(named[1], 16))).date().isoformat()


def _remove_old(directory: Path, oldest_kept: date) -> int:
    """Remove the files that were not written to since then; returns the size of the others."""
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
