"""Checks of dynamic tasks: members of fan-outs, their number, and their dependents (DAG-2, DAG-5).

A task with `for_each` is the first of its fan-out; the others follow the existing positions. Its row contains their
number (`origin.total`). A dependent waits for all of them.

1. A dependent of a fan-out starts only when all N tasks have ended, even if few have been created yet (I-40).
2. A fan-out has exactly the tasks of its list, each number once; those of an earlier generation don't count.
3. The number of tasks is that of the items in the output; beyond the limit of its job the run is paused first.
4. An output adds exactly the tasks that it lists. If it can't, its own task fails, and nothing is added.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import TaskSpec
from mainspring.core.model.task import Task, TaskState
from tests.sim.dynamic_jobs import NOBODY
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model


class GrowthCheck:
    """Checks the tasks that batches add to runs."""

    def __init__(self, findings: Findings, ever: Ever) -> None:
        self._require = findings.require
        self._ever = ever

    def check(self, model: Model, batch: Batch) -> None:
        """Check the tasks created in a batch, once it is in the model."""
        runs: dict[str, None] = {}
        for task in (*batch.new_tasks, *(change.task for change in batch.tasks)):
            if task.origin is not None:
                runs[task.run_id] = None
        for run_id in runs:
            self._check_run(model, run_id)

    def _check_run(self, model: Model, run_id: str) -> None:
        tasks, job = model.tasks[run_id], model.job_of(run_id)
        seen: dict[tuple[int, int], list[Task]] = {}
        for task in tasks:
            if task.origin is not None:
                seen.setdefault((task.origin.parent, task.origin.generation), []).append(task)
        for (parent, generation), born in seen.items():
            maker = tasks[parent]
            story = f"{maker.id} generation {generation} made {[(one.id, one.origin) for one in born]}"
            spec = model.spec_of(maker)
            numbers = [one.origin.index for one in born if one.origin is not None]
            totals = {one.origin.total for one in born if one.origin is not None}
            self._require("DAG-2", len(set(numbers)) == len(numbers) and len(totals) == 1, story)
            total = totals.pop()
            self._require("DAG-2", all(0 <= number < max(total, 1) for number in numbers), story)
            within = total <= job.spec.max_fan_out or run_id in self._ever.paused
            self._require("DAG-2", within, f"{story}, {job.spec.max_fan_out} are allowed, and nobody said that it may")
            if spec.for_each is not None:
                items = _items(model, maker, spec)
                current = maker.origin is not None and maker.origin.generation == generation
                said = items is None or not current or total == len(items)
                self._require("DAG-2", said, f"{story} of {items}")


def can_be_added(model: Model, task: Task, output: str) -> bool:
    """Whether a run can accept an expansion: dependencies exist, and tasks that get more are waiting."""
    if not output.startswith('{"tasks"') or NOBODY in output:
        return False
    given = {edge["task"] for edge in msgspec.json.decode(output).get("edges", ())}
    rows = [one for one in model.tasks[task.run_id] if one.name in given]
    return all(row.state is TaskState.PENDING for row in rows)


def causes(model: Model, task: Task) -> Iterator[tuple[Task | None, str]]:
    """All tasks that must have ended before this one, None for one not created yet; and faults."""
    tasks, job = model.tasks[task.run_id], model.job_of(task.run_id)
    if not job.is_dynamic:
        yield from ((tasks[parent], tasks[parent].id) for parent in job.upstream[task.position] if parent < len(tasks))
        return
    for parent in parents_of(model, task):
        if parent >= len(tasks):
            yield None, f"{parent} is not made"
            continue
        row = tasks[parent]
        members = members_of(model, row)
        if row.origin is not None and len(members) < row.origin.total and model.spec_of(row).for_each is not None:
            yield None, f"{row.id} has {len(members)} of {row.origin.total}"
        for member in members:
            yield member, member.id


def members_of(model: Model, task: Task) -> list[Task]:
    """The tasks of a fan-out in order, or the task itself."""
    if model.spec_of(task).for_each is None or task.origin is None:
        return [task]
    members = [one for one in model.tasks[task.run_id] if one.origin is not None and _is_of(one, task)]
    return sorted(members, key=lambda one: one.origin.index if one.origin is not None else 0)


def _is_of(task: Task, template: Task) -> bool:
    origin, mine = task.origin, template.origin
    if origin is None or mine is None:
        return False
    return (origin.parent, origin.generation) == (mine.parent, mine.generation) and not origin.replaced


def parents_of(model: Model, task: Task) -> list[int]:
    """Upstream positions of a task, by its definition, that of its fan-out, or the output that added it."""
    job, tasks = model.job_of(task.run_id), model.tasks[task.run_id]
    names = {one.name: one.position for one in tasks if not (one.origin is not None and one.origin.replaced)}
    names |= {spec.name: position for position, spec in enumerate(job.tasks)}
    if task.position < len(job.tasks):
        found = list(job.upstream[task.position])
    else:
        assert task.origin is not None
        maker = tasks[task.origin.parent]
        if model.spec_of(maker).for_each is not None:
            return parents_of(model, maker)
        needs = model.spec_of(task).needs
        found = [names[edge.task] for edge in needs] or [maker.position]
    for one in tasks:
        if one.state is TaskState.SUCCEEDED and model.spec_of(one).grows and one.output is not None:
            for edge in msgspec.json.decode(one.output).get("edges", ()):
                if edge["task"] == task.name:
                    found += [names[need] for need in edge["needs"]]
    return found


def _items(model: Model, template: Task, spec: TaskSpec) -> list[object] | None:
    """The list of a fan-out, if its upstream output still exists."""
    name = (spec.for_each or "").split(".")[1]
    tasks = model.tasks[template.run_id]
    source = next((one for one in tasks if one.name == name), None)
    if source is None or source.output is None or source.state not in FINAL:
        return None
    items = msgspec.json.decode(source.output).get("items")
    return items if isinstance(items, list) else None
