"""Failures are retried with a growing delay, up to the limit (RTY-2, RTY-3, RTY-5)."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.lifecycle.retry_policy import JITTER
from mainspring.core.model.run import RunState
from mainspring.core.model.task import AttemptEnd, TaskState
from mainspring.protocol.wire import Assign, Outcome
from mainspring.shard import events as happened
from tests.shard.jobs import chain, job, task
from tests.shard.world import World

S = TaskState


def test_a_failure_is_retried_after_its_delay(world: World) -> None:
    """The delay is counted by the store's clock, from the failure on."""
    world.given_running("extract", on="w1", max_attempts=2, retry_delay_seconds=10.0)
    world.fail("extract", error='"boom"')
    assert world.task("extract").state is S.PENDING
    due_at = world.task("extract").due_at
    assert due_at is not None
    assert timedelta(seconds=10) <= due_at - world.now <= timedelta(seconds=10 * (1 + JITTER))
    assert world.task("extract").error == '"boom"'

    world.advance(seconds=9, heard=["w1"])
    assert world.task("extract").state is S.PENDING

    world.advance(seconds=5, heard=["w1"])
    assert world.task("extract").state is S.ASSIGNED
    assert world.task("extract").due_at is None


def test_a_run_has_started_when_its_first_attempt_did(world: World) -> None:
    """OBS-5: also if that attempt failed, and another one is the last."""
    run = world.given_running("extract", on="w1", max_attempts=3, retry_delay_seconds=1.0)
    first = world.task("extract").started_at
    for _ in range(2):
        world.fail("extract")
        world.advance(seconds=4, heard=["w1"])
        world.start("extract")
    world.succeed("extract")

    assert world.run(run).started_at == first


def test_when_a_run_started_is_known_though_its_task_was_cleared(world: World) -> None:
    """OBS-5: of three attempts, the first counts; a person cleared the task after the second."""
    run = world.given_running("extract", on="w1", max_attempts=3, retry_delay_seconds=1.0)
    first = world.task("extract").started_at
    world.fail("extract")
    world.advance(seconds=4, heard=["w1"])
    world.start("extract")
    world.reject(world.result("extract", Outcome.SUCCEEDED), "bad")
    world.action(happened.ClearTask, run, task="extract")
    world.run_through("extract")

    assert world.run(run).started_at == first


def test_the_last_attempt_ends_in_failed(world: World) -> None:
    """`max_attempts` attempts, then FAILED; each attempt is recorded with its number."""
    run = world.given_running("extract", on="w1", max_attempts=3, retry_delay_seconds=1.0)
    world.fail("extract")
    for _ in range(2):
        world.advance(seconds=4, heard=["w1"])
        world.start("extract")
        world.fail("extract", error='"again"')

    assert world.task("extract").state is S.FAILED
    assert world.task("extract").because == "attempt 3 of 3 failed"
    assert [(one.number, one.end) for one in world.ledger.attempts.values()] == [
        (1, AttemptEnd.FAILED),
        (2, AttemptEnd.FAILED),
        (3, AttemptEnd.FAILED),
    ]
    assert world.run(run).state is RunState.FAILED


def test_a_success_after_a_failure_clears_the_error(world: World) -> None:
    """The error of the last attempt counts."""
    world.given_running("extract", on="w1", retry_delay_seconds=1.0)
    world.fail("extract", error='"boom"')
    world.advance(seconds=2, heard=["w1"])
    world.start("extract")
    world.succeed("extract", output="1")

    assert (world.task("extract").output, world.task("extract").error) == ("1", None)
    assert world.task("extract").tries == 2


def test_an_attempt_that_is_sent_again_has_the_next_number_and_a_new_id(world: World) -> None:
    """I-11: an id is never used again."""
    world.given_running("extract", on="w1", retry_delay_seconds=1.0)
    world.fail("extract")
    world.advance(seconds=2, heard=["w1"])

    first, second = (message.group[0] for message in world.said_to("w1", Assign) if isinstance(message, Assign))
    assert (first.number, second.number) == (1, 2)
    assert first.attempt != second.attempt


def test_a_delayed_retry_uses_no_capacity(world: World) -> None:
    """I-65: a delay holds nothing."""
    world.given_running("extract", on="w1")
    world.given_run(task("other"))
    assert world.task("other").state is S.QUEUED

    world.fail("extract")

    assert world.task("other").state is S.ASSIGNED


def test_a_retry_keeps_the_run_running(world: World) -> None:
    """STA-5: a delayed PENDING task is not final."""
    run = world.given_running("extract", on="w1")
    world.fail("extract")

    assert world.run(run).state is RunState.RUNNING


def test_a_new_leader_keeps_the_delay(world: World) -> None:
    """The heap of timers is rebuilt from the rows."""
    world.given_running("extract", on="w1", retry_delay_seconds=20.0)
    world.fail("extract")
    world.advance(seconds=5)

    world.new_leader()
    world.advance(seconds=14)
    assert world.task("extract").state is S.PENDING

    world.advance(seconds=8)
    assert world.task("extract").state is S.QUEUED


def test_losses_do_not_count_as_attempts(world: World) -> None:
    """RTY-5: two losses and a failure leave two of three attempts."""
    world.given_running("extract", on="w1", max_attempts=3, retry_delay_seconds=1.0)
    for _ in range(2):
        world.advance(seconds=15)
        world.reconnect("w1", holds=())
        world.start("extract")
    world.fail("extract")

    assert (world.task("extract").tries, world.task("extract").losses) == (1, 2)
    assert world.task("extract").state is S.PENDING


def test_a_result_without_a_start_counts_as_both(world: World) -> None:
    """The report of the start may have been lost with its session: the path is whole all the same."""
    world.register("w1")
    world.submit(chain("extract"))

    world.settle(world.result("extract", Outcome.SUCCEEDED))

    assert world.path("extract") == [S.PENDING, S.QUEUED, S.ASSIGNED, S.RUNNING, S.SUCCEEDED]


def test_a_failure_while_its_upstream_is_open_again_waits_for_both(world: World) -> None:
    """A child that runs while its upstream is retried by a person is not retried before that has ended."""
    world.register("w1", cores=2)
    world.submit(job(task("a"), task("b", "a", retry_delay_seconds=5.0)))
    world.run_through("a")
    world.start("b")
    world.action(happened.ReopenTask, task="a")
    world.fail("b")

    world.advance(seconds=6, heard=["w1"])
    assert world.task("b").state is S.PENDING

    world.run_through("a")
    assert world.task("b").state is S.ASSIGNED
