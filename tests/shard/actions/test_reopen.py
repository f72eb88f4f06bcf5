"""Manual retry: a final task restarts, with all that ended because of it (STA-1, DAG-7)."""

from __future__ import annotations

import pytest

from mainspring.core.model.run import FailurePolicy, Run, RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import chain, fan, job, task, wide
from tests.shard.world import World

S = TaskState
P = FailurePolicy


def given_failed(world: World, run: Run, name: str) -> None:
    """A task with one attempt that has failed."""
    world.start(name, of=run)
    world.fail(name, of=run)
    assert world.task(name, run).state is S.FAILED


def test_a_reopened_task_is_a_new_generation_with_counters_at_zero(world: World) -> None:
    """STA-1: and its history continues without a gap."""
    world.register("w1", cores=2)
    run = world.submit(job(task("a", max_attempts=1), task("b"), on_failure=P.FAIL_AFTER_ALL))
    world.start("b")
    given_failed(world, run, "a")

    assert world.reply(happened.ReopenTask, run, task="a") is ActionStatus.DONE

    reopened = world.task("a")
    assert (reopened.generation, reopened.tries, reopened.losses, reopened.attempt) == (2, 0, 0, 1)
    assert (reopened.error, reopened.output, reopened.cause) == (None, None, None)
    assert world.path("a") == [
        S.PENDING, S.QUEUED, S.ASSIGNED, S.RUNNING, S.FAILED, S.PENDING, S.QUEUED, S.ASSIGNED,
    ]  # fmt: skip
    assert {step.by for step in world.ledger.history[reopened.id] if step.generation == 2} >= {"ann"}


def test_its_descendants_start_again_with_it(world: World) -> None:
    """STA-1: those that were cancelled because of it."""
    world.register("w1", cores=2)
    run = world.submit(chain("a", "b", "c", max_attempts=1, on_failure=P.FAIL_AFTER_ALL))
    given_failed(world, run, "a")
    assert world.run(run).state is RunState.FAILED

    world.action(happened.ReopenTask, run, task="a")
    assert world.states(run) == {"a": S.ASSIGNED, "b": S.PENDING, "c": S.PENDING}

    world.run_through("a", "b", "c")
    assert world.run(run).state is RunState.SUCCEEDED
    assert {one.generation for one in world.ledger.tasks_of(run.id)} == {2}


def test_under_fail_fast_other_branches_start_again_by_their_cause(world: World) -> None:
    """STA-1: `x` was cancelled because `a` failed, `y` by a person."""
    world.register("w1")
    run = world.submit(job(task("a", max_attempts=1), task("x"), task("y"), task("z", "x")))
    world.action(happened.CancelTask, run, task="y")
    given_failed(world, run, "a")
    assert world.states(run) == {"a": S.FAILED, "x": S.CANCELLED, "y": S.CANCELLED, "z": S.CANCELLED}

    world.action(happened.ReopenTask, run, task="a")

    assert world.states(run) == {"a": S.ASSIGNED, "x": S.QUEUED, "y": S.CANCELLED, "z": S.PENDING}
    assert world.run(run).failed_task is None


def test_a_final_run_is_restored_from_its_rows(world: World) -> None:
    """STA-1: it had left the memory, and returns as a new generation."""
    world.register("w1")
    run = world.submit(chain("a", "b", max_attempts=1), watched=True)
    given_failed(world, run, "a")
    assert run.id not in world.shard.memory.runs

    assert world.reply(happened.ReopenTask, run, task="a") is ActionStatus.DONE
    assert world.run(run).state is RunState.RUNNING
    assert world.run(run).generation == 2
    assert world.run(run).ended_at is None

    world.run_through("a", "b")
    assert world.run(run).state is RunState.SUCCEEDED
    assert [news.id for news in world.ledger.outbox] == [f"{run.id}:1:ended", f"{run.id}:2:ended"]


def test_a_run_in_history_can_not_be_reopened(world: World) -> None:
    """STA-1: it can only be run again as a new run."""
    world.register("w1")
    run = world.submit(chain("a", max_attempts=1))
    given_failed(world, run, "a")
    world.settle(happened.RunsExpired(run_ids=(run.id,)))
    assert world.ledger.archived == {run.id}

    assert world.reply(happened.ReopenTask, run, task="a") is ActionStatus.NOT_FOUND


def test_a_run_that_was_reopened_does_not_move_to_history(world: World) -> None:
    """The sweep named it just before a person retried it."""
    world.register("w1")
    run = world.submit(chain("a", max_attempts=1))
    given_failed(world, run, "a")
    world.action(happened.ReopenTask, run, task="a")

    world.settle(happened.RunsExpired(run_ids=(run.id,)))

    assert world.ledger.archived == set()


def test_an_open_task_can_not_be_reopened(world: World) -> None:
    """The reply has its state."""
    run = world.submit(chain("a"))

    answer = world.action(happened.ReopenTask, run, task="a")

    assert answer.reply is ActionStatus.REFUSED
    assert "QUEUED" in answer.detail


def test_a_skipped_descendant_is_decided_again(world: World) -> None:
    """DAG-4: the new output makes the condition true."""
    world.register("w1")
    run = world.submit(job(task("count"), task("load", "count", when={"count": "output > 0"}), task("end", "load")))
    world.start("count")
    world.succeed("count", output="0")
    assert world.states(run) == {"count": S.SUCCEEDED, "load": S.SKIPPED, "end": S.SKIPPED}

    world.action(happened.ReopenTask, run, task="count")
    world.start("count")
    world.succeed("count", output="1")

    assert world.states(run) == {"count": S.SUCCEEDED, "load": S.ASSIGNED, "end": S.PENDING}


def test_a_succeeded_child_is_not_changed(world: World) -> None:
    """STA-1: only what was cancelled or skipped follows."""
    world.register("w1")
    run = world.submit(chain("a", "b"))
    world.run_through("a", "b")

    world.action(happened.ReopenTask, run, task="a")

    assert world.states(run) == {"a": S.ASSIGNED, "b": S.SUCCEEDED}
    world.run_through("a")
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_child_that_is_queued_waits_again(world: World) -> None:
    """I-40: no attempt of `b` is made while `a` is open again."""
    world.register("w1")
    run = world.submit(chain("a", "b"))
    world.submit(job(task("urgent")), priority=Priority.P0)
    world.run_through("a")
    assert world.task("b").state is S.QUEUED

    world.action(happened.ReopenTask, run, task="a")
    assert world.task("b").state is S.PENDING

    world.run_through("urgent", "a")
    assert world.task("b").state is S.ASSIGNED


def test_a_running_child_continues(world: World) -> None:
    """Nothing automatic stops it, and its result counts."""
    world.register("w1", cores=2)
    run = world.submit(chain("a", "b"))
    world.run_through("a")
    world.start("b")

    world.action(happened.ReopenTask, run, task="a")
    world.succeed("b")
    assert world.task("b").state is S.SUCCEEDED
    assert world.run(run).state is RunState.RUNNING

    world.run_through("a")
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_second_failure_under_fail_fast_cancels_everything_again(world: World) -> None:
    """DAG-3: a generation fails like the one before it."""
    world.register("w1")
    run = world.submit(job(task("a", max_attempts=1), task("x"), task("b", "a")))
    given_failed(world, run, "a")
    world.action(happened.ReopenTask, run, task="a")
    world.start("a")
    world.fail("a")

    assert world.states(run) == {"a": S.FAILED, "x": S.CANCELLED, "b": S.CANCELLED}
    assert world.run(run).state is RunState.FAILED
    assert world.run(run).generation == 2


def test_a_task_of_a_cancelled_run_can_be_reopened(world: World) -> None:
    """Its descendants restart with it: they were cancelled with it."""
    world.register("w1")
    run = world.submit(chain("a", "b"))
    world.start("a")
    world.action(happened.CancelRun, run)
    world.stop("a")
    assert world.run(run).state is RunState.CANCELLED

    world.action(happened.ReopenTask, run, task="a")
    world.run_through("a", "b")

    assert world.run(run).state is RunState.SUCCEEDED
    assert world.run(run).cancelled_by is None


def test_a_task_with_a_cancelled_upstream_is_cancelled_again_at_once(world: World) -> None:
    """The run ends as it had ended before, as a generation of its own, and leaves the memory."""
    run = world.submit(chain("a", "b"), watched=True)
    world.action(happened.CancelRun, run)

    assert world.reply(happened.ReopenTask, run, task="b") is ActionStatus.DONE

    assert world.states(run) == {"a": S.CANCELLED, "b": S.CANCELLED}
    assert world.task("b").generation == 2
    assert (world.run(run).state, world.run(run).generation) == (RunState.CANCELLED, 2)
    assert len(world.ledger.outbox) == 2


def test_a_reopening_and_a_cancel_in_one_turn_end_the_run_again(world: World) -> None:
    """It was final, was restarted and is final again before this was visible."""
    world.register("w1")
    run = world.submit(chain("a", max_attempts=1))
    given_failed(world, run, "a")
    world.turn(world.asked(happened.ReopenTask, run, task="a"))

    world.settle(world.asked(happened.CancelRun, run))

    assert world.run(run).state is RunState.CANCELLED
    assert not world.shard.memory.runs


def test_a_large_reopening_is_spread_over_several_batches(world: World) -> None:
    """A hundred children, ten rows to a batch."""
    world.register("w1", cores=2)
    run = world.submit(fan(100, max_attempts=1, on_failure=P.FAIL_AFTER_ALL))
    given_failed(world, run, "first")
    assert world.run(run).state is RunState.FAILED

    with world.rows_per_turn(10):
        before = len(world.batches)
        world.action(happened.ReopenTask, run, task="first")
        assert len(world.batches) - before > 10

    states = world.states(run)
    assert states.pop("first") is S.ASSIGNED
    assert set(states.values()) == {S.PENDING}
    assert world.ledger.bulk_operations == {}


def test_a_reopen_during_fail_fast_restores_everything(world: World) -> None:
    """DAG-3: the FAIL_FAST operation is half done when a person retries its cause."""
    world.register("w1")
    run = world.submit(wide(100, max_attempts=1))
    world.start("t0")
    with world.rows_per_turn(30):
        world.turn(world.result("t0", Outcome.FAILED))
        assert {S.CANCELLED, S.QUEUED} < set(world.states(run).values())
        world.action(happened.ReopenTask, run, task="t0")

    assert S.CANCELLED not in world.states(run).values()
    assert world.run(run).state is RunState.RUNNING


def test_a_recall_from_before_a_reopen_does_not_cancel_its_task(world: World) -> None:
    """DAG-3: `b` was called back because `a` failed; before the worker answers, `a` is retried."""
    world.register("w1", cores=2)
    run = world.submit(job(task("a", max_attempts=1), task("b")))
    world.start("a")
    world.fail("a")
    assert world.task("b").stop is not None

    world.action(happened.ReopenTask, run, task="a")
    world.give_back("b")

    assert world.task("b").state is S.ASSIGNED
    world.run_through("a", "b")
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_task_can_not_be_reopened_while_its_run_is_being_cancelled(world: World) -> None:
    """Part of the run has been asked to stop: retry again after the end."""
    world.register("w1")
    run = world.submit(chain("a", "b"))
    world.start("a")
    world.action(happened.CancelRun, run)
    assert world.task("b").state is S.CANCELLED

    assert world.reply(happened.ReopenTask, run, task="b") is ActionStatus.REFUSED
    world.stop("a")
    assert world.run(run).state is RunState.CANCELLED


def test_two_simultaneous_reopens_restore_all_descendants(world: World) -> None:
    """Each has its own bulk operation."""
    world.register("w1", cores=2)
    left = [task(f"l{n}", "left") for n in range(30)]
    right = [task(f"r{n}", "right") for n in range(30)]
    run = world.submit(
        job(
            task("left", max_attempts=1), task("right", max_attempts=1), *left, *right, on_failure=P.FAIL_AFTER_ALL
        )
    )  # fmt: skip
    given_failed(world, run, "left")
    given_failed(world, run, "right")

    with world.rows_per_turn(6):
        world.turn(world.asked(happened.ReopenTask, run, task="left"))
        world.turn()
        world.turn(world.asked(happened.ReopenTask, run, task="right"))
        world.settle()

    states = world.states(run)
    assert {states.pop("left"), states.pop("right")} == {S.ASSIGNED}
    assert set(states.values()) == {S.PENDING}


@pytest.mark.parametrize("seconds", [30, 100])
def test_a_reopened_run_has_its_whole_limit_again(world: World, seconds: int) -> None:
    """The run failed after ten seconds; retried later, the time of its first generation does not count."""
    world.register("w1")
    run = world.submit(job(task("a", max_attempts=1), timeout_seconds=60))
    world.advance(seconds=10, heard=["w1"])
    given_failed(world, run, "a")
    world.advance(seconds=seconds, heard=["w1"])

    world.action(happened.ReopenTask, run, task="a")
    world.receive("a")
    world.advance(seconds=59, heard=["w1"])
    assert world.run(run).state is RunState.RUNNING

    world.give_back("a", refusal="no")
    world.advance(seconds=1, heard=["w1"])
    assert world.run(run).state is RunState.TIMED_OUT
