"""Timeouts, stalls and extensions (LIV-2, LIV-4)."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from mainspring.core.model.alerts import Alert, AlertKind
from mainspring.core.model.task import AttemptEnd, RetryState, StopKind, TaskState
from mainspring.protocol.wire import Assign, Extended, Progress
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.world import World

S = TaskState


def alerts(world: World, kind: AlertKind) -> list[Alert]:
    """All alerts, in order."""
    found = [msgspec.json.decode(row.payload, type=Alert) for row in world.ledger.outbox if row.kind == "alert"]
    return [alert for alert in found if alert.kind is kind]


def moves(world: World, name: str, percent: float, *, note: str = "") -> None:
    """A task reports progress."""
    worker, attempt = world.holder(name)
    world.settle(world.say(happened.WorkerHeartbeat, worker, progress=(Progress(attempt, percent, note),)))


def asks(world: World, name: str, seconds: float) -> Extended:
    """A task requests more seconds; return the reply."""
    worker, attempt = world.holder(name)
    world.settle(world.say(happened.ExtensionRequested, worker, attempt=attempt, seconds=seconds))
    answer = world.said_to(worker, Extended)[-1]
    assert isinstance(answer, Extended)
    assert answer.attempt == attempt
    return answer


def stop_of(world: World, name: str) -> StopKind | None:
    """How a task is being stopped."""
    stop = world.task(name).stop
    return stop.kind if stop is not None else None


# the soft limit


def test_the_soft_limit_raises_one_alert(world: World) -> None:
    """LIV-4: it is resolved at the end; the task continues."""
    world.given_running("extract", on="w1", expected_seconds=40)
    world.advance(seconds=79, heard=["w1"])
    assert alerts(world, AlertKind.RUNNING_LONG) == []

    world.advance(seconds=20, heard=["w1"])
    (alert,) = alerts(world, AlertKind.RUNNING_LONG)
    assert (alert.tenant, alert.resolved) == ("acme", False)
    assert ("extract" in alert.summary, "80 s" in alert.summary) == (True, True)
    assert stop_of(world, "extract") is None

    world.succeed("extract")
    assert [one.resolved for one in alerts(world, AlertKind.RUNNING_LONG)] == [False, True]


def test_the_hard_limit_follows_the_soft_one(world: World) -> None:
    """Three times the expected duration, from the start."""
    world.given_running("extract", on="w1", expected_seconds=40)
    world.advance(seconds=119, heard=["w1"])
    assert stop_of(world, "extract") is None

    world.advance(seconds=1, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.TIMEOUT


def test_a_task_within_its_limit_raises_no_alert(world: World) -> None:
    """No alert, and none to resolve."""
    world.given_running("extract", on="w1", expected_seconds=40)
    world.advance(seconds=79, heard=["w1"])
    world.succeed("extract")
    world.advance(seconds=79, heard=["w1"])
    assert alerts(world, AlertKind.RUNNING_LONG) == []


def test_a_new_leader_resolves_alerts_of_an_older_one(world: World) -> None:
    """The alert would stay open for ever."""
    world.given_running("extract", on="w1", expected_seconds=40)
    world.advance(seconds=90, heard=["w1"])
    world.new_leader()
    world.reconnect("w1")

    world.succeed("extract")

    assert [one.resolved for one in alerts(world, AlertKind.RUNNING_LONG)] == [False, True]


def test_the_limit_after_a_timeout_is_longer(world: World) -> None:
    """RTY-1: retried with a longer limit, which is in the assignment."""
    world.given_running("extract", on="w1", timeout_seconds=30.0, retry_delay_seconds=1.0)
    world.advance(seconds=30, heard=["w1"])
    world.stop("extract")
    assert world.task("extract").because.endswith("with a limit of 45 s")
    world.advance(seconds=2, heard=["w1"])
    assign = world.said_to("w1", Assign)[-1]
    assert isinstance(assign, Assign)
    assert assign.group[0].timeout_seconds == 45

    world.start("extract")
    world.advance(seconds=44, heard=["w1"])
    assert stop_of(world, "extract") is None
    world.advance(seconds=1, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.TIMEOUT


# progress


def test_a_stalled_task_is_stopped_and_retried(world: World) -> None:
    """LIV-2: its worker has heartbeats all the time, with the same progress."""
    world.given_running("extract", on="w1", retry_delay_seconds=1.0)
    moves(world, "extract", 10)
    for _ in range(59):
        world.advance(seconds=10, heard=["w1"])
        moves(world, "extract", 10)
    assert stop_of(world, "extract") is None

    world.advance(seconds=10, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.STALL
    (alert,) = alerts(world, AlertKind.STALLED)
    assert ("extract" in alert.summary, "600 s" in alert.summary) == (True, True)

    world.stop("extract")
    assert world.task("extract").tries == 1
    assert [one.end for one in world.ledger.attempts.values()] == [AttemptEnd.TIMED_OUT]
    assert [one.resolved for one in alerts(world, AlertKind.STALLED)] == [False, True]
    world.advance(seconds=2, heard=["w1"])
    assert world.task("extract").state is S.ASSIGNED


def test_progress_of_any_kind_keeps_a_task_alive(world: World) -> None:
    """Another percentage or another note."""
    world.given_running("extract", on="w1", stall_seconds=60)
    for number in range(20):
        moves(world, "extract", number // 2, note=f"{number}")
        world.advance(seconds=50, heard=["w1"])
    assert stop_of(world, "extract") is None


def test_a_task_that_never_reports_progress_is_not_stalled(world: World) -> None:
    """LIV-2: off unless it reports progress."""
    world.given_running("extract", on="w1")
    world.advance(seconds=700, heard=["w1"])
    assert stop_of(world, "extract") is None


def test_a_task_with_a_stall_limit_is_monitored_from_its_start(world: World) -> None:
    """`stall_seconds` promises progress."""
    world.given_running("extract", on="w1", stall_seconds=60, max_attempts=1)
    world.advance(seconds=59, heard=["w1"])
    assert stop_of(world, "extract") is None
    world.advance(seconds=1, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.STALL

    world.stop("extract")
    assert world.task("extract").state is S.TIMED_OUT
    assert world.task("extract").because == "the only attempt made no progress for 60 s"


def test_a_stall_of_the_shard_does_not_count_against_a_task(world: World) -> None:
    """Seconds that the shard did not live through don't count."""
    world.given_running("extract", on="w1", stall_seconds=60)
    moves(world, "extract", 10)
    world.now += timedelta(hours=1)
    world.settle(world.say(happened.WorkerHeartbeat, "w1"))
    assert stop_of(world, "extract") is None


@pytest.mark.parametrize("within_the_term", [True, False])
def test_a_new_leader_monitors_progress(world: World, within_the_term: bool) -> None:
    """From loading on, or, if only the task reports progress, from its next report on."""
    world.given_running("extract", on="w1", retry_delay_seconds=1.0)
    moves(world, "extract", 10)
    world.advance(seconds=500, heard=["w1"])
    if within_the_term:
        world.reload()
    else:
        world.new_leader()
        world.reconnect("w1")
        moves(world, "extract", 10)

    world.advance(seconds=50, heard=["w1"])
    assert stop_of(world, "extract") is None
    world.advance(seconds=550, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.STALL


def test_a_stalled_task_that_is_lost_counts_as_an_attempt(world: World) -> None:
    """As with a timeout: neither count alone would bound it."""
    world.given_running("extract", on="w1", stall_seconds=20)
    world.advance(seconds=20, heard=["w1"])
    world.advance(seconds=15)
    assert (world.task("extract").tries, world.task("extract").losses) == (1, 0)


# more time


def test_a_task_that_makes_progress_is_extended(world: World) -> None:
    """LIV-4: counted from now, in the row, and the old limit ends nothing."""
    world.given_running("extract", on="w1", timeout_seconds=30.0)
    world.advance(seconds=20, heard=["w1"])
    moves(world, "extract", 50)
    assert asks(world, "extract", 60) == Extended(world.holder("extract")[1], 60.0)
    assert world.task("extract").trail == RetryState(limit_seconds=80.0)

    world.advance(seconds=59, heard=["w1"])
    assert stop_of(world, "extract") is None
    world.advance(seconds=1, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.TIMEOUT


def test_a_repeated_extension_request_changes_nothing(world: World) -> None:
    """A message may arrive twice."""
    world.given_running("extract", on="w1", timeout_seconds=30.0)
    moves(world, "extract", 50)
    asks(world, "extract", 60)
    asks(world, "extract", 60)
    assert world.task("extract").trail == RetryState(limit_seconds=60.0)


def test_a_task_without_progress_is_not_extended(world: World) -> None:
    """The reply has the reason, and the time left."""
    world.given_running("extract", on="w1", timeout_seconds=30.0, stall_seconds=15.0)
    answer = asks(world, "extract", 60)
    assert (answer.seconds, "progress" in answer.because) == (30.0, True)

    moves(world, "extract", 50)
    world.advance(seconds=14, heard=["w1"])
    assert asks(world, "extract", 20).because == ""
    world.advance(seconds=1, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.STALL
    assert asks(world, "extract", 60).because


def test_extensions_are_limited_to_ten_times_the_limit(world: World) -> None:
    """Also by asking again and again."""
    world.given_running("extract", on="w1", timeout_seconds=10.0)
    for number in range(9):
        moves(world, "extract", number)
        asks(world, "extract", 1000)
        world.advance(seconds=10, heard=["w1"])
    assert world.task("extract").trail == RetryState(limit_seconds=100.0)
    assert asks(world, "extract", 1000).because
    assert world.task("extract").trail == RetryState(limit_seconds=100.0)

    world.advance(seconds=10, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.TIMEOUT


def test_an_extension_survives_a_change_of_leader(world: World) -> None:
    """It is in the row."""
    world.given_running("extract", on="w1", timeout_seconds=30.0)
    moves(world, "extract", 50)
    asks(world, "extract", 100)
    world.new_leader()
    world.reconnect("w1")

    world.advance(seconds=99, heard=["w1"])
    assert stop_of(world, "extract") is None
    world.advance(seconds=1, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.TIMEOUT


def test_a_worker_can_not_extend_a_task_it_no_longer_holds(world: World) -> None:
    """LIV-5: it gets a stop."""
    world.given_running("extract", on="w1")
    _, attempt = world.holder("extract")
    world.succeed("extract")
    world.settle(world.say(happened.ExtensionRequested, "w1", attempt=attempt, seconds=60))
    assert world.stops("w1") == [(attempt, 0.0)]


def extend(world: World, seconds: float) -> tuple[ActionStatus, str]:
    """A person extends the only task."""
    run = world.run()
    event = happened.ExtendTask(
        run_id=run.id, by="ann", request_id=99, task_id=world.task("extract").id, seconds=seconds
    )  # fmt: skip
    world.settle(event)
    answer = world.answers.pop(99)
    return answer.reply, answer.detail


def test_a_person_extends_a_task(world: World) -> None:
    """With or without progress, and by more than the task could request."""
    world.given_running("extract", on="w1", timeout_seconds=10.0)
    world.advance(seconds=5, heard=["w1"])
    assert extend(world, 500) == (ActionStatus.DONE, "500 s left")
    reply, detail = extend(world, 400)
    assert (reply, "505 s" in detail) == (ActionStatus.ALREADY, True)
    assert extend(world, -1)[0] is ActionStatus.REFUSED
    (told,) = world.said_to("w1", Extended)
    assert told == Extended(world.holder("extract")[1], 500.0)

    world.advance(seconds=499, heard=["w1"])
    assert stop_of(world, "extract") is None
    world.advance(seconds=1, heard=["w1"])
    assert stop_of(world, "extract") is StopKind.TIMEOUT
    assert extend(world, 1000)[0] is ActionStatus.REFUSED


def test_a_task_that_does_not_run_can_not_be_extended(world: World) -> None:
    """There is nothing to extend."""
    world.given_running("extract", on="w1", max_attempts=2)
    world.fail("extract")
    reply, detail = extend(world, 60)
    assert (reply, "the task is PENDING" in detail) == (ActionStatus.REFUSED, True)
