"""Bulk operations: bounded batches, and a new leader continues where it stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from tests.shard.jobs import fan, wide
from tests.shard.world import World

S = TaskState
ROWS = 24
Story = Callable[[World], happened.Event]


def adopting(world: World) -> happened.Event:
    """A run arrives."""
    return world.arrival(world.put_in_intake(wide(100)))


def cancelling(world: World) -> happened.Event:
    """A person cancels a run of which nothing has started."""
    return world.asked(happened.CancelRun, world.submit(wide(100)))


def pausing(world: World) -> happened.Event:
    """A person pauses a run that is queued."""
    return world.asked(happened.PauseRun, world.submit(wide(100)))


def resuming(world: World) -> happened.Event:
    """A person resumes it."""
    run = world.submit(wide(100))
    world.action(happened.PauseRun, run)
    return world.asked(happened.ResumeRun, run)


def failing_fast(world: World) -> happened.Event:
    """One of a hundred fails."""
    world.register("w1")
    world.submit(wide(100, max_attempts=1))
    world.start("t0")
    return world.result("t0", Outcome.FAILED)


def reopening(world: World) -> happened.Event:
    """A person retries the task that all others depend on."""
    world.register("w1")
    run = world.submit(fan(98, max_attempts=1, on_failure=FailurePolicy.FAIL_AFTER_ALL))
    world.start("first")
    world.fail("first")
    return world.asked(happened.ReopenTask, run, task="first")


def run_limit(world: World) -> happened.Event:
    """A run's time is up."""
    run = world.submit(wide(100))
    return happened.TimerDue(kind=happened.TimerKind.RUN_LIMIT, subject=run.id, stamp=1)


STORIES: list[Story] = [adopting, cancelling, pausing, resuming, failing_fast, reopening, run_limit]
KINDS: dict[Story, BulkOperationKind] = {
    adopting: BulkOperationKind.ADOPT,
    cancelling: BulkOperationKind.CANCEL,
    pausing: BulkOperationKind.PAUSE,
    resuming: BulkOperationKind.RESUME,
    failing_fast: BulkOperationKind.FAIL_FAST,
    reopening: BulkOperationKind.REOPEN,
    run_limit: BulkOperationKind.CANCEL,
}


def end_of(world: World) -> tuple[RunState, dict[str, tuple[TaskState, int]]]:
    """The state of the run and its tasks, with generations."""
    return world.run().state, {
        task.name: (S.QUEUED if task.state is S.ASSIGNED else task.state, task.generation)
        for task in world.ledger.tasks_of(world.run().id)
    }


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_its_row_is_written_in_its_first_batch_and_goes_with_its_last(world: World, story: Story) -> None:
    """A spread that fits no batch is never without a row."""
    event = story(world)
    with world.rows_per_turn(ROWS):
        batch = world.turn(event)
        while not batch.bulk_operations:
            batch = world.turn()
        (spread,) = batch.bulk_operations
        assert (spread.kind, spread.total) == (KINDS[story], 100)
        assert spread.done < spread.total
        assert len(world.ledger.bulk_operations) == 1
        world.settle()

    assert world.ledger.bulk_operations == {}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_each_of_its_batches_is_bounded(world: World, story: Story) -> None:
    """The budget counts task rows and transitions; placement may add a quarter, and a step finishes what it began."""
    event = story(world)
    with world.rows_per_turn(ROWS):
        before = len(world.batches)
        world.settle(event)
        sizes = [len(batch.transitions) + len(batch.tasks) + len(batch.new_tasks) for batch in world.batches[before:]]

    assert len(sizes) > 4
    assert max(sizes) <= ROWS * 1.5 + 4


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_new_leader_continues_to_the_same_result(world: World, story: Story, after: int) -> None:
    """With and without the change of leader the tasks end the same way."""
    unbroken = World()
    event = story(unbroken)
    with unbroken.rows_per_turn(ROWS):
        unbroken.settle(event)

    event = story(world)
    with world.rows_per_turn(ROWS):
        world.turn(event)
        for _ in range(after):
            world.turn()
        assert len(world.ledger.bulk_operations) == 1
        done = next(iter(world.ledger.bulk_operations.values())).done
        world.new_leader()
        for name in world.workers:
            world.reconnect(name)
        world.settle()

    assert done > 0
    assert end_of(world) == end_of(unbroken)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_leader_change_after_every_batch_gives_the_same_result(world: World, story: Story) -> None:
    """Each gets one batch done."""
    unbroken = World()
    unbroken.settle(story(unbroken))

    event = story(world)
    with world.rows_per_turn(ROWS):
        world.turn(event)
        while world.shard.has_more() or world.ledger.bulk_operations:
            world.new_leader()
            world.turn()
        for name in world.workers:
            world.reconnect(name)

    assert end_of(world) == end_of(unbroken)


def test_several_bulk_operations_of_a_run_are_open_at_once(world: World) -> None:
    """A run that is being adopted is paused, and each operation has its row."""
    run = world.put_in_intake(wide(200))
    with world.rows_per_turn(ROWS):
        world.turn(world.arrival(run))
        world.turn(world.asked(happened.PauseRun, run))
        assert {spread.kind for spread in world.ledger.bulk_operations.values()} == {
            BulkOperationKind.ADOPT,
            BulkOperationKind.PAUSE,
        }
        world.settle()

    assert set(world.states(run).values()) == {S.PENDING}


def test_bulk_operations_of_several_runs_take_turns(world: World) -> None:
    """Each gets its part before any gets a second one."""
    runs = [world.put_in_intake(wide(200)) for _ in range(3)]
    with world.rows_per_turn(ROWS):
        world.turn(*(world.arrival(run) for run in runs))
        for _ in range(6):
            world.turn()
        done = sorted(spread.done for spread in world.ledger.bulk_operations.values())

    assert len(done) == 3
    assert done[0] > 0
    assert done[-1] <= 2 * done[0] + ROWS


def test_a_pause_and_a_resume_in_one_turn_leave_no_row_behind(world: World) -> None:
    """A spread that had a row is dropped, and opened anew in the same turn."""
    run = world.submit(wide(100))
    with world.rows_per_turn(ROWS):
        world.turn(world.asked(happened.PauseRun, run))
        assert len(world.ledger.bulk_operations) == 1
    world.turn(
        world.asked(happened.ResumeRun, run),
        world.asked(happened.PauseRun, run),
        world.asked(happened.ResumeRun, run),
        world.asked(happened.PauseRun, run),
    )
    world.settle()

    assert world.ledger.bulk_operations == {}
    assert set(world.states(run).values()) == {S.PENDING}


def test_a_retry_of_the_same_task_begins_again_from_the_start(world: World) -> None:
    """It failed again while its first retry was in progress."""
    world.register("w1")
    run = world.submit(fan(98, max_attempts=1))
    world.start("first")
    world.fail("first")
    with world.rows_per_turn(12):
        world.turn(world.asked(happened.ReopenTask, run, task="first"))
        world.turn()
        world.start_now("first")
        world.turn(world.result("first", Outcome.FAILED))
        world.turn(world.asked(happened.ReopenTask, run, task="first"))
        world.settle()

    states = world.states(run)
    assert states.pop("first") is S.ASSIGNED
    assert set(states.values()) == {S.PENDING}


def test_has_more_reports_pending_work(world: World) -> None:
    """The loop does not wait then."""
    run = world.put_in_intake(wide(100))
    assert not world.shard.has_more()
    with world.rows_per_turn(ROWS):
        world.turn(world.arrival(run))
        assert world.shard.has_more()
        world.settle()
    assert not world.shard.has_more()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_due_steps_applied_one_at_a_time_give_the_same_result(world: World, story: Story) -> None:
    """After a fault the host applies one event at a time, so that the one that fails has an owner."""
    together = World()
    together.settle(story(together))

    event = story(world)
    with world.rows_per_turn(ROWS):
        world.turn(event)
        while not world.ledger.bulk_operations:
            world.turn()
        world.reload()
        world.settle_alone()

    assert end_of(world) == end_of(together)


def test_propagation_steps_applied_one_at_a_time_give_the_same_result(world: World) -> None:
    """Children that were not notified before the reload are found, and decided one by one."""
    world.register("w1", cores=2)
    run = world.submit(fan(50))
    world.start("first")
    with world.rows_per_turn(ROWS):
        world.turn(world.result("first", Outcome.SUCCEEDED))
        assert S.PENDING in {world.task(f"t{n}").state for n in range(50)}
        world.reload()
        world.settle_alone()

    states = world.states(run)
    assert list(states.values()).count(S.ASSIGNED) == 2
    assert all(states[f"t{n}"] in (S.QUEUED, S.ASSIGNED) for n in range(50))


def test_an_urgent_turn_defers_large_work_but_never_twice_in_a_row(world: World) -> None:
    """A P0 goes out in a short batch; a stream of them does not keep a large run from being adopted."""
    with world.rows_per_turn(ROWS):
        world.turn(adopting(world))
        made = [len(world.ledger.tasks)]
        for _ in range(4):
            world.urgent_turn()
            made.append(len(world.ledger.tasks))

    assert made[1] == made[0]
    assert made[2] > made[1]
    assert made[3] == made[2]
    assert made[4] > made[3]
