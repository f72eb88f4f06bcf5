"""Handle of one launched attempt, used by its executor and by the supervisor; format of errors."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec.structs import asdict

from mainspring.core.work.work import MAX_EXTENSION_SECONDS, Work
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Artifact, Assignment, Outcome
from mainspring.worker.executors.attempt_files import bounded_progress
from mainspring.worker.logs.capture import Mask
from mainspring.worker.supervisor import supervisor_wire as wire

_NO_MASK = Mask(())


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an attempt, as it is reported."""

    outcome: Outcome
    output: str | None = None
    error: str | None = None
    artifacts: tuple[Artifact, ...] = ()


def result_of(error: str | None, read_output: Callable[[], str]) -> AttemptResult:
    """Return the result of a process that failed with this error, or succeeded with this output."""
    if error is not None:
        return AttemptResult(outcome=Outcome.FAILED, error=error)
    try:
        return AttemptResult(outcome=Outcome.SUCCEEDED, output=read_output())
    except Refused as refused:
        return AttemptResult(outcome=Outcome.FAILED, error=failure("Output", str(refused), error_class="permanent"))


class AttemptHandle:
    """Handle of one launched attempt.

    waiting ──bind()──► bound to an executor ──begin()──► running ──end()──► ended
       └──────────────────── withdraw() ─────────────────────────────────► ended, nothing reported
    """

    def __init__(
        self, request: wire.LaunchRequest, work: Work | None, send: Callable[[wire.FromSupervisor], None]
    ) -> None:
        self.assignment: Assignment = request.assignment
        self.attempt = request.assignment.attempt
        self.needs = request.needs
        self.work = work
        self.mask = _NO_MASK
        self.has_started = False
        self.has_ended = False
        self.grace_seconds: float | None = None
        """Set when a stop was requested."""
        self._send = send
        self._stop: Callable[[float], None] | None = None
        self._recall: Callable[[], bool] | None = None
        self._prolong: Callable[[datetime], None] | None = None

    def bind(
        self, *, stop: Callable[[float], None], recall: Callable[[], bool], prolong: Callable[[datetime], None]
    ) -> None:
        """Bind to an executor, which from now on stops or recalls it."""
        self._stop, self._recall, self._prolong = stop, recall, prolong

    def stop_requested(self) -> bool:
        """Whether a stop was requested."""
        return self.grace_seconds is not None

    def release(self) -> None:
        """Unbind from an executor that has not started it."""
        self._stop = self._recall = self._prolong = None
        if self.grace_seconds is not None:
            self.end(Outcome.STOPPED)

    def begin(self, pid: int) -> None:
        """Report the start, once."""
        if not self.has_started:
            self.has_started = True
            self._send(wire.AttemptStarted(self.attempt, pid))

    def report_progress(self, percent: float | None, note: str) -> None:
        """Report progress."""
        progress = bounded_progress(percent, self.mask.text(note))
        self._send(wire.ProgressReported(self.attempt, progress.percent, progress.note))

    def report_checkpoint(self, document: str) -> None:
        """Report a checkpoint."""
        self._send(wire.CheckpointSaved(self.attempt, self.mask.json(document) or "null"))

    def request_extension(self, seconds: float) -> None:
        """Request an extension. Impossible ones are not passed on."""
        if 0 < seconds <= MAX_EXTENSION_SECONDS:
            self._send(wire.ExtensionRequested(self.attempt, seconds))

    def prolong(self, until: datetime) -> None:
        """Pass on a new deadline."""
        if self._prolong is not None and not self.has_ended:
            self._prolong(until)

    def end(
        self, outcome: Outcome, *, output: str | None = None, error: str | None = None, log_bytes: int = 0,
        artifacts: tuple[Artifact, ...] = (),
    ) -> None:  # fmt: skip
        """Report the end: all processes have ended."""
        if not self.has_ended:
            self.has_ended = True
            output, error = self.mask.json(output), self.mask.json(error)
            self._send(wire.AttemptEnded(self.attempt, outcome, output, error, log_bytes, artifacts))

    def finish(self, result: AttemptResult, log_bytes: int) -> None:
        """Report the end with this result."""
        self.end(**asdict(result), log_bytes=log_bytes)

    def stop(self, grace_seconds: float) -> None:
        """Stop the attempt. The shorter grace period counts: the job's or the requested one."""
        if self.work is not None:
            grace_seconds = min(grace_seconds, self.work.grace_seconds)
        if self.has_ended or (self.grace_seconds is not None and self.grace_seconds <= grace_seconds):
            return
        self.grace_seconds = grace_seconds
        if self._stop is not None:
            self._stop(grace_seconds)
        else:
            self.end(Outcome.STOPPED)

    def withdraw(self) -> bool:
        """Take the attempt back if it has not started."""
        if self.has_ended or self.has_started or (self._recall is not None and not self._recall()):
            return False
        self.has_ended = True
        return True


def failure(kind: str, message: str, *, error_class: str | None = None, **more: str | float) -> str:
    """Format an error: JSON with `type` and `message`, and `class` if it is known (RTY-1)."""
    known = {"class": error_class} if error_class is not None else {}
    return msgspec.json.encode({**known, "type": kind, "message": message, **more}).decode()


def exit_failure(code: int, last_lines: str = "", note: str = "") -> str:
    """Format the error of a process that exited with this code; negative codes are signals."""
    more = {"last_lines": last_lines} if last_lines else {}
    note = f" ({note})" if note else ""
    if code >= 0:
        return failure("Exit", f"exited with {code}{note}", exit_code=code, **more)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return failure("Signal", f"killed by {name}{note}", signal=name, **more)
