"""Validation of placement fields: preferences, affinity, groups, pool (PLC-3, PLC-12)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.job import JobSpec, TaskSpec

MAX_AFFINITY_TASKS = 16
MAX_GROUPS = 8
_MAX_STEPS = 2_000_000
"""Maximum number of edges examined to find affinity to a downstream task. In a larger job such a rule is accepted: it
has no effect, since no task would wait for it."""


def check_header(spec: JobSpec, faults: Faults) -> None:
    """Check the placement fields of a job."""
    if spec.pool is not None:
        validate_job.check_name(spec.pool, "pool", faults)
    _check_groups(spec.groups, "groups", faults)


def check_task(task: TaskSpec, number: int, faults: Faults) -> None:
    """Check the placement fields of one task. Most have none."""
    where = f"tasks[{number}]"
    if task.prefer:
        validate_job.check_labels(task.prefer, f"{where}.prefer", faults)
    if task.prefer_zone is not None:
        validate_job.check_name(task.prefer_zone, f"{where}.prefer_zone", faults)
    if task.groups:
        _check_groups(task.groups, f"{where}.groups", faults)


def check_affinity(
    tasks: Sequence[tuple[int, TaskSpec]], known: Collection[str], graph: Sequence[Sequence[int]], faults: Faults
) -> None:
    """Check that affinity rules name tasks of the run, and no affinity names a downstream task.

    `known` has the names of all tasks, `graph` the parents of each of `tasks`, as indexes.
    """
    place_of = {task.name: place for place, (_, task) in enumerate(tasks)}
    steps = 0
    for place, (number, task) in enumerate(tasks):
        for field, names in (("affinity", task.affinity), ("anti_affinity", task.anti_affinity)):
            if names:
                _check_names(names, known, f"tasks[{number}].{field}", faults)
        for index, name in enumerate(task.affinity):
            where = f"tasks[{number}].affinity[{index}]"
            if name == task.name:
                faults.add(where, "a task can't have affinity to itself")
            elif name in place_of and steps < _MAX_STEPS:
                comes_after, examined = _needs(graph, place_of[name], place)
                steps += examined
                if comes_after:
                    faults.add(where, f"{name} depends on {task.name}, so it can't start before it")


def _check_names(names: Sequence[str], known: Collection[str], where: str, faults: Faults) -> None:
    if not validate_job.check_count(names, MAX_AFFINITY_TASKS, where, faults):
        return
    for index, name in enumerate(names):
        if name in names[:index]:
            faults.add(f"{where}[{index}]", f"duplicate task {name}")
        elif name not in known:
            faults.add(f"{where}[{index}]", f"unknown task {name[:60]!a}{validate_job.suggest(name, known)}")


def _check_groups(groups: Sequence[str], where: str, faults: Faults) -> None:
    if not validate_job.check_count(groups, MAX_GROUPS, where, faults):
        return
    for index, group in enumerate(groups):
        if group in groups[:index]:
            faults.add(f"{where}[{index}]", f"duplicate group {group}")
        else:
            validate_job.check_name(group, f"{where}[{index}]", faults)


def _needs(graph: Sequence[Sequence[int]], task: int, other: int) -> tuple[bool, int]:
    """Return whether a task depends on another one, directly or not, and the number of edges examined."""
    seen, waiting, steps = {task}, [task], 0
    while waiting:
        for parent in graph[waiting.pop()]:
            steps += 1
            if parent == other:
                return True, steps
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return False, steps
