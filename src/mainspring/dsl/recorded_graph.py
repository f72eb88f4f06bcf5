"""What the body of a job did: a definition, the tasks that it calls, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mainspring.client.results import RunResult, TaskResult
from mainspring.core.model.job import JobSpec
from mainspring.dsl.task import Task


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's body did."""

    definition: dict[str, Any]
    """As the server takes it."""
    spec: JobSpec
    tasks: dict[str, Task[..., Any]]
    """By the names that they are served under."""
    returned: msgspec.Raw
    """What the body returned, with references to outputs."""

    def result(
        self, run_id: str, state: str, because: str, params: msgspec.Raw | str, tasks: Iterable[TaskResult]
    ) -> RunResult:
        """What became of a run, with its tasks in the order in which the body calls them."""
        places = {task.name: place for place, task in enumerate(self.spec.tasks)}
        return RunResult(
            run_id=run_id,
            state=state,
            because=because,
            tasks=tuple(sorted(tasks, key=lambda one: (places.get(one.name, len(places)), one.partition or 0))),
            params=params if isinstance(params, str) else bytes(params).decode(),
            returned=self.returned,
            fan_outs=frozenset(task.name for task in self.spec.tasks if task.for_each is not None),
        )
