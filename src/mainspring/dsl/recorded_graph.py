"""The recorded body of a job: definition, called tasks, return value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mainspring.client.results import RunResult, TaskResult
from mainspring.core.model.job import JobSpec
from mainspring.dsl.task import Task


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded body of a job."""

    definition: dict[str, Any]
    """As sent to the server."""
    spec: JobSpec
    tasks: dict[str, Task[..., Any]]
    """By handler name."""
    returned: msgspec.Raw
    """The body's return value, with references to outputs."""

    def result(
        self, run_id: str, state: str, because: str, params: msgspec.Raw | str, tasks: Iterable[TaskResult]
    ) -> RunResult:
        """Return the result of a run, with its tasks in the order of the body's calls."""
        positions = {task.name: position for position, task in enumerate(self.spec.tasks)}
        return RunResult(
            run_id=run_id,
            state=state,
            because=because,
            tasks=tuple(sorted(tasks, key=lambda one: (positions.get(one.name, len(positions)), one.partition or 0))),
            params=params if isinstance(params, str) else bytes(params).decode(),
            returned=self.returned,
            fan_outs=frozenset(task.name for task in self.spec.tasks if task.for_each is not None),
        )
