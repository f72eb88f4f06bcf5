"""A person ends the process of a task: at once or after a grace, for good or to run again (OPS-1, STA-8)."""

from __future__ import annotations

import pytest

from mainspring.core.model.task import AttemptEnd, StopKind, TaskState
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import CancelTask, DrainWorker, EvictWorker, KillTask
from tests.shard.jobs import chain, task
from tests.shard.world import World

S = TaskState


def test_a_killed_task_is_cancelled_once_its_process_is_gone(world: World) -> None:
    world.given_running("a", on="w1")

    answered = world.action(KillTask, task="a", why="it hangs")

    assert answered.reply is ActionStatus.DONE
    assert world.task("a").state is S.RUNNING
    assert world.stops("w1") == [(world.task("a").attempt_id, 0.0)]

    world.stop("a")
    assert (world.task("a").state, world.task("a").because) == (S.CANCELLED, "it hangs")


def test_a_killed_task_is_requeued_and_the_attempt_does_not_count(world: World) -> None:
    world.given_running("a", on="w1", max_attempts=1)
    _, attempt = world.holder("a")

    world.action(KillTask, task="a", again=True, grace_seconds=5)
    assert world.stops("w1") == [(attempt, 5.0)]
    world.stop("a")

    assert world.task("a").state is S.ASSIGNED
    assert (world.task("a").tries, world.task("a").losses) == (0, 0)
    assert world.ledger.attempts[attempt].end is AttemptEnd.STOPPED
    world.run_through("a")
    assert world.states() == {"a": S.SUCCEEDED}


def test_a_success_before_the_kill_counts(world: World) -> None:
    """STA-8."""
    world.given_running("a", on="w1")
    world.action(KillTask, task="a")

    world.succeed("a")

    assert world.task("a").state is S.SUCCEEDED


@pytest.mark.parametrize("again", [True, False])
def test_an_unstarted_task_is_recalled(world: World, again: bool) -> None:
    world.register("w1")
    world.given_run(task("a"))
    _, attempt = world.holder("a")

    world.action(KillTask, task="a", again=again)
    assert world.recalls("w1") == [attempt]
    world.give_back("a")

    assert world.task("a").state is (S.ASSIGNED if again else S.CANCELLED)


def test_a_kill_brings_a_stop_forward_and_never_postpones_it(world: World) -> None:
    world.given_running("a", on="w1")
    _, attempt = world.holder("a")
    world.action(CancelTask, task="a", why="no longer needed")

    assert world.action(KillTask, task="a", grace_seconds=60).reply is ActionStatus.ALREADY
    assert world.action(KillTask, task="a", grace_seconds=2).reply is ActionStatus.DONE

    assert world.stops("w1") == [(attempt, 30.0), (attempt, 2.0)]
    world.stop("a")
    assert world.task("a").because == "no longer needed"


def test_a_task_that_is_evicted_can_be_killed_for_good(world: World) -> None:
    world.given_running("a", on="w1")
    world.settle(EvictWorker(worker="w1", by="ann"))

    assert world.action(KillTask, task="a").reply is ActionStatus.DONE
    world.stop("a")

    assert world.task("a").state is S.CANCELLED


def test_a_task_that_is_evicted_is_killed_sooner_and_runs_again(world: World) -> None:
    world.given_running("a", on="w1")
    world.settle(EvictWorker(worker="w1", by="ann"))

    assert world.action(KillTask, task="a", again=True).reply is ActionStatus.DONE
    stop = world.task("a").stop

    assert stop is not None
    assert (stop.kind, stop.kill_at) == (StopKind.EVICT, world.now)


def test_a_timed_out_task_requeued_by_a_person_has_no_failed_attempt(world: World) -> None:
    world.given_running("a", on="w1", timeout_seconds=5.0)
    world.advance(6, heard=["w1"])

    assert world.action(KillTask, task="a", again=True).reply is ActionStatus.DONE
    world.stop("a")

    assert (world.task("a").state, world.task("a").tries) == (S.ASSIGNED, 0)


def test_a_task_that_is_held_back_by_a_drain_can_be_killed(world: World) -> None:
    world.register("w1")
    world.given_run(task("a"))
    world.settle(DrainWorker(worker="w1", by="ann"))

    assert world.action(KillTask, task="a").reply is ActionStatus.DONE
    world.give_back("a")

    assert world.task("a").state is S.CANCELLED


def test_a_task_that_is_being_cancelled_does_not_run_again(world: World) -> None:
    world.given_running("a", on="w1")
    world.action(CancelTask, task="a")

    answered = world.action(KillTask, task="a", again=True)

    assert answered.reply is ActionStatus.REFUSED
    stop = world.task("a").stop
    assert stop is not None
    assert stop.kind is StopKind.CANCEL


def test_only_a_task_with_a_process_can_be_killed(world: World) -> None:
    world.register("w1")
    run = world.submit(chain("a", "b"))

    unstarted = world.action(KillTask, task="b")
    assert (unstarted.reply, "the task is PENDING" in unstarted.detail) == (ActionStatus.REFUSED, True)
    world.run_through("a", "b")
    over = world.action(KillTask, run, task="b")
    assert (over.reply, "the run is SUCCEEDED" in over.detail) == (ActionStatus.REFUSED, True)


@pytest.mark.parametrize("grace", [-1.0, 3_601.0, float("nan")])
def test_an_invalid_grace_period_is_refused(world: World, grace: float) -> None:
    world.given_running("a", on="w1")

    assert world.action(KillTask, task="a", grace_seconds=grace).reply is ActionStatus.REFUSED
    assert world.task("a").stop is None


def test_a_new_leader_sends_the_kill_again(world: World) -> None:
    world.given_running("a", on="w1")
    world.action(KillTask, task="a", grace_seconds=10)

    world.new_leader()
    world.now = world.task("a").stop.kill_at  # type: ignore[union-attr]
    world.reconnect("w1")

    assert world.stops("w1") == [(world.task("a").attempt_id, 0.0)]
