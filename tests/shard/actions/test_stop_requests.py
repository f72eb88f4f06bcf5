"""A stop request is durable, and ends only by a report of the worker (STA-8)."""

from __future__ import annotations

import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import AttemptEnd, StopKind, TaskState
from mainspring.protocol.wire import Outcome, Stop
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus, Send
from tests.shard.jobs import chain, job, task, wide
from tests.shard.world import World

S = TaskState


def test_a_cancelled_running_task_keeps_its_state_and_capacity_until_the_worker_reports(world: World) -> None:
    """STA-8."""
    run = world.given_running("extract", on="w1")
    world.given_run(task("other"))

    world.action(happened.CancelRun, run)
    assert world.task("extract").state is S.RUNNING
    assert world.task("other").state is S.QUEUED
    assert world.run(run).state is RunState.RUNNING

    world.stop("extract")
    assert world.task("extract").state is S.CANCELLED
    assert world.task("other").state is S.ASSIGNED
    assert world.run(run).state is RunState.CANCELLED


def test_the_request_is_in_the_batch_whose_effect_is_the_signal(world: World) -> None:
    """STA-8: committed before it is sent, with who, why and until when."""
    run = world.given_running("extract", on="w1")
    (_, attempt) = world.holder("extract")

    batch = world.turn(world.asked(happened.CancelRun, run, why="not needed"))

    (change,) = batch.tasks
    assert change.task.stop is not None
    assert (change.task.stop.kind, change.task.stop.by, change.task.stop.why) == (StopKind.CANCEL, "ann", "not needed")
    assert (change.task.stop.kill_at - world.now).total_seconds() == 30
    sent = [effect.message for effect in batch.effects if isinstance(effect, Send)]
    assert sent == [Stop(attempt, "not needed", 30.0)]


@pytest.mark.parametrize(
    ("outcome", "state"), [(Outcome.SUCCEEDED, S.SUCCEEDED), (Outcome.FAILED, S.FAILED), (Outcome.STOPPED, S.CANCELLED)]
)
def test_a_result_produced_before_the_signal_counts(world: World, outcome: Outcome, state: TaskState) -> None:
    """STA-8: the process ended while the request was on its way."""
    world.given_running("extract", on="w1", max_attempts=1)
    world.action(happened.CancelTask, task="extract")

    world.settle(world.result("extract", outcome))

    assert world.task("extract").state is state


def test_a_failure_after_a_cancel_is_not_retried(world: World) -> None:
    """STA-8: attempts are left, but not wanted."""
    world.given_running("extract", on="w1", max_attempts=3)
    world.action(happened.CancelTask, task="extract")

    world.fail("extract")

    assert world.task("extract").state is S.CANCELLED


def test_a_cancelled_task_that_is_assigned_is_recalled(world: World) -> None:
    """STA-8: the worker returns it, and it ends without having run."""
    world.register("w1")
    world.given_run(task("extract"))
    (_, attempt) = world.holder("extract")

    world.action(happened.CancelTask, task="extract")
    assert world.recalls("w1") == [attempt]
    assert world.task("extract").state is S.ASSIGNED

    world.give_back("extract")
    assert world.task("extract").state is S.CANCELLED
    assert world.ledger.attempts[attempt].end is AttemptEnd.RETURNED


def test_a_recall_that_comes_too_late_becomes_a_stop(world: World) -> None:
    """STA-8: the worker reports *started*, and is asked to stop it."""
    world.register("w1")
    world.given_run(task("extract"))
    world.action(happened.CancelTask, task="extract")
    (_, attempt) = world.holder("extract")

    world.start("extract")

    assert world.stops("w1") == [(attempt, 30.0)]
    world.stop("extract")
    assert world.task("extract").state is S.CANCELLED


def test_a_cancelled_task_that_waits_ends_at_once(world: World) -> None:
    """Nobody holds it: queued, or waiting for an upstream."""
    run = world.submit(chain("a", "b"))
    assert world.reply(happened.CancelTask, run, task="a") is ActionStatus.DONE

    assert world.states(run) == {"a": S.CANCELLED, "b": S.CANCELLED}
    assert world.task("b").cause == world.task("a").id
    assert world.run(run).state is RunState.CANCELLED


def test_a_request_is_sent_again_when_the_worker_comes_back(world: World) -> None:
    """STA-8: with the rest of its grace period."""
    run = world.given_running("extract", on="w1")
    world.action(happened.CancelRun, run)
    (_, attempt) = world.holder("extract")
    world.advance(seconds=10)

    world.reconnect("w1")

    assert world.stops("w1") == [(attempt, 20.0)]


def test_a_request_is_sent_again_by_a_new_leader(world: World) -> None:
    """STA-8: it is part of the row."""
    run = world.given_running("extract", on="w1")
    world.action(happened.CancelRun, run)
    (_, attempt) = world.holder("extract")

    world.new_leader()
    world.advance(seconds=5)
    world.reconnect("w1")

    assert world.stops("w1") == [(attempt, 25.0)]
    world.stop("extract")
    assert world.run(run).state is RunState.CANCELLED


def test_a_recall_is_sent_again_by_a_new_leader(world: World) -> None:
    """STA-8: an unstarted attempt is recalled, not killed."""
    world.register("w1")
    run = world.given_run(task("extract"))
    world.action(happened.CancelRun, run)
    (_, attempt) = world.holder("extract")

    world.new_leader()
    world.reconnect("w1")

    assert world.recalls("w1") == [attempt]


def test_a_worker_that_is_lost_ends_what_it_was_asked_to_stop(world: World) -> None:
    """STA-8: *or the worker is lost*. A cancelled task is not requeued."""
    run = world.given_running("extract", on="w1")
    world.action(happened.CancelRun, run)

    world.advance(seconds=15)

    assert world.task("extract").state is S.CANCELLED
    assert world.run(run).state is RunState.CANCELLED


def test_a_repeated_cancel_is_not_requested_twice(world: World) -> None:
    """STA-2: it answers as the first did, and no second signal goes out."""
    run = world.given_running("extract", on="w1")
    assert world.reply(happened.CancelRun, run) is ActionStatus.DONE
    assert world.reply(happened.CancelRun, run) is ActionStatus.ALREADY
    assert world.reply(happened.CancelTask, run, task="extract") is ActionStatus.DONE

    assert len(world.stops("w1")) == 1


def test_a_task_over_its_limit_is_stopped_and_retried(world: World) -> None:
    """LIV-4, STA-8: a hard timeout ends in a retry while attempts are left."""
    world.given_running("extract", on="w1", timeout_seconds=30.0, max_attempts=2, retry_delay_seconds=1.0)
    world.advance(seconds=29, heard=["w1"])
    assert world.stops("w1") == []

    world.advance(seconds=1, heard=["w1"])
    assert len(world.stops("w1")) == 1
    assert world.task("extract").state is S.RUNNING

    world.stop("extract")
    assert world.task("extract").state is S.PENDING
    assert [one.end for one in world.ledger.attempts.values()] == [AttemptEnd.TIMED_OUT]


def test_a_timeout_on_the_last_attempt_ends_in_timed_out(world: World) -> None:
    """LIV-4, STA-8."""
    run = world.given_running("extract", on="w1", timeout_seconds=30.0, max_attempts=1)
    world.advance(seconds=30, heard=["w1"])
    world.stop("extract")

    assert world.task("extract").state is S.TIMED_OUT
    assert world.run(run).state is RunState.FAILED


def test_a_success_that_came_before_the_kill_of_a_timeout_counts(world: World) -> None:
    """STA-8."""
    world.given_running("extract", on="w1", timeout_seconds=30.0, max_attempts=1)
    world.advance(seconds=30, heard=["w1"])

    world.succeed("extract")

    assert world.task("extract").state is S.SUCCEEDED


def test_the_limit_of_an_earlier_attempt_does_not_end_the_next_one(world: World) -> None:
    """A timer has a stamp, and is stale once its task has changed."""
    world.given_running("extract", on="w1", timeout_seconds=30.0, retry_delay_seconds=1.0)
    world.advance(seconds=20, heard=["w1"])
    world.fail("extract")
    world.advance(seconds=2, heard=["w1"])
    world.start("extract")

    world.advance(seconds=20, heard=["w1"])

    assert world.task("extract").stop is None


def test_a_cancel_outranks_a_timeout(world: World) -> None:
    """STA-8: a person's word ends in CANCELLED, though the limit was passed first."""
    run = world.given_running("extract", on="w1", timeout_seconds=30.0)
    world.advance(seconds=30, heard=["w1"])
    world.action(happened.CancelRun, run)

    world.stop("extract")

    assert world.task("extract").state is S.CANCELLED


def test_a_new_leader_grants_an_expiring_limit_twenty_seconds(world: World) -> None:
    """Its worker may have ended it during the takeover."""
    world.given_running("extract", on="w1", timeout_seconds=30.0)
    world.advance(seconds=29, heard=["w1"])

    world.new_leader()
    world.reconnect("w1")
    world.advance(seconds=19, heard=["w1"])
    assert world.stops("w1") == []

    world.advance(seconds=1, heard=["w1"])
    assert len(world.stops("w1")) == 1


def test_a_run_that_takes_longer_than_its_limit_is_timed_out(world: World) -> None:
    """STA-5: running tasks are asked to stop, waiting ones are cancelled."""
    world.register("w1")
    run = world.submit(job(task("a"), task("b", "a"), timeout_seconds=60))
    world.start("a")

    world.advance(seconds=60, heard=["w1"])
    assert world.states(run) == {"a": S.RUNNING, "b": S.CANCELLED}
    assert world.run(run).state is RunState.RUNNING

    world.stop("a")
    assert world.states(run) == {"a": S.CANCELLED, "b": S.CANCELLED}
    assert world.run(run).state is RunState.TIMED_OUT


def test_a_run_that_ended_before_its_limit_is_not_affected(world: World) -> None:
    """The timer is stale."""
    world.register("w1")
    run = world.submit(job(task("a"), timeout_seconds=60))
    world.run_through("a")

    world.advance(seconds=90, heard=["w1"])

    assert world.run(run).state is RunState.SUCCEEDED


def test_an_unrequested_stop_counts_as_a_loss(world: World) -> None:
    """The worker was restarted: its processes are gone, and the task is not to blame."""
    world.given_running("extract", on="w1", max_attempts=1)

    world.stop("extract")

    assert world.task("extract").losses == 1
    assert world.task("extract").state is S.ASSIGNED


def test_cancelling_a_final_run_changes_nothing(world: World) -> None:
    """STA-2: it was so before, and nothing changed."""
    world.register("w1")
    run = world.submit(chain("a"))
    world.run_through("a")

    assert world.reply(happened.CancelRun, run) is ActionStatus.ALREADY
    assert world.run(run).state is RunState.SUCCEEDED


def test_cancelling_a_final_task_changes_nothing(world: World) -> None:
    """STA-2: a final state is final."""
    world.register("w1")
    run = world.submit(wide(2))
    world.run_through("t0")

    assert world.reply(happened.CancelTask, run, task="t0") is ActionStatus.ALREADY
    assert world.task("t0").state is S.SUCCEEDED


def test_an_action_on_an_unknown_run_gets_a_reply(world: World) -> None:
    """The rows have been asked."""
    world.turn(happened.CancelRun(run_id="run_none", by="ann", request_id=99))
    world.settle()

    assert world.answers[99].reply is ActionStatus.NOT_FOUND


def test_an_action_on_an_unknown_task_gets_a_reply(world: World) -> None:
    """The run is there, the task is not."""
    run = world.submit(chain("a"))
    world.settle(happened.CancelTask(run_id=run.id, task_id="task_0001.7", by="ann", request_id=99))

    assert world.answers[99].reply is ActionStatus.NOT_FOUND


@pytest.mark.parametrize(
    "state", [S.PENDING, S.QUEUED, S.ASSIGNED, S.RUNNING, S.QUARANTINED, S.SUCCEEDED, S.FAILED, S.CANCELLED]
)
@pytest.mark.parametrize("what", [happened.CancelRun, happened.CancelTask])
@pytest.mark.parametrize("answer", [Outcome.STOPPED, Outcome.SUCCEEDED, Outcome.FAILED, None])
def test_a_cancel_ends_a_task_in_every_state(
    world: World, state: TaskState, what: type[happened.RunAction], answer: Outcome | None
) -> None:
    """F62: whatever the task was doing, it ends, and the run with it; nothing is left behind on the worker."""
    given_in_state(world, state)
    run = world.run()
    world.action(what, run, task="extract" if what is happened.CancelTask else None)

    task_now = world.task("extract")
    if task_now.worker_id is not None and answer is None:
        world.advance(seconds=15)
    elif task_now.state is S.ASSIGNED and answer is Outcome.STOPPED:
        world.give_back("extract")
    elif task_now.worker_id is not None and answer is not None:
        world.settle(world.result("extract", answer))

    end = world.task("extract").state
    if state in (S.SUCCEEDED, S.FAILED):
        assert end is state
    elif state in (S.ASSIGNED, S.RUNNING) and answer is Outcome.SUCCEEDED:
        assert end is S.SUCCEEDED
    else:
        assert end is S.CANCELLED
    assert not world.shard.memory.leases
    assert world.run().ended_at is not None
    if what is happened.CancelRun and state not in (S.SUCCEEDED, S.FAILED, S.CANCELLED):
        assert world.run().state is RunState.CANCELLED


def given_in_state(world: World, state: TaskState) -> None:
    """A run of one task in this state."""
    spec = job(task("extract", max_attempts=1 if state is S.FAILED else 3))
    if state is S.QUEUED:
        world.submit(spec)
        return
    world.register("w1")
    world.submit(spec)
    if state is S.ASSIGNED:
        return
    world.start("extract")
    if state is S.PENDING:
        world.fail("extract")
    elif state is S.QUARANTINED:
        world.reject(world.result("extract", Outcome.SUCCEEDED), "its output is bad")
    elif state is S.SUCCEEDED:
        world.succeed("extract")
    elif state is S.FAILED:
        world.fail("extract")
    elif state is S.CANCELLED:
        world.action(happened.CancelTask, task="extract")
        world.stop("extract")
    assert world.task("extract").state is state


def test_an_attempt_that_is_asked_to_stop_and_ends_in_one_turn_is_not_signaled(world: World) -> None:
    """STA-8: a signal follows a request that is in the row, and this one never was."""
    run = world.given_running("extract", on="w1")

    world.turn(world.asked(happened.CancelTask, run, task="extract"), world.result("extract", Outcome.SUCCEEDED))

    assert world.task("extract").state is S.SUCCEEDED
    assert world.stops("w1") == []
