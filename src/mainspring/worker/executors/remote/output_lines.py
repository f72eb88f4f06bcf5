"""Marked lines in the output of a remote task, by which it reports to its worker (WRK-6, WRK-7).

    ::mainspring-output:: {"rows": 3}        its output, or `rows=3`; the last one counts
    ::mainspring-checkpoint:: {"page": 3}    JSON for its next attempt
    ::mainspring-progress:: 40 loading       its progress

Remote tasks share no files with the worker and may not reach the server: this needs only stdout. Marked lines are not
copied to the log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

import msgspec

from mainspring.core.work.work import MAX_CHECKPOINT_BYTES
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.attempt_files import MAX_OUTPUT_BYTES, parse_output, parse_progress
from mainspring.worker.executors.attempt_handle import AttemptHandle, AttemptResult, exit_failure, result_of
from mainspring.worker.executors.remote.cluster import JobStatus, Stage
from mainspring.worker.logs.capture import Capture

_MARK = b"::mainspring-"
_END = b"::"
_MAX_LINE_BYTES = MAX_OUTPUT_BYTES + 256
"""The rest of a longer line is dropped; the reader rejects it as too long."""


class LineKind(StrEnum):
    """Kind of a marked line."""

    OUTPUT = "output"
    CHECKPOINT = "checkpoint"
    PROGRESS = "progress"


class MarkedLines:
    """Splits output: marked lines go to `kind`, everything else, byte for byte, to `plain`."""

    def __init__(self, plain: Callable[[bytes], None], kind: Callable[[LineKind, bytes], None]) -> None:
        self._plain = plain
        self._on_line = kind
        self._partial = b""
        """Start of a line that may be a marked one."""
        self._in_plain_line = False
        """Whether an unmarked line has started."""

    def feed(self, data: bytes) -> None:
        """Process output, in chunks of any size."""
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = b""
        plain: list[bytes] = []
        for line in lines:
            if self._in_plain_line or not self._take(line):
                plain.append(line + b"\n")
            self._in_plain_line = False
        if not self._in_plain_line and (_MARK.startswith(rest) or rest.startswith(_MARK)):
            self._partial = rest[: _MAX_LINE_BYTES + 1]
        elif rest:
            plain.append(rest)
            self._in_plain_line = True
        if plain:
            self._plain(b"".join(plain))

    def close(self) -> None:
        """Process a last line without newline."""
        if self._partial and not self._take(self._partial):
            self._plain(self._partial)
        self._partial = b""

    def _take(self, line: bytes) -> bool:
        """Handle a line if it is a marked one."""
        if not line.startswith(_MARK):
            return False
        name, end, payload = line.removeprefix(_MARK).partition(_END)
        try:
            kind = LineKind(name.decode(errors="replace"))
        except ValueError:
            return False
        if end:
            self._on_line(kind, payload.strip())
        return bool(end)


class OutputReader:
    """Reads the output of one remote attempt."""

    def __init__(self, handle: AttemptHandle, capture: Capture) -> None:
        self._handle = handle
        self._capture = capture
        self._lines = MarkedLines(capture.feed, self._handle_line)
        self._output: bytes | None = None
        self._note = ""
        self.size_bytes = 0

    def feed(self, data: bytes) -> None:
        """Process output."""
        self.size_bytes += len(data)
        self._lines.feed(data)

    def note(self, note: str) -> None:
        """Report what it waits for, if that has changed."""
        if note and note != self._note:
            self._handle.report_progress(None, note)
        self._note = note

    def end(self, status: JobStatus, *, was_stopped: bool) -> None:
        """Report the end. A stopped attempt has no result of its own."""
        self._lines.close()
        log_bytes = self._capture.close()
        result = AttemptResult(outcome=Outcome.STOPPED)
        if not was_stopped:
            error = status.error
            if error is None and status.stage is not Stage.SUCCEEDED:
                error = exit_failure(status.exit_code or 0, self._capture.last_lines())
            result = result_of(error, self._parsed_output)
        self._handle.finish(result, log_bytes)

    def _parsed_output(self) -> str:
        if self._output is None:
            return "null"
        if len(self._output) > MAX_OUTPUT_BYTES:
            raise Refused(f"the output exceeds {MAX_OUTPUT_BYTES} bytes")
        return parse_output(self._output)

    def _handle_line(self, kind: LineKind, payload: bytes) -> None:
        match kind:
            case LineKind.OUTPUT:
                self._output = payload
            case LineKind.PROGRESS:
                progress = parse_progress(payload.decode(errors="replace"))
                if progress is not None:
                    self._handle.report_progress(progress.percent, progress.note)
            case LineKind.CHECKPOINT if len(payload) <= MAX_CHECKPOINT_BYTES:
                # Invalid JSON is ignored.
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    self._handle.report_checkpoint(msgspec.json.encode(msgspec.json.decode(payload)).decode())
            case LineKind.CHECKPOINT:
                pass
