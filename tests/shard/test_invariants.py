"""A check finds tasks that nothing will move on, reports them, and repairs them (STA-7, I-45)."""

from __future__ import annotations

import msgspec

from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from mainspring.shard.invariants import RUNS_PER_CHECK, unexplained
from tests.shard.jobs import chain, job, task
from tests.shard.world import World

S = TaskState


def test_a_healthy_shard_has_no_findings(world: World) -> None:
    """One task in each state that is not final."""
    world.register("w1", cores=2)
    world.submit(job(task("a"), task("b"), task("c"), task("d", "a")))
    world.start("a")

    batch = world.turn(happened.InvariantsDue())

    assert batch.rows() == 0


def test_a_queued_task_in_no_queue_is_found_and_queued_again(world: World) -> None:
    """I-45: its entry was lost."""
    world.submit(chain("a"))
    memory = world.shard.memory
    lost = memory.queues.take(Priority.P1, "acme", memory.shape(world.task("a")), 1)
    assert [task.id for task, _ in unexplained(memory, memory.runs[lost[0].run_id])] == [lost[0].id]

    batch = world.turn(happened.InvariantsDue())

    (alert,) = batch.outbox
    assert msgspec.json.decode(alert.payload)["details"]["task"] == lost[0].id
    world.register("w1")
    assert world.task("a").state is S.ASSIGNED


def test_a_wrong_counter_is_found_and_counted_again(world: World) -> None:
    """I-41: `waiting` is two, but one upstream is open."""
    run = world.submit(chain("a", "b"))
    in_memory = world.shard.memory.runs[run.id]
    in_memory.waiting[1] = 2

    batch = world.turn(happened.InvariantsDue())

    assert in_memory.waiting[1] == 1
    assert len(batch.outbox) == 1


def test_a_task_that_no_lease_holds_is_found(world: World) -> None:
    """I-12: it is RUNNING by its row only."""
    run = world.given_running("extract", on="w1")
    memory = world.shard.memory
    (lease,) = memory.leases.values()
    (attempt,) = lease.members
    held = lease.members.pop(attempt)

    found = unexplained(memory, memory.runs[run.id])

    lease.members[attempt] = held
    assert [task.id for task, _ in found] == [held.id]


def test_a_check_is_bounded_and_cycles_through_all_runs(world: World) -> None:
    """A number of runs at a time; the broken one is found by the second check."""
    for n in range(RUNS_PER_CHECK + 5):
        world.submit(chain(f"a{n}", f"b{n}"))
    last = list(world.shard.memory.runs.values())[-1]
    last.waiting[1] = 2

    assert world.shard.handle([happened.InvariantsDue()], now=world.now).outbox == []
    assert len(world.turn(happened.InvariantsDue()).outbox) == 1
