"""Validation of dynamic tasks: `for_each`, `label`, `grows`, `max_fan_out` (DAG-2, DAG-5)."""

from __future__ import annotations

from mainspring.core.admission.validate_job import Faults
from mainspring.core.expressions import engine as expressions
from mainspring.core.graph import fan_out
from mainspring.core.model.job import TaskSpec


def check_task(task: TaskSpec, number: int, faults: Faults) -> None:
    """Check the fields of a task that create other tasks."""
    where = f"tasks[{number}]"
    if task.for_each is None:
        if task.label is not None:
            faults.add(f"{where}.label", "requires for_each")
        return
    if task.grows:
        faults.add(f"{where}.grows", "can't be combined with for_each")
    fault = fan_out.fault_in_for_each(task.for_each)
    used = fan_out.output_used(task.for_each)
    if fault is not None:
        faults.add(f"{where}.for_each", fault)
    elif used is not None and all(edge.task != used for edge in task.needs):
        faults.add(f"{where}.for_each", f"uses the output of {used[:60]!r}, which the task does not need")
    if task.label is not None and (fault := expressions.check_template(task.label, fan_out.LABEL_NAMES)) is not None:
        faults.add(f"{where}.label", fault)


def check_max_fan_out(limit: int, faults: Faults) -> None:
    """Check the maximum number of tasks of a fan-out."""
    if not 1 <= limit <= fan_out.MAX_TASKS:
        faults.add("max_fan_out", f"must be from 1 to {fan_out.MAX_TASKS}")
