"""Retry a run from its failures: failed tasks restart, with what ended because of them (DAG-7)."""

from __future__ import annotations

import pytest

from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.task import TaskState
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import job, task, wide
from tests.shard.world import World

S = TaskState


def given_failures(world: World, policy: FailurePolicy) -> None:
    """`a` and `b` failed, `c` succeeded; `d` needs a and c, `e` needs c."""
    world.register("w1", cores=8)
    world.submit(
        job(
            *(task(name, max_attempts=1) for name in "abc"),
            task("d", "a", "c", max_attempts=1),
            task("e", "c", max_attempts=1),
            on_failure=policy,
        )
    )
    world.start("a", "b", "c")
    world.succeed("c")


def test_failed_tasks_restart_with_their_cancelled_dependents(world: World) -> None:
    given_failures(world, FailurePolicy.FAIL_AFTER_ALL)
    world.fail("a", "b")
    world.succeed("e")
    assert world.run().state is RunState.FAILED
    answer = world.action(happened.RetryRun)
    assert (answer.reply, answer.detail) == (ActionStatus.DONE, "2 tasks restarted")
    assert world.states() == {"a": S.ASSIGNED, "b": S.ASSIGNED, "c": S.SUCCEEDED, "d": S.PENDING, "e": S.SUCCEEDED}
    world.succeed("a", "b", "d")
    assert (world.run().state, world.run().generation) == (RunState.SUCCEEDED, 2)


def test_under_fail_fast_tasks_ended_by_the_failure_restart(world: World) -> None:
    given_failures(world, FailurePolicy.FAIL_FAST)
    world.fail("a")
    world.fail("b")
    world.stop(*[name for name in ("e",) if world.task(name).worker_id is not None])
    assert world.run().state is RunState.FAILED
    world.action(happened.RetryRun)
    for name in "abde":
        world.succeed(name)
    assert world.run().state is RunState.SUCCEEDED


def test_tasks_cancelled_by_a_person_stay_cancelled(world: World) -> None:
    given_failures(world, FailurePolicy.FAIL_AFTER_ALL)
    world.action(happened.CancelTask, task="b")
    world.stop("b")
    world.fail("a")
    world.succeed("e")
    world.action(happened.RetryRun)
    world.succeed("a", "d")
    assert world.states()["b"] is S.CANCELLED


def test_a_run_in_which_nothing_failed_is_not_retried(world: World) -> None:
    given_failures(world, FailurePolicy.FAIL_AFTER_ALL)
    assert world.reply(happened.RetryRun) is ActionStatus.REFUSED
    world.succeed("a", "b", "d", "e")
    assert world.reply(happened.RetryRun) is ActionStatus.REFUSED


@pytest.mark.parametrize("turns", [1, 4])
def test_a_new_leader_continues_the_retry(world: World, turns: int) -> None:
    world.register("w1", cores=40)
    world.submit(wide(40, on_failure=FailurePolicy.FAIL_AFTER_ALL, max_attempts=1))
    names = [f"t{number}" for number in range(40)]
    world.start(*names)
    world.succeed(*names[10:])
    world.fail(*names[:10])
    with world.rows_per_turn(8):
        world.turn(world.asked(happened.RetryRun))
        for _ in range(turns):
            world.turn()
        world.new_leader()
        world.settle()
    world.reconnect("w1")
    assert [world.task(name).generation for name in names] == [2] * 10 + [1] * 30
    assert [world.task(name).state for name in names[:10]] == [S.ASSIGNED] * 10


def test_a_fan_in_waits_again_for_the_failed_members(world: World) -> None:
    """They have a higher position in the run, and are visited later."""
    world.register("w1", cores=8)
    world.submit(
        job(
            task("fetch", for_each="params.files", max_attempts=1),
            task("report", "fetch"),
            on_failure=FailurePolicy.FAIL_AFTER_ALL,
        ),
        params='{"files": ["a", "b", "c"]}',
    )
    world.succeed("fetch[0]")
    world.fail("fetch[1]", "fetch[2]")
    assert world.task("report").state is S.CANCELLED
    assert world.action(happened.RetryRun).detail == "2 tasks restarted"
    assert [world.task(f"fetch[{number}]").generation for number in range(3)] == [1, 2, 2]
    world.succeed("fetch[1]")
    assert world.task("report").state is S.PENDING
    world.succeed("fetch[2]", "report")
    assert world.run().state is RunState.SUCCEEDED
