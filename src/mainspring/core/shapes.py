"""Tasks that ask for the same things under the same constraints are one shape: one decision serves many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mainspring.core.resources import Resources
from mainspring.core.work import HANDLER_LABEL, handler_of

if TYPE_CHECKING:
    from mainspring.core.jobs import TaskSpec

GROUP_SECONDS = 0.1
"""A group of short tasks takes about this long, so that a slot does not idle for a round trip per task (PLC-10)."""
LARGEST_GROUP = 64


class Shape(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a task needs of the worker that runs it."""

    resources: Resources
    labels: tuple[tuple[str, str], ...] = ()
    """Key and value; if the value is empty, any will do."""
    zone: str | None = None
    group_size: int = 1
    """How many of them may travel together in the room of one."""

    def __str__(self) -> str:
        wants = [f"{value:g} {name}" for name, value in _amounts(self.resources) if value]
        wants += [say_label(key, value) for key, value in self.labels]
        if self.zone:
            wants.append(f"zone {self.zone}")
        return ", ".join(wants) or "nothing"


def say_label(key: str, value: str) -> str:
    """A label that is asked for, for people."""
    return f"{key}={value}" if value else key


def shape_of(task: TaskSpec) -> Shape:
    """The shape of a task, as its definition says. What is served by name needs a worker that serves it."""
    labels = task.labels
    handler = handler_of(task.work)
    if handler is not None:
        labels = labels | {HANDLER_LABEL + handler: ""}
    return Shape(
        resources=task.resources,
        labels=tuple(sorted(labels.items())),
        zone=task.zone,
        group_size=group_size(task.expected_seconds),
    )


def with_memory(shape: Shape, memory_bytes: int) -> Shape:
    """The shape of a task that needs another amount of memory than its definition says, and so travels alone."""
    return replace(shape, resources=replace(shape.resources, memory_bytes=memory_bytes), group_size=1)


def group_size(expected_seconds: float | None) -> int:
    """How many tasks of this usual length travel together. What is not known to be short travels alone."""
    if expected_seconds is None or expected_seconds > GROUP_SECONDS / 2:
        return 1
    return min(LARGEST_GROUP, int(GROUP_SECONDS / max(expected_seconds, 0.001)))


def _amounts(resources: Resources) -> list[tuple[str, float]]:
    return [
        ("cores", resources.cpu_millis / 1000),
        ("MiB of memory", resources.memory_bytes / (1024 * 1024)),
        ("gpus", resources.gpus),
        ("MiB of disk", resources.disk_bytes / (1024 * 1024)),
    ]
