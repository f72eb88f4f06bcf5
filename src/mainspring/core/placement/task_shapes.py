"""Shapes: tasks with the same requests and constraints share one shape, so one decision serves many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mainspring.core.model.resources import Resources, format_amounts
from mainspring.core.work.work import labels_of

if TYPE_CHECKING:
    from mainspring.core.model.job import TaskSpec

GROUP_SECONDS = 0.1
"""Target duration of a group of short tasks, so that a slot does not idle for a round trip per task (PLC-10)."""
MAX_GROUP = 64


class Shape(msgspec.Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """The requirements of a task on its worker."""

    resources: Resources
    labels: tuple[tuple[str, str], ...] = ()
    """Key and value; an empty value matches any."""
    zone: str | None = None
    group_size: int = 1
    """How many of them may share one lease."""
    prefer: tuple[tuple[str, str], ...] = ()
    """Preferred labels, as in `labels`; they only count in the score."""
    prefer_zone: str | None = None
    groups: tuple[str, ...] = ()
    """Limits that count it while it has a lease (`core/limits/concurrency_groups.py`), by name of the limit."""
    affinity: tuple[str, ...] = ()
    """Affinity: tasks of its run whose worker it must be given; those that never started don't matter."""
    anti_affinity: tuple[str, ...] = ()
    """Anti-affinity: tasks of its run whose worker it must not be given while they are there."""
    run: str = ""
    """The run, for a shape with `affinity` or `anti_affinity`: their meaning depends on where the other tasks are."""

    def __str__(self) -> str:
        wants = format_amounts(self.resources)
        wants += [format_label(key, value) for key, value in self.labels]
        if self.zone:
            wants.append(f"zone {self.zone}")
        if self.affinity:
            wants.append(f"the worker of {', '.join(self.affinity)}")
        if self.anti_affinity:
            wants.append(f"not the worker of {', '.join(self.anti_affinity)}")
        return ", ".join(wants) or "nothing"


def format_label(key: str, value: str) -> str:
    """Format a requested label."""
    return f"{key}={value}" if value else key


def shape_of(task: TaskSpec, job_groups: tuple[str, ...] = ()) -> Shape:
    """The shape of a task, from its definition, with the labels that its work requires.

    A task that is counted in groups, or whose job is, gets a lease of its own: each is counted when it starts.
    """
    asked = labels_of(task.work)
    labels = task.labels | asked if asked else task.labels
    return Shape(
        resources=task.resources,
        labels=tuple(sorted(labels.items())),
        zone=task.zone,
        group_size=1 if task.groups or job_groups else group_size(task.expected_seconds),
        prefer=tuple(sorted(task.prefer.items())),
        prefer_zone=task.prefer_zone,
        groups=tuple(sorted(set(task.groups))),
        affinity=task.affinity,
        anti_affinity=task.anti_affinity,
    )


def with_memory(shape: Shape, memory_bytes: int) -> Shape:
    """The shape with another amount of memory than defined; such a task gets a lease of its own."""
    return replace(shape, resources=replace(shape.resources, memory_bytes=memory_bytes), group_size=1)


def without_affinity(shape: Shape) -> Shape:
    """The shape without affinity: many runs have one in common."""
    return replace(shape, affinity=(), anti_affinity=(), run="") if shape.run else shape


def group_size(expected_seconds: float | None) -> int:
    """Return how many tasks of this duration share a lease. A task not known to be short gets a lease of its own."""
    if expected_seconds is None or expected_seconds > GROUP_SECONDS / 2:
        return 1
    return min(MAX_GROUP, int(GROUP_SECONDS / max(expected_seconds, 0.001)))
