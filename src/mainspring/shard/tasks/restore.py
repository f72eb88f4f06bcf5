"""Restore the dynamic tasks of a run from its rows (HA-3): the creator of each is in its `birth`."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from mainspring.core.graph import expansion
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import Spread, SpreadKind
from mainspring.core.model.job import Job
from mainspring.core.model.task import Birth, Task, TaskState
from mainspring.shard.state.dynamic_tasks import FanOut, Growth


def growth(job: Job, tasks: Sequence[Task], spreads: Sequence[Spread]) -> Growth:
    """Derive fan-outs and expansions from rows. An open bulk operation knows the position of its first task."""
    found = Growth()
    for task in tasks:
        birth = task.birth
        if birth is not None and birth.parent != task.position:
            found.firsts[birth.parent, birth.generation] = task.position - birth.index
    begins = {
        spread.parent: spread.done - (1 if spread.kind is SpreadKind.FAN_OUT else 0)
        for spread in spreads
        if spread.kind in (SpreadKind.FAN_OUT, SpreadKind.GROW)
    }
    for position in sorted(job.templates):
        if position < len(tasks) and _is_fanned_out(tasks[position]):
            _recall_fan_out(found, tasks, tasks[position], begins)
    _recall_expansions(found, job, tasks, begins)
    return found


def _is_fanned_out(template: Task) -> bool:
    return template.birth is not None and not template.birth.replaced


def _recall_fan_out(found: Growth, tasks: Sequence[Task], template: Task, begins: dict[str, int]) -> None:
    birth = template.birth or Birth(template.position, template.generation, 0, 1)
    key = (template.position, birth.generation)
    first = found.firsts.setdefault(key, begins.get(template.id, template.position))
    fan_out = found.fan_outs[template.position] = FanOut(
        position=template.position, generation=birth.generation, total=birth.total, first=first, open=birth.total
    )
    for position in fan_out.members():
        if position < len(tasks):
            member = tasks[position]
            fan_out.open -= member.state in FINAL
            fan_out.labels.add(member.birth.label if member.birth is not None else "")


def _recall_expansions(found: Growth, job: Job, tasks: Sequence[Task], begins: dict[str, int]) -> None:
    """Restore expansions in the order in which they were added: a later one may depend on an earlier one."""
    line: list[tuple[int, int]] = []

    def note(position: int) -> None:
        if position < len(tasks) and tasks[position].state is TaskState.SUCCEEDED:
            heapq.heappush(line, (_first(found, tasks[position], begins), position))

    for position, spec in enumerate(job.tasks):
        if spec.grows:
            note(position)
    while line:
        first, position = heapq.heappop(line)
        grower = tasks[position]
        found.firsts[position, grower.generation] = first
        found.add(job, position, first, expansion.read(grower.output))
        for child in found.added[position]:
            if found.grown[child].spec.grows:
                note(child)


def _first(found: Growth, grower: Task, begins: dict[str, int]) -> int:
    """Position of the first task that it added; if it added edges only, behind everything they can refer to."""
    known = found.firsts.get((grower.position, grower.generation))
    return begins.get(grower.id, 1 << 40) if known is None else known
