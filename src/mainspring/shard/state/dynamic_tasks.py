"""What a run has beyond its job's definition: fan-outs, and tasks and edges that outputs have added (DAG-2, DAG-5).

All of it is derived from rows: who made a task is in its `birth`, what it is in the definition or in the output of the
task that made it. Positions are reserved when the number of tasks is known, and tasks are made in their order.

1. A fan-out counts its open tasks against its total from the first moment on, made or not: a fan-in is never early.
2. `downstream` only grows, so that a ripple under way keeps its place; who is told in vain does not listen.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.core.graph.expansion import Expansion
from mainspring.core.model.job import Job, TaskSpec
from mainspring.core.placement.task_shapes import Shape, shape_of


class FanOut(msgspec.Struct, kw_only=True):
    """The tasks that a task with `for_each` stands for now."""

    position: int
    """Of the task itself, which is the first of them."""
    generation: int
    """Of that task when it fanned out."""
    total: int
    first: int
    """Position of number n is this plus n, for all but number 0."""
    open: int
    """How many are not over, those that are not made yet included."""
    items: list[str] = []
    """As JSON; empty until they are needed after a take-over."""
    labels: set[str] = set()
    gathered: str | None = None
    """Their outputs as one list, once all are over."""

    def members(self) -> Iterator[int]:
        """Positions, in the order of the items."""
        yield self.position
        yield from range(self.first + 1, self.first + self.total)


class Grown(msgspec.Struct, frozen=True):
    """A task that an output has added."""

    spec: TaskSpec
    shape: Shape


class Growth(msgspec.Struct, kw_only=True):
    """The growth of one run."""

    fan_outs: dict[int, FanOut] = {}
    """By the position of the task with `for_each`."""
    firsts: dict[tuple[int, int], int] = {}
    """By the maker's position and generation: where its number 0 is, or would be."""
    grown: dict[int, Grown] = {}
    added: dict[int, range] = {}
    """By the position of a task whose output has added some: where these are."""
    names: dict[str, int] = {}
    """Of all tasks that are not replaced; empty until an output names one."""
    upstream: dict[int, tuple[int, ...]] = {}
    """Of the tasks of which the definition does not know all edges, and so below."""
    downstream: dict[int, list[int]] = {}
    conditions: dict[int, dict[int, str]] = {}
    extended: dict[int, dict[int, tuple[int, ...]]] = {}
    """By the position of a task whose output gave others further needs: these, with what they need besides."""

    def positions(self, job: Job) -> dict[str, int]:
        """Where the task of each name stands. A task that fans out stands for all that it makes."""
        if not self.names:
            self.names = {task.name: position for position, task in enumerate(job.tasks)}
        return self.names

    def add(self, job: Job, grower: int, first: int, expansion: Expansion) -> None:
        """An output adds tasks, from position `first` on, and edges. It has been checked."""
        names = self.positions(job)
        self.added[grower] = range(first, first + len(expansion.tasks))
        known: dict[Shape, Shape] = {}
        for position, task in zip(self.added[grower], expansion.tasks, strict=True):
            names[task.name] = position
            shape = shape_of(task, job.spec.groups)
            self.grown[position] = Grown(task, known.setdefault(shape, shape))
            self.upstream[position], self.downstream[position] = (), []
        for position, task in zip(self.added[grower], expansion.tasks, strict=True):
            self._connect(job, position, {names[edge.task]: edge.when for edge in task.needs} or {grower: None})
        mine = self.extended[grower] = {}
        for further in expansion.edges:
            position = names[further.task]
            needs = {names[edge.task]: edge.when for edge in further.all_needs()}
            mine[position] = (*mine.get(position, ()), *self._connect(job, position, needs))

    def take_back(self, job: Job, grower: int) -> set[int]:
        """What this task has added is replaced; returns the others that had further needs because of it."""
        changed: set[int] = set()
        for position in self.added.pop(grower, range(0)):
            name = self.grown[position].spec.name
            if self.names.get(name) == position:
                del self.names[name]
            changed |= self.take_back(job, position)
        for position, parents in self.extended.pop(grower, {}).items():
            self.upstream[position] = tuple(one for one in self.parents(job, position) if one not in parents)
            for parent in parents:
                self.conditions.get(position, {}).pop(parent, None)
            changed.add(position)
        return changed

    def parents(self, job: Job, position: int) -> tuple[int, ...]:
        """What a task needs. Replaced tasks need nothing."""
        found = self.upstream.get(position)
        if found is None:
            return job.upstream[position] if position < len(job.tasks) else ()
        return found

    def children(self, job: Job, position: int) -> tuple[int, ...] | list[int]:
        """What needs a task, and what did before it was replaced."""
        found = self.downstream.get(position)
        if found is None:
            return job.downstream[position] if position < len(job.tasks) else ()
        return found

    def _connect(self, job: Job, position: int, needs: dict[int, str | None]) -> tuple[int, ...]:
        """Give a task these needs besides those that it has; returns the ones that are new to it."""
        had = self.parents(job, position)
        new = tuple(parent for parent in needs if parent not in had)
        self.upstream[position] = (*had, *new)
        is_known = position not in self.grown or bool(had)
        for parent in new:
            down = self.downstream.setdefault(parent, list(self.children(job, parent)))
            if not is_known or position not in down:
                down.append(position)
        given = {parent: when for parent in new if (when := needs[parent]) is not None}
        if given:
            self.conditions[position] = {**self.conditions.get(position, job.conditions.get(position, {})), **given}
        return new
