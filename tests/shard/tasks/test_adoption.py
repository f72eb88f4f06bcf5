"""Adoption of a run: its tasks are created in one batch or many, and decided as they are created."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from mainspring.shard.tasks.adoption import SMALL_RUN_TASKS
from tests.shard.jobs import chain, job, task, wide
from tests.shard.world import World

S = TaskState


def test_a_small_run_is_created_in_one_batch(world: World) -> None:
    """No spread is needed for a few tasks."""
    run = world.put_in_intake(chain("a", "b", "c"))

    batch = world.turn(world.arrival(run))

    assert len(batch.new_tasks) == 3
    assert batch.bulk_operations == []
    assert world.states(run) == {"a": S.QUEUED, "b": S.PENDING, "c": S.PENDING}


def test_an_adopted_run_is_running_and_has_adopted_at(world: World) -> None:
    """STA-5: PENDING until adopted, RUNNING while some task is open."""
    run = world.put_in_intake(chain("a"))
    assert world.run(run).state is RunState.PENDING

    world.settle(world.arrival(run))

    assert world.run(run).state is RunState.RUNNING
    assert world.run(run).adopted_at == world.now


def test_a_run_that_arrives_twice_is_adopted_once(world: World) -> None:
    """A read of intake may overlap a commit."""
    run = world.put_in_intake(chain("a", "b"))
    arrival = world.arrival(run)

    world.settle(arrival, arrival)
    world.settle(arrival)

    assert len(world.ledger.tasks) == 2


def test_a_large_run_is_spread_over_several_batches(world: World) -> None:
    """Each batch is short, `done` moves, and the row of the spread goes with the last one."""
    run = world.put_in_intake(wide(100))
    with world.rows_per_turn(40):
        first = world.turn(world.arrival(run))
        assert 0 < len(first.new_tasks) < 100
        (spread,) = first.bulk_operations
        assert (spread.kind, spread.total, spread.done) == (BulkOperationKind.ADOPT, 100, len(first.new_tasks))

        world.settle()

    assert len(world.ledger.tasks) == 100
    assert world.ledger.bulk_operations == {}
    assert world.batches[-1].bulk_operations[-1].done == 100


def test_a_run_just_over_the_limit_fits_one_batch_without_a_bulk_operation(world: World) -> None:
    """A bulk operation that ends in its first batch needs no row."""
    run = world.put_in_intake(wide(SMALL_RUN_TASKS + 1))

    batch = world.turn(world.arrival(run))

    assert batch.bulk_operations == []
    assert world.ledger.bulk_operations == {}
    assert len(world.ledger.tasks) == SMALL_RUN_TASKS + 1


def test_a_task_created_after_its_upstreams_ended_is_decided_at_once(world: World) -> None:
    """DAG-1: `late` is created long after `first` has ended."""
    world.register("w1")
    tasks = [task("first"), *(task(f"t{n}", "first") for n in range(60)), task("late", "first")]
    run = world.put_in_intake(job(*tasks))
    with world.rows_per_turn(20):
        world.turn(world.arrival(run))
        world.turn()
        worker, attempt = world.holder("first")
        world.turn(
            world.say(happened.AttemptStarted, worker, attempt=attempt),
            world.result("first", Outcome.SUCCEEDED),
        )
        assert len(world.ledger.tasks) < 60
        world.settle()

    assert world.path("late") == [S.PENDING, S.QUEUED]


def test_tasks_created_during_a_cancel_are_cancelled(world: World) -> None:
    """Their story begins and ends in one batch: nothing of a cancelled run is ever queued."""
    run = world.put_in_intake(wide(100))
    with world.rows_per_turn(30):
        world.turn(world.arrival(run))
        made = set(world.states(run))
        assert world.reply(happened.CancelRun, run) is ActionStatus.DONE

    assert set(world.states(run).values()) == {S.CANCELLED}
    assert len(world.states(run)) == 100
    for name in set(world.states(run)) - made:
        assert world.path(name) == [S.PENDING, S.CANCELLED]
    assert world.run(run).state is RunState.CANCELLED


def test_tasks_created_after_a_fail_fast_failure_are_cancelled_with_the_cause(world: World) -> None:
    """DAG-3: a task created late knows why it never starts, so that a retry reopens it."""
    world.register("w1")
    run = world.put_in_intake(wide(100, max_attempts=1))
    with world.rows_per_turn(30):
        world.turn(world.arrival(run))
        world.turn()
        (running,) = world.names(S.ASSIGNED)
        world.turn(world.result(running, Outcome.FAILED))
        world.settle()

    failed = world.task(running)
    others = [one for one in world.ledger.tasks_of(run.id) if one.id != failed.id]
    assert failed.state is S.FAILED
    assert {(one.state, one.cause) for one in others} == {(S.CANCELLED, failed.id)}
    assert world.run(run).state is RunState.FAILED


def test_a_task_created_under_fail_fast_does_not_wait_for_a_running_upstream(world: World) -> None:
    """DAG-3: it will never start, whatever the upstream does."""
    world.register("w1", cores=2)
    run = world.put_in_intake(
        job(task("a", max_attempts=1), task("b"), *(task(f"x{n}") for n in range(60)), task("late", "b"))
    )
    with world.rows_per_turn(20):
        world.turn(world.arrival(run))
        world.turn()
        world.start_now("a")
        world.start_now("b")
        world.turn(world.result("a", Outcome.FAILED))
        assert len(world.ledger.tasks) < 60
        world.settle()

    assert world.task("b").state is S.RUNNING
    assert world.path("late") == [S.PENDING, S.CANCELLED]


def test_a_failure_under_fail_after_all_does_not_stop_the_adoption(world: World) -> None:
    """DAG-3: other branches are created and continue."""
    world.register("w1")
    run = world.put_in_intake(wide(60, on_failure=FailurePolicy.FAIL_AFTER_ALL, max_attempts=1))
    with world.rows_per_turn(30):
        world.turn(world.arrival(run))
        world.turn()
        (running,) = world.names(S.ASSIGNED)
        world.turn(world.result(running, Outcome.FAILED))
        world.settle()

    assert world.task(running).state is S.FAILED
    assert S.CANCELLED not in world.states(run).values()
    assert len(world.states(run)) == 60


def test_a_run_with_an_open_bulk_operation_is_not_final(world: World) -> None:
    """STA-5: tasks that are not created yet count."""
    world.register("w1")
    run = world.put_in_intake(wide(40))
    with world.rows_per_turn(4):
        world.turn(world.arrival(run))
        made = list(world.states(run))
        for _ in range(200):
            held = [name for name in made if world.task(name).worker_id]
            world.turn(*(world.result(name, Outcome.SUCCEEDED) for name in held))
            if all(world.task(name).state is S.SUCCEEDED for name in made):
                break
        assert world.run(run).state is RunState.RUNNING
        world.settle()

    assert world.run(run).state is RunState.RUNNING


def test_a_paused_run_is_adopted_and_starts_nothing(world: World) -> None:
    """A person paused it while it waited in intake."""
    world.register("w1")
    run = world.put_in_intake(chain("a", "b"))
    assert world.reply(happened.PauseRun, run) is ActionStatus.DONE
    world.settle(world.arrival(world.run(run)))

    assert world.states(run) == {"a": S.PENDING, "b": S.PENDING}
    assert world.run(run).state is RunState.PAUSED

    assert world.reply(happened.ResumeRun, run) is ActionStatus.DONE
    assert world.task("a").worker_id == "w1"


@pytest.mark.parametrize("kind", [happened.CancelTask, happened.ClearTask])
def test_a_run_in_intake_has_no_tasks_to_act_on(world: World, kind: type[happened.RunAction]) -> None:
    """The tasks are not created yet, and the reply reports that."""
    run = world.put_in_intake(chain("a"))

    answer = world.action(kind, run, task="a")

    assert answer.reply is ActionStatus.REFUSED
    assert "no tasks yet" in answer.detail


def test_a_run_cancelled_in_intake_is_adopted_first(world: World) -> None:
    """Its tasks have a story too, and no worker ever sees them."""
    world.register("w1")
    run = world.put_in_intake(wide(3))

    assert world.reply(happened.CancelRun, run) is ActionStatus.DONE

    assert set(world.states(run).values()) == {S.CANCELLED}
    assert world.run(run).state is RunState.CANCELLED
    assert all(S.ASSIGNED not in world.path(name) for name in world.states(run))


@pytest.mark.parametrize("turns", [0, 1])
def test_an_arrival_after_a_pause_does_not_undo_it(world: World, turns: int) -> None:
    """Intake delivered the run as it was before, in the turn of the action or in the next one."""
    world.register("w1")
    run = world.put_in_intake(chain("a"))
    arrival = world.arrival(run)
    world.turn(world.asked(happened.PauseRun, run))
    for _ in range(turns):
        world.turn()

    world.settle(arrival)

    assert world.run(run).paused
    assert world.task("a").state is S.PENDING


@pytest.mark.parametrize("turns", [0, 1])
def test_an_arrival_after_a_cancel_does_not_adopt_the_run_again(world: World, turns: int) -> None:
    """The run is final, and stays so."""
    run = world.put_in_intake(chain("a"))
    arrival = world.arrival(run)
    world.turn(world.asked(happened.CancelRun, run))
    for _ in range(turns):
        world.turn()

    world.settle(arrival)

    assert world.run(run).state is RunState.CANCELLED
    assert world.path("a") == [S.PENDING, S.QUEUED, S.CANCELLED]


def test_a_run_that_was_paused_and_resumed_in_intake_starts_when_it_arrives(world: World) -> None:
    """The last word counts, whatever row intake had read."""
    world.register("w1")
    run = world.put_in_intake(chain("a"))
    world.action(happened.PauseRun, run)
    arrival = world.arrival(world.run(run))
    world.action(happened.ResumeRun, run)

    world.settle(arrival)

    assert world.task("a").state is S.ASSIGNED


def test_a_run_has_its_whole_limit_from_its_adoption_on(world: World) -> None:
    """The time in intake does not count."""
    run = world.put_in_intake(job(task("a"), timeout_seconds=60))
    world.now += timedelta(days=1)
    world.settle(world.arrival(run))

    world.advance(seconds=59)
    assert world.run(run).state is RunState.RUNNING

    world.advance(seconds=1)
    assert world.run(run).state is RunState.TIMED_OUT
