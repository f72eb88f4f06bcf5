"""Test jobs and tasks without a server and without waiting.

from mainspring import testing

result = testing.run(forecast, cities=["Rome"])         retry delays of an hour take no time
assert result.value == "Rome: 21"

with testing.context(attempt=2, checkpoint={"page": 3}) as context:
    load("2026-11-15")                                  `current()` and the argument `context` return this one
assert context.checkpoints == [{"page": 4}]

with testing.World(forecast) as world:                  schedules fire as virtual time advances
    world.advance("1h")
    assert len(world.runs(forecast)) == 4

clock = testing.FrozenClock()                           for code that takes a clock
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from mainspring.client.results import RunResult
from mainspring.core.text.durations import parse_seconds
from mainspring.dsl.job import Job
from mainspring.protocol.errors import Refused
from mainspring.simulation.inprocess import virtual_time
from mainspring.simulation.inprocess.run_job import run_in_virtual_time
from mainspring.simulation.inprocess.virtual_server import World
from mainspring.task_context.task_context import Context, Identity, inside

__all__ = ["START_TIME", "FrozenClock", "RecordedContext", "World", "context", "run"]

START_TIME = virtual_time.START
"""Default start of virtual time."""


def run(job: Job[..., Any], /, *args: object, **params: Any) -> RunResult:
    """Run a job in this process on a virtual clock, which skips every wait.

    Real time passes while a function computes in a thread or waits for a socket.
    """
    return run_in_virtual_time(job, job.bind(args, params), START_TIME)


class RecordedContext(Context):
    """A context that records what a task reports."""

    def __init__(self, identity: Identity, *, backend: _Recorder, **given: Any) -> None:
        super().__init__(identity, backend=backend, **given)
        self.checkpoints = backend.checkpoints
        """Saved checkpoints, in order."""
        self.progresses = backend.progresses
        """Reported progress, as percent and note, in order."""
        self.extensions = backend.extensions
        """Requested timeout extensions in seconds, in order."""


@contextmanager
def context(
    *,
    attempt: int = 1,
    params: Mapping[str, object] | None = None,
    outputs: Mapping[str, object] | None = None,
    failed_upstreams: tuple[str, ...] = (),
    checkpoint: object = None,
    item: object = None,
    partition: int | None = None,
    total: int | None = None,
    window: datetime | None = None,
    deadline: datetime | None = None,
    tenant: str = "default",
    task_name: str = "task",
    inputs: Path | None = None,
) -> Iterator[RecordedContext]:
    """Provide the context of tasks called in this block: attempt, checkpoint, parameters, upstream outputs.

    `inputs` is a directory with the fetched files; files that the task writes are in `context.artifacts`.
    """
    identity = Identity(
        run_id="run_test",
        task_id="task_test.0",
        task_name=task_name,
        attempt=attempt,
        attempt_id=f"att_test-{attempt}",
        tenant=tenant,
        failed_upstreams=failed_upstreams,
        partition=partition,
        total=total,
        window=window,
    )
    recorded = RecordedContext(
        identity,
        backend=_Recorder(inputs),
        params=_json(params or {}),
        outputs={name: _json(output) for name, output in (outputs or {}).items()},
        checkpoint=None if checkpoint is None else _json(checkpoint),
        item=None if item is None else _json(item),
        deadline=deadline,
    )
    with inside(recorded):
        yield recorded


class FrozenClock:
    """A clock that only advances explicitly. `sleep` advances it and returns at once."""

    def __init__(self, at: datetime = START_TIME) -> None:
        self._start = at
        self._passed = 0.0

    def monotonic(self) -> float:
        """Return the elapsed seconds."""
        return self._passed

    def wall(self) -> datetime:
        """Return the current time."""
        return self._start + timedelta(seconds=self._passed)

    async def sleep(self, seconds: float) -> None:
        """Advance by `seconds`, without waiting."""
        self.advance(seconds)

    def advance(self, length: str | float) -> None:
        """Advance by a duration: `90`, `"1h30m"`."""
        self._passed += parse_seconds(length)


class _Recorder:
    """Records what a task reports."""

    def __init__(self, inputs: Path | None) -> None:
        self._inputs = inputs
        self._files: TemporaryDirectory[str] | None = None
        self.checkpoints: list[Any] = []
        self.progresses: list[tuple[float | None, str]] = []
        self.extensions: list[float] = []

    def report_progress(self, percent: float | None, note: str) -> None:
        """Record progress."""
        self.progresses.append((percent, note))

    def report_checkpoint(self, document: str) -> None:
        """Record a checkpoint."""
        self.checkpoints.append(msgspec.json.decode(document))

    def extend(self, seconds: float) -> None:
        """Record a timeout extension."""
        self.extensions.append(seconds)

    def deadline(self) -> datetime | None:
        """The deadline never changes."""
        return None

    def artifacts(self) -> Path:
        """Return a temporary directory for artifacts."""
        if self._files is None:
            self._files = TemporaryDirectory(prefix="mainspring-")
        return Path(self._files.name)

    def inputs(self) -> Path:
        """Return the directory of inputs."""
        if self._inputs is None:
            raise Refused("the test provides no inputs: pass context(inputs=DIRECTORY)")
        return self._inputs


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
