"""Any story of a fleet that is too small for what is asked of it: the laws of making room hold, and all ends well.

Tenants with and without a promise ask for room of all sizes and priorities; workers start what they are given, end it,
let go what is asked to go sooner or later, fall silent and come back; leaders change. Every invariant is checked in
every turn, and of every request to make room: who asks, whom, and what is gained.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mainspring.core.model.batch import Batch
from mainspring.core.model.resources import ZERO_RESOURCES
from mainspring.core.model.run import FINAL_RUN
from mainspring.core.model.task import Priority, StopKind, TaskState
from mainspring.shard import events as happened
from tests.shard.jobs import cores, job, short, task
from tests.shard.preemption_scenes import tune
from tests.shard.sharing_rules import promise
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority
_TENANTS = ("owner", "other", "third")
_MOVES = frozenset({S.PENDING, S.QUEUED, S.ASSIGNED, S.RUNNING})
"""One that was lost with too many workers is quarantined: it waits for a person."""
_WORKERS = {"w1": 2.0, "w2": 4.0, "w3": 4.0}


class Story:
    """A pool, and random events."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = Random(seed)
        self.seen = 0
        promise(world, owner=3, other=2)
        tune(world, defragment=self.random.randrange(2), reserve_after_seconds=3.0)
        for name, size in _WORKERS.items():
            world.register(name, cores=size)

    def step(self) -> None:
        """Something happens."""
        kinds = [self.submit] * 3 + [self.work] * 8 + [self.let_go] * 3 + [self.pass_time] * 3
        kinds += [self.cancel, self.reprioritize, self.cordon, self.disconnect, self.lead_anew]
        self.random.choice(kinds)()
        self.judge()

    def submit(self) -> None:
        size, count = self.random.choice([0.5, 1, 1, 2, 3]), self.random.randint(1, 4)
        kind = short if self.random.random() < 0.2 else task
        tasks = [kind(f"t{number}", resources=cores(size), timeout_seconds=9_999) for number in range(count)]
        tenant = self.random.choice(_TENANTS)
        self.world.submit(job(*tasks), tenant=tenant, priority=self.random.choice([P0, P1, P2, P2]))

    def work(self) -> None:
        held = [one.id for one in self.world.ledger.tasks.values() if self.speaks_for(one.worker_id)]
        if not held:
            return
        chosen = self.random.choice(held)
        if self.world.task(chosen).state is S.ASSIGNED:
            self.world.start(chosen)
        else:
            self.world.succeed(chosen)

    def let_go(self) -> None:
        for one in list(self.world.ledger.tasks.values()):
            asked = self.world.task(one.id)
            if asked.stop is not None and self.speaks_for(asked.worker_id) and self.random.random() < 0.7:
                if asked.state is S.RUNNING:
                    self.world.stop(asked.id)
                elif asked.attempt_id in self.world.workers[asked.worker_id or ""].holds:
                    self.world.give_back(asked.id)

    def pass_time(self) -> None:
        self.world.advance(self.random.choice([0.2, 1, 4]), heard=[name for name in _WORKERS if self.speaks_for(name)])

    def cancel(self) -> None:
        self.action(happened.CancelRun)

    def reprioritize(self) -> None:
        self.action(happened.ChangePriority, priority=self.random.choice(list(Priority)))

    def action(self, kind: type[happened.RunAction], **fields: Any) -> None:
        active = [run for run in self.world.ledger.runs.values() if run.state not in FINAL_RUN]
        if active:
            self.world.action(kind, self.random.choice(active), **fields)

    def cordon(self) -> None:
        for kind in (happened.CordonWorker, happened.UncordonWorker):
            self.world.settle(kind(worker="w1", by="ann"))

    def disconnect(self) -> None:
        name = self.random.choice(list(_WORKERS))
        if self.random.random() < 0.3:
            self.world.advance(16, heard=[other for other in _WORKERS if other != name and self.speaks_for(other)])
        self.world.reconnect(name)

    def lead_anew(self) -> None:
        self.random.choice([self.world.reload, self.world.new_leader])()
        for name in _WORKERS:
            self.world.reconnect(name)

    def speaks_for(self, worker: str | None) -> bool:
        known = self.world.shard.memory.workers.get(worker or "")
        return known is not None and known.session == self.world.workers[known.id].session

    def judge(self) -> None:
        """The laws, of all that was asked for since the last time."""
        for batch in self.world.batches[self.seen :]:
            _judge(batch)
        self.seen = len(self.world.batches)
        memory = self.world.shard.memory
        kept = ZERO_RESOURCES
        for (_, tenant, shape), mine in memory.queues.reserved.items():
            for one in mine.values():
                firm = one.reserved is not None and not one.reserved.yields
                kept += shape.resources if tenant == "third" and firm and one.priority is not P0 else ZERO_RESOURCES
        assert kept == ZERO_RESOURCES or memory.scheduler_settings.defragment, (
            "nothing is promised to it, and room is made for it"
        )

    def finish(self) -> None:
        """No more arrivals: all waiting tasks run."""
        for _ in range(400):
            self.world.advance(1, heard=[name for name in _WORKERS if self.speaks_for(name)])
            for name in _WORKERS:
                if not self.speaks_for(name):
                    self.world.reconnect(name)
            self.let_go()
            for one in list(self.world.ledger.tasks.values()):
                now = self.world.task(one.id)
                if now.state is S.ASSIGNED and self.speaks_for(now.worker_id):
                    self.world.start(now.id)
                elif now.state is S.RUNNING and self.speaks_for(now.worker_id):
                    self.world.succeed(now.id)
            self.judge()
            waiting = [one for one in self.world.ledger.tasks.values() if one.state in _MOVES]
            if not waiting:
                return
        raise AssertionError(f"these wait for ever: {self.world.names(S.QUEUED)}")


def _judge(batch: Batch) -> None:
    """Each preemption in a batch is for a task with a reservation there, and never hits a P0."""
    rows = {change.task.id: change.task for change in batch.tasks} | {one.id: one for one in batch.new_tasks}
    for one in rows.values():
        if one.stop is not None and one.stop.kind is StopKind.PREEMPT:
            assert one.priority is not P0 or one.stop.for_task not in rows, f"{one} has to go, and is a P0"
            assert one.tries == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_preemption_invariants_hold_and_all_tasks_end(world: World, seed: int) -> None:
    story = Story(world, seed)
    for _ in range(60):
        story.step()

    story.finish()

    assert not world.shard.memory.queues.reserved
    assert not world.shard.memory.leases.use
