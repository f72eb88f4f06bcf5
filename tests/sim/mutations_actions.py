"""Mutations of actions: the audit log, priorities, checkpoints."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from msgspec.structs import replace

from mainspring.core.fairness import fair_queues
from mainspring.core.fairness.fair_queues import FairQueues
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard import handlers, turn
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import ActionRequest, RunAction, SaveCheckpoint
from mainspring.shard.turn import Turn
from tests.sim.mutation import Mutation, instead_of, instead_of_handler, patched, without


@instead_of(Turn, "respond")
def _silent_lookups(real: Any, self: Turn, asked: ActionRequest, reply: ActionStatus, detail: str = "") -> None:
    if isinstance(asked, RunAction) and asked.rows is not None:
        asked = replace(asked, audit=None)
    real(self, asked, reply, detail)


def _audits_everything() -> AbstractContextManager[None]:
    return patched(mock.patch.object(turn, "_AUDITED_RESULTS", tuple(ActionStatus)))


def _stays_in_its_queue() -> AbstractContextManager[None]:
    """A task with a changed priority stays in the queue of the old one."""

    def change(self: FairQueues, task: Task, shape: Shape, was: Priority) -> None:
        self._count_out(was, task.tenant)
        key = (task.priority, task.tenant)
        self.depth[key] = self.depth.get(key, 0) + 1

    def is_stale(entry: Any, priority: Priority) -> bool:
        return bool(entry[1].seq != entry[2])

    return patched(
        mock.patch.object(FairQueues, "change", change), mock.patch.object(fair_queues, "_is_stale", is_stale)
    )


@instead_of_handler(handlers.EVENTS, SaveCheckpoint)
def _whatever_is_there(real: Any, turn: Turn, action: SaveCheckpoint) -> None:
    real(turn, replace(action, expected=None))


ACTION_MUTATIONS = (
    Mutation(
        "entry of a lookup", "an action whose run was read from the store is not in the audit log", _silent_lookups
    ),
    Mutation(
        "entry of a refusal", "a refused action is in the audit log as if it had been executed", _audits_everything
    ),
    Mutation(
        "queue of a priority",
        "a queued task stays in the queue of its old priority",
        _stays_in_its_queue,
        3,
        only=frozenset({"I-62"}),
    ),
    Mutation(
        "priority of a task", "the priority of a run changes, but not that of its tasks", without(Turn, "set_priority")
    ),
    Mutation("expected checkpoint", "a user's document is stored without comparing the version", _whatever_is_there),
)
