"""Ship logs to the server piece by piece, and remove them when the server has them.

The supervisor writes `logs/<attempt>`, masked and bounded; there is no file without output. A log is sent while its
attempt runs and after its end, from the offset of the server's last `LogStored`.

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

from mainspring.protocol.wire import Log, LogStored
from mainspring.worker.supervisor.supervisor_settings import LOGS, log_path

log = structlog.get_logger()

PIECE_BYTES = 128 * 1024
WINDOW_BYTES = 1024 * 1024
RESEND_SECONDS = 30.0
MAX_LOG_SPOOL_BYTES = 1024 * 1024 * 1024


class _LogState(msgspec.Struct):
    """Shipping state of one log."""

    kept: int = 0
    sent: int = 0
    total: int | None = None
    """Its size, once the attempt has ended."""
    sent_last: bool = False
    acknowledged: bool = False
    has_file: bool = True
    """Whether there may be a file to remove."""

    def is_done(self) -> bool:
        """Whether the server has all of it."""
        return self.total is not None and (self.total == 0 or (self.sent_last and self.kept >= self.total))


class Shipping:
    """Log shipping of one worker."""

    def __init__(self, state_dir: Path, limit_bytes: int = MAX_LOG_SPOOL_BYTES) -> None:
        self._state_dir = state_dir
        self._limit = limit_bytes
        self._logs: dict[str, _LogState] = {}
        self._spooled = 0
        """Bytes of logs of ended attempts."""
        self._in_flight = 0
        self._waiting_since: float | None = None
        """Since when the server has unacknowledged pieces."""
        self._removable: list[str] = []

    def restore(self, unfinished: Iterable[str], ended: Iterable[str]) -> None:
        """Resume with the logs of an earlier agent: of running, ended and forgotten attempts."""
        unfinished = set(unfinished)
        for attempt in unfinished:
            self.follow(attempt)
        logs = self._state_dir / LOGS
        found = {path.name for path in logs.iterdir()} if logs.is_dir() else set()
        for attempt in sorted(found.difference(self._logs)):
            self.end_from_disk(attempt)
        self.acknowledge(sorted((found | set(self._logs)).difference(unfinished, ended)))

    def follow(self, attempt: str) -> None:
        """Start shipping the log of a started attempt."""
        self._logs.setdefault(attempt, _LogState())

    def end(self, attempt: str, size: int) -> None:
        """The attempt ended with a log of this size."""
        # A full disk may have left an empty file: the next agent removes it.
        self._end(attempt, size, has_file=size > 0)

    def end_from_disk(self, attempt: str) -> None:
        """The log is complete as it is on disk."""
        try:
            size = log_path(self._state_dir, attempt).stat().st_size
        except FileNotFoundError:
            self._end(attempt, 0, has_file=False)
        else:
            self._end(attempt, size, has_file=True)

    def acknowledge(self, attempts: Iterable[str]) -> None:
        """The server has these results: only their logs remain."""
        for attempt in attempts:
            state = self._logs.get(attempt)
            if state is not None:
                state.acknowledged = True
                self._finish(attempt, state)

    def keep(self, message: LogStored) -> None:
        """The server has the log up to this offset."""
        state = self._logs.get(message.attempt)
        if state is None:
            return
        kept = min(max(state.kept, message.offset), state.sent)
        self._in_flight -= kept - state.kept
        state.kept = kept
        self._waiting_since = None
        self._finish(message.attempt, state)

    def begin_session(self) -> None:
        """Resend unacknowledged pieces in a new session."""
        self._in_flight, self._waiting_since = 0, None
        for state in self._logs.values():
            state.sent, state.sent_last = state.kept, False

    def is_idle(self) -> bool:
        """Whether the server has the logs of all ended attempts."""
        return all(state.total is None or state.is_done() for state in self._logs.values())

    def next_pieces(self, now: float) -> list[Log]:
        """Return the pieces to send now (monotonic time)."""
        waits = self._in_flight > 0 or any(state.sent_last for state in self._logs.values())
        if not waits or self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since > RESEND_SECONDS:
            log.warning("logs.not_kept", bytes=self._in_flight, seconds=RESEND_SECONDS)
            self.begin_session()
        return [piece for attempt, state in list(self._logs.items()) for piece in self._pieces(attempt, state)]

    def remove(self) -> None:
        """Remove finished logs. May block: call it in a thread."""
        while self._removable:
            log_path(self._state_dir, self._removable.pop()).unlink(missing_ok=True)

    def has_removable(self) -> bool:
        """Whether there are logs to remove."""
        return bool(self._removable)

    def _end(self, attempt: str, size: int, *, has_file: bool) -> None:
        if not has_file and attempt not in self._logs:
            return
        state = self._logs.setdefault(attempt, _LogState())
        if state.total is None:
            state.total = size
            state.has_file = has_file
            self._spooled += size
            self._enforce_limit()

    def _pieces(self, attempt: str, state: _LogState) -> Iterator[Log]:
        if state.sent_last or state.total == 0 or self._in_flight >= WINDOW_BYTES:
            return
        try:
            with log_path(self._state_dir, attempt).open("rb") as file:
                file.seek(state.sent)
                while self._in_flight < WINDOW_BYTES and not state.sent_last:
                    data = file.read(PIECE_BYTES)
                    last = state.total is not None and state.sent + len(data) >= state.total
                    if not data and not last:
                        return
                    yield Log(attempt, state.sent, data, last)
                    state.sent += len(data)
                    state.sent_last = last
                    self._in_flight += len(data)
        except FileNotFoundError:
            # No output so far, or the file was removed: then nothing is left to send.
            if state.total is not None:
                self._drop(attempt, state)

    def _finish(self, attempt: str, state: _LogState) -> None:
        if state.acknowledged and state.is_done():
            del self._logs[attempt]
            self._spooled -= state.total or 0
            if state.has_file:
                self._removable.append(attempt)

    def _enforce_limit(self) -> None:
        """Drop the oldest logs beyond the limit."""
        while self._spooled > self._limit:
            oldest = next((one for one in self._logs.items() if one[1].total), None)
            if oldest is None:
                return
            attempt, state = oldest
            log.error("logs.dropped", attempt=attempt, bytes=state.total, kept_bytes=state.kept, limit=self._limit)
            log_path(self._state_dir, attempt).unlink(missing_ok=True)
            self._drop(attempt, state)

    def _drop(self, attempt: str, state: _LogState) -> None:
        """Drop the unsent rest of a log."""
        self._in_flight -= state.sent - state.kept
        self._spooled -= state.total or 0
        state.sent = state.kept = state.total = 0
        self._finish(attempt, state)
