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

from mainspring.core.work.work import LARGEST_CHECKPOINT_BYTES
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.attempt_files import LARGEST_OUTPUT_BYTES, parse_output, parse_progress
from mainspring.worker.executors.executor import Job, exit_failure, failure
from mainspring.worker.executors.remote.cluster import Stage, Standing
from mainspring.worker.logs.capture import Capture

_MARK = b"::mainspring-"
_END = b"::"
_LARGEST_LINE_BYTES = LARGEST_OUTPUT_BYTES + 256
"""The rest of a longer line is dropped; the reader rejects it as too long."""


class Said(StrEnum):
    """Kind of a marked line."""

    OUTPUT = "output"
    CHECKPOINT = "checkpoint"
    PROGRESS = "progress"


class MarkedLines:
    """Splits output: marked lines go to `said`, everything else, byte for byte, to `plain`."""

    def __init__(self, plain: Callable[[bytes], None], said: Callable[[Said, bytes], None]) -> None:
        self._plain = plain
        self._said = said
        self._held = b""
        """Start of a line that may be a marked one."""
        self._within = False
        """Whether an unmarked line has started."""

    def feed(self, data: bytes) -> None:
        """Process output, in chunks of any size."""
        *lines, rest = (self._held + data).split(b"\n")
        self._held = b""
        plain: list[bytes] = []
        for line in lines:
            if self._within or not self._take(line):
                plain.append(line + b"\n")
            self._within = False
        if not self._within and (_MARK.startswith(rest) or rest.startswith(_MARK)):
            self._held = rest[: _LARGEST_LINE_BYTES + 1]
        elif rest:
            plain.append(rest)
            self._within = True
        if plain:
            self._plain(b"".join(plain))

    def close(self) -> None:
        """Process a last line without newline."""
        if self._held and not self._take(self._held):
            self._plain(self._held)
        self._held = b""

    def _take(self, line: bytes) -> bool:
        """Handle a line if it is a marked one."""
        if not line.startswith(_MARK):
            return False
        name, end, words = line.removeprefix(_MARK).partition(_END)
        try:
            said = Said(name.decode(errors="replace"))
        except ValueError:
            return False
        if end:
            self._said(said, words.strip())
        return bool(end)


class Talk:
    """Reads the output of one remote attempt."""

    def __init__(self, job: Job, capture: Capture) -> None:
        self._job = job
        self._capture = capture
        self._lines = MarkedLines(capture.feed, self._hear)
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
            self._job.move(None, note)
        self._note = note

    def end(self, standing: Standing, *, was_stopped: bool) -> None:
        """Report the end. A stopped attempt has no result of its own."""
        self._lines.close()
        log_bytes = self._capture.close()
        outcome, output, error = Outcome.STOPPED, None, None
        if not was_stopped:
            outcome, error = Outcome.FAILED, standing.error
            if standing.stage is Stage.SUCCEEDED:
                try:
                    outcome, output = Outcome.SUCCEEDED, self._parsed_output()
                except Refused as refused:
                    error = failure("Output", str(refused), klass="permanent")
            elif error is None:
                error = exit_failure(standing.exit_code or 0, self._capture.last_lines())
        self._job.end(outcome, output=output, error=error, log_bytes=log_bytes)

    def _parsed_output(self) -> str:
        if self._output is None:
            return "null"
        if len(self._output) > LARGEST_OUTPUT_BYTES:
            raise Refused(f"the output exceeds {LARGEST_OUTPUT_BYTES} bytes")
        return parse_output(self._output)

    def _hear(self, said: Said, words: bytes) -> None:
        match said:
            case Said.OUTPUT:
                self._output = words
            case Said.PROGRESS:
                progress = parse_progress(words.decode(errors="replace"))
                if progress is not None:
                    self._job.move(progress.percent, progress.note)
            case Said.CHECKPOINT if len(words) <= LARGEST_CHECKPOINT_BYTES:
                # Invalid JSON is ignored.
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    self._job.save(msgspec.json.encode(msgspec.json.decode(words)).decode())
            case Said.CHECKPOINT:
                pass
