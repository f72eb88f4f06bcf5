"""Checks of tasks with conditions (DAG-4).

1. A task whose condition is false or can't be evaluated with the current outputs is never attempted.
2. A task is skipped or fails for its condition only if the condition says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import Batch
from mainspring.core.model.task import Task
from tests.sim.check_dynamic_tasks import members_of, parents_of
from tests.sim.conditions import holds, upstream_of
from tests.sim.findings import Findings
from tests.sim.model import Model

_SAID = {"condition is false": False, "condition can't be evaluated": None}


class WhenCheck:
    """Checks conditions in batches."""

    def __init__(self, findings: Findings) -> None:
        self._require = findings.require

    def check(self, model: Model, batch: Batch) -> None:
        """Check tasks that a batch skipped or failed for a condition, once it is in the model."""
        for step in batch.transitions:
            said, colon, _ = step.because.partition(":")
            task = model.task(step.task_id) if colon and said in _SAID else None
            if task is None or task.seq != step.seq or task.run_id not in model.runs:
                continue
            found = _ask(model, task)
            if found:
                right = found == (_SAID[said],)
                self._require("DAG-4", right, f"{task.id} ended: {step.because}; and it is {found}")

    def check_placed(self, model: Model, task: Task) -> None:
        """Check a task that gets an attempt."""
        found = _ask(model, task)
        if found:
            self._require("DAG-4", found == (True,), f"{task.id} was placed, and its condition is {found}")


def _ask(model: Model, task: Task) -> tuple[bool | None, ...]:
    """Evaluate a condition; None if there is none, or its upstream was restarted."""
    when = model.spec_of(task).when
    if when is None:
        return ()
    tasks = model.tasks[task.run_id]
    outputs: dict[str, Any] = {}
    for position in parents_of(model, task):
        row = tasks[position]
        if row.name != upstream_of(when):
            continue
        members = members_of(model, row)
        if any(one.state not in FINAL for one in members):
            return ()
        given = [msgspec.json.decode(one.output or "null") for one in members]
        is_list = row.origin is not None and model.spec_of(row).for_each is not None
        outputs[row.name] = given if is_list else given[0]
    params = msgspec.json.decode(model.runs[task.run_id].params)
    return (holds(when, outputs.__getitem__, params),)
