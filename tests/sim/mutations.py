"""Mutation tests: guards are switched off one at a time, and the simulator must detect each.

Compare-and-swap is a second protection behind the fence: its mutation disables the fence too, and only what
compare-and-swap alone prevents counts as detection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, cast
from unittest import mock

from mainspring.core.model.batch import TaskChange
from mainspring.core.model.worker import Worker
from mainspring.host.host import Host
from mainspring.host.loop import Leader
from mainspring.host.maintenance.sweeper import Sweeper
from mainspring.shard.events import Event
from mainspring.shard.shard import Shard
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import adoption, progress
from mainspring.shard.workers import liveness, reports
from mainspring.store.ports.store import ShardRow, Store
from mainspring.store.sqlite import batch as sqlite_batch
from mainspring.store.sqlite import queries as sqlite_queries
from mainspring.store.sqlite import rows as sqlite_rows
from mainspring.worker.agent.instructions import Instruction, Mark, Persist, Record, Send
from mainspring.worker.agent.state_machine import StateMachine
from tests.sim.mutation import Mutation, instead_of, patched, without
from tests.sim.mutations_actions import ACTION_MUTATIONS
from tests.sim.mutations_claims import CLAIM_MUTATIONS
from tests.sim.mutations_sharing import SHARING_MUTATIONS
from tests.sim.mutations_time import TIME_MUTATIONS

_ANY_TERM = """
    UPDATE shards SET lease_until = ?5 + ttl, batch_no = ?4
    WHERE id = ?1 AND (batch_no = ?4 - 1 OR epoch <> ?2 OR nonce <> ?3)
"""
_ANY_NUMBER = """
    UPDATE shards SET lease_until = ?5 + ttl, batch_no = ?4 WHERE id = ?1 AND epoch = ?2 AND nonce = ?3
"""


def _no_fence() -> AbstractContextManager[None]:
    return patched(mock.patch.object(sqlite_batch, "_FENCE", _ANY_TERM))


def _no_number() -> AbstractContextManager[None]:
    return patched(mock.patch.object(sqlite_batch, "_FENCE", _ANY_NUMBER))


def _no_attempt_check() -> AbstractContextManager[None]:
    """A report is accepted for the task of its attempt, even if the task has a newer attempt."""
    tasks: dict[str, str] = {}
    real = reports._find_held

    def held(turn: Any, event: Any, attempt: str) -> Any:
        for live, task in turn.memory.attempts.items():
            tasks[live] = task.id
        task = real(turn, event, attempt)
        if task is None and attempt in tasks:
            other = turn.memory.runs.find(tasks[attempt])
            task = other if other is not None and other.attempt_id is not None else None
        return task

    return patched(mock.patch.object(reports, "_find_held", held))


def _no_swap() -> AbstractContextManager[None]:
    """Rows of tasks are written by id alone, without a fence."""

    def change(db: Any, shard: str, changes: Sequence[TaskChange]) -> None:
        rows = sqlite_rows.TASKS
        columns = rows.columns([change.task for change in changes])
        names = rows.names[sqlite_batch._TASK_FIRST :]
        statement = f"UPDATE tasks SET {sqlite_batch._assignments(names)} WHERE id = ?"
        db.executemany(statement, zip(*columns[sqlite_batch._TASK_FIRST :], columns[0], strict=True))

    return patched(
        mock.patch.object(sqlite_batch, "_FENCE", _ANY_TERM), mock.patch.object(sqlite_batch, "_change_tasks", change)
    )


def _visible_first() -> AbstractContextManager[None]:
    real = Leader._commit

    async def commit(self: Leader, batch: Any) -> None:
        self._release(batch.effects)
        await real(self, batch)

    return patched(mock.patch.object(Leader, "_commit", commit))


def _any_upstream() -> AbstractContextManager[None]:
    real = progress.count_waiting

    def count(run: RunMemory, position: int) -> int:
        left = real(run, position)
        return 0 if left < len(run.job.upstream[position]) else left

    def hear(turn: Any, run: RunMemory, position: int) -> None:
        run.waiting[position] = min(run.waiting[position], 1)
        heard(turn, run, position)

    heard = progress._notify_child
    return patched(
        mock.patch.object(progress, "count_waiting", count), mock.patch.object(progress, "_notify_child", hear)
    )


def _no_capacity() -> AbstractContextManager[None]:
    return patched(
        mock.patch.object(Worker, "free", property(lambda worker: worker.total)),
        mock.patch.object(Worker, "free_for", lambda worker, _: worker.total),
    )


@instead_of(StateMachine, "_send_results")
def _forget_when_sent(real: Any, self: StateMachine) -> list[Instruction]:
    instructions: list[Instruction] = []
    for instruction in real(self):
        instructions.append(instruction)
        if isinstance(instruction, Send):
            attempt = instruction.message.attempt  # type: ignore[union-attr]
            self._attempts.pop(attempt, None)
            instructions.append(Persist(Record(Mark.FORGOTTEN, attempt)))
    return instructions


def _drop_rejected() -> AbstractContextManager[None]:
    async def take_alone(self: Leader, events: Sequence[Event]) -> None:
        await self._load()

    return patched(mock.patch.object(Leader, "_isolate", take_alone))


def _ignore_leases() -> AbstractContextManager[None]:
    """A host takes the lead regardless of the current lease."""
    take = sqlite_queries._TAKE.replace("lease_until <= ?5 AND ", "")
    real = Host._campaign_for_free_shards

    async def look(self: Host) -> None:
        store = self._store

        class Impatient:
            """A store in which every lease has expired."""

            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            async def shards(self) -> list[ShardRow]:
                rows = await store.shards()
                await asyncio.sleep(0)
                return [
                    ShardRow(id=row.id, leader="", epoch=row.epoch, lease_until=row.lease_until - timedelta(days=1),
                             batch_no=row.batch_no)
                    for row in rows
                ]  # fmt: skip

        self._store = cast("Store", Impatient())
        try:
            await real(self)
        finally:
            self._store = store

    return patched(
        mock.patch.object(sqlite_queries, "_TAKE", take), mock.patch.object(Host, "_campaign_for_free_shards", look)
    )


@instead_of(Shard, "load")
def _forget_holds(real: Any, self: Shard, *args: Any, **kwargs: Any) -> None:
    real(self, *args, **(kwargs | {"cordoned_workers": ()}))


def without_timers_of_silence() -> AbstractContextManager[None]:
    """The first of the two watches over workers is off: the second must suffice."""
    return patched(mock.patch.object(liveness, "watch", return_value=None))


def _no_watch() -> AbstractContextManager[None]:
    async def report_silent_workers(self: Sweeper, leader: Leader) -> int:
        return 0

    return patched(
        without_timers_of_silence(), mock.patch.object(Sweeper, "report_silent_workers", report_silent_workers)
    )


MUTATIONS = (
    Mutation("term fence", "a commit is taken whatever its term", _no_fence, 3),
    Mutation("batch number", "a batch that had been written is written again", _no_number),
    Mutation("attempt check", "a report counts for the current attempt of its task", _no_attempt_check, 3),
    Mutation(
        "compare-and-swap",
        "a task's row is written without comparison, and without the fence",
        _no_swap,
        10,
        only=frozenset({"I-06"}),
    ),
    Mutation("durable before visible", "effects are released before the commit", _visible_first),
    Mutation("dependency check", "a task is ready after any of its upstreams", _any_upstream),
    Mutation("capacity check", "a worker's free capacity is not checked", _no_capacity),
    Mutation("spool answer", "a worker removes a result once it is sent", _forget_when_sent),
    Mutation("poison event", "a batch that the store refuses is dropped", _drop_rejected, 5),
    Mutation("lease renewal", "another server takes the lease of a healthy leader", _ignore_leases),
    Mutation("worker hold", "a new leader does not know cordoned workers", _forget_holds, 6),
    Mutation("checkpoint", "a new leader does not know saved checkpoints", without(adoption, "restore_checkpoints"), 3),
    Mutation("both watches", "neither watch looks for silent workers", _no_watch, 3),
    *TIME_MUTATIONS,
    *ACTION_MUTATIONS,
    *SHARING_MUTATIONS,
    *CLAIM_MUTATIONS,
)
