"""Ship logs to the server piece by piece, and remove them when the server has them.

The supervisor writes `logs/<attempt>`, masked and bounded; there is no file without output. A log is sent while its
attempt runs and after its end, from the offset of the server's last `LogKept`.

    followed ──ended──► complete ──all kept, result acknowledged──► removed

1. At most a window of bytes is in flight, so that logs never block results on the link.
2. A new session resumes where the server had kept each log. Unacknowledged pieces are sent again; so they are if the
   server acknowledges nothing for a while.
3. Disk use is bounded: beyond the limit the oldest logs of ended attempts are dropped unsent, with a log message.
4. An attempt without output causes no disk access at its end: removing files that do not exist took a tenth of the
   agent's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import structlog

from mainspring.protocol.wire import Log, LogKept
from mainspring.worker.supervisor.supervisor_settings import LOGS, log_path

log = structlog.get_logger()

PIECE_BYTES = 128 * 1024
WINDOW_BYTES = 1024 * 1024
RESEND_SECONDS = 30.0
SPOOL_BYTES = 1024 * 1024 * 1024


class _Trail(msgspec.Struct):
    """Shipping state of one log."""

    kept: int = 0
    sent: int = 0
    whole: int | None = None
    """Its size, once the attempt has ended."""
    said_last: bool = False
    answered: bool = False
    has_file: bool = True
    """Whether there may be a file to remove."""

    def is_done(self) -> bool:
        """Whether the server has all of it."""
        return self.whole is not None and (self.whole == 0 or (self.said_last and self.kept >= self.whole))


class Shipping:
    """Log shipping of one worker."""

    def __init__(self, state_dir: Path, limit_bytes: int = SPOOL_BYTES) -> None:
        self._state_dir = state_dir
        self._limit = limit_bytes
        self._trails: dict[str, _Trail] = {}
        self._spooled = 0
        """Bytes of logs of ended attempts."""
        self._under_way = 0
        self._waits_since: float | None = None
        """Since when the server has unacknowledged pieces."""
        self._gone: list[str] = []

    def restore(self, unfinished: Iterable[str], over: Iterable[str]) -> None:
        """Resume with the logs of an earlier agent: of running, ended and forgotten attempts."""
        unfinished = set(unfinished)
        for attempt in unfinished:
            self.follow(attempt)
        logs = self._state_dir / LOGS
        found = {path.name for path in logs.iterdir()} if logs.is_dir() else set()
        for attempt in sorted(found.difference(self._trails)):
            self.end_as_is(attempt)
        self.answer(sorted((found | set(self._trails)).difference(unfinished, over)))

    def follow(self, attempt: str) -> None:
        """Start shipping the log of a started attempt."""
        self._trails.setdefault(attempt, _Trail())

    def end(self, attempt: str, size: int) -> None:
        """The attempt ended with a log of this size."""
        # A full disk may have left an empty file: the next agent removes it.
        self._end(attempt, size, has_file=size > 0)

    def end_as_is(self, attempt: str) -> None:
        """The log is complete as it is on disk."""
        try:
            size = log_path(self._state_dir, attempt).stat().st_size
        except FileNotFoundError:
            self._end(attempt, 0, has_file=False)
        else:
            self._end(attempt, size, has_file=True)

    def answer(self, attempts: Iterable[str]) -> None:
        """The server has these results: only their logs remain."""
        for attempt in attempts:
            trail = self._trails.get(attempt)
            if trail is not None:
                trail.answered = True
                self._finish(attempt, trail)

    def keep(self, message: LogKept) -> None:
        """The server has the log up to this offset."""
        trail = self._trails.get(message.attempt)
        if trail is None:
            return
        kept = min(max(trail.kept, message.offset), trail.sent)
        self._under_way -= kept - trail.kept
        trail.kept = kept
        self._waits_since = None
        self._finish(message.attempt, trail)

    def begin_session(self) -> None:
        """Resend unacknowledged pieces in a new session."""
        self._under_way, self._waits_since = 0, None
        for trail in self._trails.values():
            trail.sent, trail.said_last = trail.kept, False

    def is_idle(self) -> bool:
        """Whether the server has the logs of all ended attempts."""
        return all(trail.whole is None or trail.is_done() for trail in self._trails.values())

    def next_pieces(self, now: float) -> list[Log]:
        """Return the pieces to send now (monotonic time)."""
        waits = self._under_way > 0 or any(trail.said_last for trail in self._trails.values())
        if not waits or self._waits_since is None:
            self._waits_since = now
        elif now - self._waits_since > RESEND_SECONDS:
            log.warning("logs.not_kept", bytes=self._under_way, seconds=RESEND_SECONDS)
            self.begin_session()
        return [piece for attempt, trail in list(self._trails.items()) for piece in self._pieces(attempt, trail)]

    def remove(self) -> None:
        """Remove finished logs. May block: call it in a thread."""
        while self._gone:
            log_path(self._state_dir, self._gone.pop()).unlink(missing_ok=True)

    def has_rubbish(self) -> bool:
        """Whether there are logs to remove."""
        return bool(self._gone)

    def _end(self, attempt: str, size: int, *, has_file: bool) -> None:
        if not has_file and attempt not in self._trails:
            return
        trail = self._trails.setdefault(attempt, _Trail())
        if trail.whole is None:
            trail.whole = size
            trail.has_file = has_file
            self._spooled += size
            self._bound()

    def _pieces(self, attempt: str, trail: _Trail) -> Iterator[Log]:
        if trail.said_last or trail.whole == 0 or self._under_way >= WINDOW_BYTES:
            return
        try:
            with log_path(self._state_dir, attempt).open("rb") as file:
                file.seek(trail.sent)
                while self._under_way < WINDOW_BYTES and not trail.said_last:
                    data = file.read(PIECE_BYTES)
                    last = trail.whole is not None and trail.sent + len(data) >= trail.whole
                    if not data and not last:
                        return
                    yield Log(attempt, trail.sent, data, last)
                    trail.sent += len(data)
                    trail.said_last = last
                    self._under_way += len(data)
        except FileNotFoundError:
            # No output so far, or the file was removed: then nothing is left to send.
            if trail.whole is not None:
                self._let_go(attempt, trail)

    def _finish(self, attempt: str, trail: _Trail) -> None:
        if trail.answered and trail.is_done():
            del self._trails[attempt]
            self._spooled -= trail.whole or 0
            if trail.has_file:
                self._gone.append(attempt)

    def _bound(self) -> None:
        """Drop the oldest logs beyond the limit."""
        while self._spooled > self._limit:
            oldest = next((one for one in self._trails.items() if one[1].whole), None)
            if oldest is None:
                return
            attempt, trail = oldest
            log.error("logs.dropped", attempt=attempt, bytes=trail.whole, kept_bytes=trail.kept, limit=self._limit)
            log_path(self._state_dir, attempt).unlink(missing_ok=True)
            self._let_go(attempt, trail)

    def _let_go(self, attempt: str, trail: _Trail) -> None:
        """Drop the unsent rest of a log."""
        self._under_way -= trail.sent - trail.kept
        self._spooled -= trail.whole or 0
        trail.sent = trail.kept = trail.whole = 0
        self._finish(attempt, trail)
