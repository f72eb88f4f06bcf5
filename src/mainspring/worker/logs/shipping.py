"""Sends what attempts print to the server, a piece at a time, and removes what the server has.

The guard writes `logs/<attempt>`, masked and capped; there is no file if nothing was printed. A log is sent while its
attempt runs and after its end, from where the server's last `LogKept` says.

    followed ──ended──► whole ──all kept, result answered──► removed

1. At most a window of bytes is under way at once, so that logs never fill a link that results have to pass.
2. A new session begins where the server had kept each log. What was only sent is sent again; so it is if the server
   has kept nothing for a while.
3. The disk is bounded: beyond the limit the oldest logs of ended attempts go unsent, and the log says so.
4. An attempt that printed nothing costs no look at the disk when it is over: a thread that removes files which are not
   there took a tenth of the agent's time.
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
    """How far the log of one attempt is sent."""

    kept: int = 0
    sent: int = 0
    whole: int | None = None
    """Its size, once the attempt has ended."""
    said_last: bool = False
    answered: bool = False
    has_file: bool = True
    """Whether there may be something to remove."""

    def is_done(self) -> bool:
        """Has the server all of it?"""
        return self.whole is not None and (self.whole == 0 or (self.said_last and self.kept >= self.whole))


class Shipping:
    """The logs of one worker, on their way."""

    def __init__(self, state_dir: Path, limit_bytes: int = SPOOL_BYTES) -> None:
        self._state_dir = state_dir
        self._limit = limit_bytes
        self._trails: dict[str, _Trail] = {}
        self._spooled = 0
        """Bytes of logs of ended attempts."""
        self._under_way = 0
        self._waits_since: float | None = None
        """Since when the server has something that it has not kept."""
        self._gone: list[str] = []

    def restore(self, unfinished: Iterable[str], over: Iterable[str]) -> None:
        """Begin with what an earlier agent left: logs of attempts that run, that are over, or that are forgotten."""
        unfinished = set(unfinished)
        for attempt in unfinished:
            self.follow(attempt)
        logs = self._state_dir / LOGS
        found = {path.name for path in logs.iterdir()} if logs.is_dir() else set()
        for attempt in sorted(found.difference(self._trails)):
            self.end_as_is(attempt)
        self.answer(sorted((found | set(self._trails)).difference(unfinished, over)))

    def follow(self, attempt: str) -> None:
        """An attempt has begun: look at its log from now on."""
        self._trails.setdefault(attempt, _Trail())

    def end(self, attempt: str, size: int) -> None:
        """An attempt has ended, and its log has this size."""
        # A full disk may have left an empty file: the next agent finds it, and removes it.
        self._end(attempt, size, has_file=size > 0)

    def end_as_is(self, attempt: str) -> None:
        """Nobody writes to an attempt's log any more: what is on the disk is all of it."""
        try:
            size = log_path(self._state_dir, attempt).stat().st_size
        except FileNotFoundError:
            self._end(attempt, 0, has_file=False)
        else:
            self._end(attempt, size, has_file=True)

    def answer(self, attempts: Iterable[str]) -> None:
        """The server has these results: nothing but their logs is of interest any more."""
        for attempt in attempts:
            trail = self._trails.get(attempt)
            if trail is not None:
                trail.answered = True
                self._finish(attempt, trail)

    def keep(self, message: LogKept) -> None:
        """The server has a log up to here."""
        trail = self._trails.get(message.attempt)
        if trail is None:
            return
        kept = min(max(trail.kept, message.offset), trail.sent)
        self._under_way -= kept - trail.kept
        trail.kept = kept
        self._waits_since = None
        self._finish(message.attempt, trail)

    def begin_session(self) -> None:
        """Nobody knows what became of what was sent and not kept: send it again."""
        self._under_way, self._waits_since = 0, None
        for trail in self._trails.values():
            trail.sent, trail.said_last = trail.kept, False

    def is_idle(self) -> bool:
        """Is all of every ended attempt's log on the server?"""
        return all(trail.whole is None or trail.is_done() for trail in self._trails.values())

    def next_pieces(self, now: float) -> list[Log]:
        """What may be sent now, on the monotonic clock."""
        waits = self._under_way > 0 or any(trail.said_last for trail in self._trails.values())
        if not waits or self._waits_since is None:
            self._waits_since = now
        elif now - self._waits_since > RESEND_SECONDS:
            log.warning("logs.not_kept", bytes=self._under_way, seconds=RESEND_SECONDS)
            self.begin_session()
        return [piece for attempt, trail in list(self._trails.items()) for piece in self._pieces(attempt, trail)]

    def remove(self) -> None:
        """Remove the logs that are done with. May take a while: call it in a thread."""
        while self._gone:
            log_path(self._state_dir, self._gone.pop()).unlink(missing_ok=True)

    def has_rubbish(self) -> bool:
        """Is there something to remove?"""
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
            # Nothing was printed so far, or somebody removed it: then there is nothing to wait for at the end.
            if trail.whole is not None:
                self._let_go(attempt, trail)

    def _finish(self, attempt: str, trail: _Trail) -> None:
        if trail.answered and trail.is_done():
            del self._trails[attempt]
            self._spooled -= trail.whole or 0
            if trail.has_file:
                self._gone.append(attempt)

    def _bound(self) -> None:
        """Let the oldest logs go while there is more than the limit."""
        while self._spooled > self._limit:
            oldest = next((one for one in self._trails.items() if one[1].whole), None)
            if oldest is None:
                return
            attempt, trail = oldest
            log.error("logs.dropped", attempt=attempt, bytes=trail.whole, kept_bytes=trail.kept, limit=self._limit)
            log_path(self._state_dir, attempt).unlink(missing_ok=True)
            self._let_go(attempt, trail)

    def _let_go(self, attempt: str, trail: _Trail) -> None:
        """There is nothing more to send of this log."""
        self._under_way -= trail.sent - trail.kept
        self._spooled -= trail.whole or 0
        trail.sent = trail.kept = trail.whole = 0
        self._finish(attempt, trail)
