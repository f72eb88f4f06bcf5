"""Base of executors, and what those of one supervisor share.

An executor gets a few attempts of one lease. It runs them one after another, in order, and reports to each handle. It
returns when all have ended, or when the remaining ones have not started and are to be assigned again.
`core/work/work.py` lists what a new kind of work needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import ExpressionFailed, Refused, Unavailable
from mainspring.protocol.wire import Assignment, Outcome
from mainspring.worker.artifacts.transfer import Artifacts
from mainspring.worker.executors.attempt_handle import AttemptHandle, failure
from mainspring.worker.executors.secret_values import Secrets
from mainspring.worker.logs.capture import Capture, Mask
from mainspring.worker.sandbox.sandbox import Sandboxes
from mainspring.worker.supervisor.process_groups import Processes
from mainspring.worker.supervisor.supervisor_settings import SupervisorSettings, log_path


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """What the executors of a supervisor share."""

    state_dir: Path
    settings: SupervisorSettings
    clock: Clock
    processes: Processes
    secrets: Secrets
    sandboxes: Sandboxes
    artifacts: Artifacts


class Executor:
    """Runs one kind of work."""

    max_batch = 1
    """Maximum attempts of a lease per call."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._state_dir = runtime.state_dir
        self._settings = runtime.settings
        self._clock = runtime.clock
        self._processes = runtime.processes
        self._sandboxes = runtime.sandboxes
        self._artifacts = runtime.artifacts

    async def run(self, handles: Sequence[AttemptHandle]) -> None:
        """Run these one after another. Those that have not ended on return have not started."""
        for handle in handles:
            try:
                await self.run_one(handle)
            except (Refused, Unavailable, ExpressionFailed) as error:
                kind = "Template" if isinstance(error, ExpressionFailed) else "Start"
                error_class = "transient" if isinstance(error, Unavailable) else "permanent"
                handle.end(Outcome.FAILED, error=failure(kind, str(error), error_class=error_class))

    async def run_one(self, handle: AttemptHandle) -> None:
        """Run an attempt to its end. Raises Refused, Unavailable or ExpressionFailed."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release resources; nothing more will be run."""

    async def resolve_secrets(self, handle: AttemptHandle, references: Mapping[str, str]) -> dict[str, str] | None:
        """Return secret values by variable; they are masked in all that the attempt reports. None: it has ended."""
        try:
            values = await self._runtime.secrets.resolve(references)
        except Refused as error:
            handle.end(Outcome.FAILED, error=failure("Secret", str(error), error_class="permanent"))
            return None
        handle.mask = Mask(values.values())
        return values

    def open_log(self, handle: AttemptHandle, secrets: Mapping[str, str]) -> Capture:
        """Open the log of an attempt."""
        path = log_path(self._state_dir, handle.attempt)
        return Capture(path, self._settings.log_cap_bytes, Mask(secrets.values()))

    def deadline_of(self, one: Assignment) -> datetime | None:
        """Return when the attempt reaches its time limit, if it has one."""
        return self._clock.wall() + timedelta(seconds=one.timeout_seconds) if one.timeout_seconds else None
