"""Handle of a run on a server, as returned by `Job.trigger`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.client.results import RunResult, TaskResult
from mainspring.dsl.recorded_graph import Recorded

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import TaskView


class RunHandle:
    """A run on a server."""

    def __init__(self, connect: Callable[[], Client], run_id: str, recorded: Recorded) -> None:
        self.run_id = run_id
        self._connect = connect
        self._recorded = recorded

    def state(self) -> str:
        """Return the current state of the run."""
        with self._connect() as client:
            return client.run(self.run_id).state

    def wait(self, timeout_seconds: float | None = None) -> RunResult:
        """Wait for the run to finish, and return its result. Raises TimeoutError."""
        with self._connect() as client:
            run = client.wait(self.run_id, timeout_seconds)
            tasks = map(_task_result, client.tasks_of(self.run_id))
            return self._recorded.result(run.id, run.state, run.because, run.params, tasks)

    def result(self, timeout_seconds: float | None = None) -> Any:
        """Wait for the run to finish, and return the job's return value. Raises TaskError if it failed."""
        return self.wait(timeout_seconds).value

    def cancel(self, why: str = "") -> None:
        """Cancel the run."""
        with self._connect() as client:
            client.cancel_run(self.run_id, why)

    def __repr__(self) -> str:
        return f"<run {self.run_id}>"


def _task_result(task: TaskView) -> TaskResult:
    return TaskResult(
        name=task.name,
        label=task.label,
        partition=task.partition,
        state=task.state,
        output=msgspec.json.decode(task.output),
        error=msgspec.json.decode(task.error, type=dict[str, Any] | None),
        attempts=task.attempt,
        because=task.because,
    )
