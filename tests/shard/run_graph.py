"""The graph of a run, recomputed slowly from its rows: dependencies, and members of fan-outs."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.graph import expansion
from mainspring.core.model.job import Job, TaskSpec
from mainspring.core.model.task import Task, TaskState


class Family:
    """The tasks of one run."""

    def __init__(self, job: Job, tasks: Sequence[Task]) -> None:
        self.job = job
        self.tasks = tasks
        self._grown: dict[int, TaskSpec] = {}
        self._needs: dict[int, list[tuple[str, str | None]]] = {}
        self._heads: dict[str, int] = {}
        if job.is_dynamic:
            self._grow()

    def spec(self, task: Task) -> TaskSpec | None:
        """The definition of a task; None if the output that added it is gone."""
        return self._spec_at(self._origin(task))

    def needs(self, task: Task) -> list[tuple[list[Task], int, str | None]]:
        """For each upstream: its tasks, their expected number, and the edge condition."""
        found: list[tuple[list[Task], int, str | None]] = []
        for name, when in self._needs_of(self._origin(task)):
            head = self._head(name)
            members, total = ([], 1) if head is None else self.members(self.tasks[head])
            found.append((members, total, when))
        return found

    def members(self, head: Task) -> tuple[list[Task], int]:
        """The tasks of a fan-out in order, and their expected number."""
        if head.origin is None or not self._is_template(head.position) or head.origin.replaced:
            return [head], 1
        generation = head.origin.generation
        others = [
            one
            for one in self.tasks[len(self.job.tasks) :]
            if one.origin is not None and one.origin.parent == head.position and one.origin.generation == generation
        ]
        return sorted([head, *others], key=lambda one: one.origin.index if one.origin else 0), head.origin.total

    def is_replaced(self, task: Task) -> bool:
        """Whether its creator was restarted since."""
        if task.origin is None or task.origin.parent == task.position:
            return task.origin is not None and task.origin.replaced
        maker = self.tasks[task.origin.parent]
        if self._is_template(maker.position):
            now = None if maker.origin is None or maker.origin.replaced else maker.origin.generation
        else:
            now = None if self.is_replaced(maker) else maker.generation
        return task.origin.replaced or now != task.origin.generation

    def _is_template(self, position: int) -> bool:
        return position < len(self.job.tasks) and self.job.tasks[position].for_each is not None

    def _spec_at(self, position: int) -> TaskSpec | None:
        return self.job.tasks[position] if position < len(self.job.tasks) else self._grown.get(position)

    def _head(self, name: str) -> int | None:
        if not self._heads:
            self._heads = {spec.name: position for position, spec in enumerate(self.job.tasks)}
        return self._heads.get(name)

    def _needs_of(self, position: int) -> list[tuple[str, str | None]]:
        if position not in self._needs and position < len(self.job.tasks):
            self._needs[position] = [(edge.task, edge.when) for edge in self.job.tasks[position].needs]
        return self._needs.setdefault(position, [])

    def _origin(self, task: Task) -> int:
        if task.origin is not None and self._is_template(task.origin.parent):
            return task.origin.parent
        return task.position

    def _grow(self) -> None:
        self._head(self.job.tasks[0].name)
        for parent_task in self.tasks:
            spec = self._spec_at(parent_task.position)
            if (
                spec is None
                or not spec.grows
                or parent_task.state is not TaskState.SUCCEEDED
                or self.is_replaced(parent_task)
            ):
                continue
            adds = expansion.read(parent_task.output)
            made = {
                one.origin.index: one
                for one in self.tasks[len(self.job.tasks) :]
                if one.origin is not None
                and one.origin.parent == parent_task.position
                and one.origin.generation == parent_task.generation
            }
            for index, added in enumerate(adds.tasks):
                if index in made:
                    position = made[index].position
                    self._grown[position], self._heads[added.name] = added, position
                    needs = [(edge.task, edge.when) for edge in added.needs]
                    self._needs[position] = needs or [(parent_task.name, None)]
            for further in adds.edges:
                if further.task in self._heads:
                    had = self._needs_of(self._heads[further.task])
                    named = {name for name, _ in had}
                    had += [(edge.task, edge.when) for edge in further.all_needs() if edge.task not in named]
