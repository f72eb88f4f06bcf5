"""Diagnoses of tasks on workers, of quarantined ones, and of unknown causes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.explain import messages
from mainspring.core.explain.diagnosis import STALE_SECONDS, ExpectedKind, Reason
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Progress
from mainspring.shard import events as happened
from mainspring.shard.explain.diagnose import diagnose
from tests.shard.diagnoses import blockers, settled, why
from tests.shard.jobs import job, short, task, wide
from tests.shard.world import World

S = TaskState


def took(world: World, *seconds: float) -> None:
    """Record durations of the task `t`."""
    for one in seconds:
        world.shard.memory.durations.record("acme", "job", "t", one, life=world.shard.memory.shard_time)


def moves(world: World, percent: float) -> None:
    """Report progress of the task `t`."""
    worker, attempt = world.holder("t")
    world.settle(world.say(happened.WorkerHeartbeat, worker, progress=(Progress(attempt, percent, ""),)))


def test_a_task_that_runs_as_usual_has_no_reason(world: World) -> None:
    took(world, 60.0)
    world.given_running("t", on="w1")
    world.advance(30, heard=["w1"])

    found = why(world, "t")
    assert found.reason is None
    assert (found.numbers["running_seconds"], found.numbers["usual_seconds"]) == (30, 60)
    assert (found.blockers, found.suggestions, found.expected) == ((), (), None)


def test_a_task_over_its_usual_duration_with_progress_is_slow(world: World) -> None:
    took(world, 50.0, 60.0, 70.0)
    world.given_running("t", on="w1")
    world.advance(80, heard=["w1"])
    moves(world, 61.0)

    found = why(world, "t")
    assert found.reason is Reason.RUNNING_SLOW
    assert [found.numbers[name] for name in ("running_seconds", "usual_seconds", "percent")] == [80, 60, 61]


def test_a_task_that_stops_reporting_progress_is_stuck(world: World) -> None:
    took(world, 60.0)
    world.given_running("t", on="w1")
    moves(world, 10.0)
    world.advance(130, heard=["w1"])

    found = why(world, "t")
    assert found.reason is Reason.STUCK
    assert found.numbers["silent_seconds"] == pytest.approx(130)
    assert messages.WORKER_ANSWERS in found.ruled_out

    moves(world, 11.0)
    assert why(world, "t").reason is Reason.RUNNING_SLOW


def test_a_task_without_progress_reports_is_stuck_after_a_multiple_of_its_duration(world: World) -> None:
    took(world, 30.0)
    world.given_running("t", on="w1")
    world.advance(60, heard=["w1"])
    assert why(world, "t").reason is Reason.RUNNING_SLOW

    world.advance(60, heard=["w1"])
    assert why(world, "t").reason is Reason.STUCK


def test_a_task_with_a_running_long_alert_is_slow(world: World) -> None:
    world.given_running("t", on="w1", soft_timeout_seconds=5.0, timeout_seconds=1_000.0)
    world.advance(6, heard=["w1"])

    assert why(world, "t").reason is Reason.RUNNING_SLOW


def test_a_silent_worker_has_a_deadline(world: World) -> None:
    world.given_running("t", on="w1")
    world.advance(12)

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (Reason.WORKER_LOST, ["w1"])
    assert (found.numbers["silent_seconds"], found.numbers["lost_in_seconds"]) == (12, 3)

    world.settle(world.say(happened.WorkerHeartbeat, "w1"))
    assert why(world, "t").reason is None


def test_an_unacknowledged_task_starts_slowly(world: World) -> None:
    settled(world, w1=1)
    world.submit(job(task("t")))
    assert why(world, "t").reason is None
    world.advance(6, heard=["w1"])

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (Reason.STARTING_SLOW, ["w1"])
    assert "not acknowledged" in found.verdict

    world.start("t")
    assert why(world, "t").reason is None


def test_a_task_of_a_group_waits_for_those_before_it(world: World) -> None:
    settled(world, w1=1)
    world.submit(job(*(short(f"t{number}") for number in range(40))))
    held = [one for one in world.ledger.tasks.values() if one.state is S.ASSIGNED]
    first, second = held[0], held[1]
    world.start(first.id)
    world.advance(8, heard=["w1"])

    found = why(world, second.id)
    assert (found.reason, blockers(found)) == (None, [first.id])


def test_a_task_being_cancelled_names_the_user(world: World) -> None:
    run = world.given_running("t", on="w1")
    world.action(happened.CancelTask, run, task="t")

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (None, ["ann"])
    assert "cancelled by ann" in found.verdict


def test_a_task_that_failed_the_same_way_everywhere_is_quarantined(world: World) -> None:
    run = world.submit(job(task("t", max_attempts=9, retry_delay_seconds=1.0)))
    for name in ("w1", "w2", "w3"):
        world.register(name)
        world.start("t")
        world.fail("t", error='{"type":"KeyError","message":"price"}')
        world.settle(happened.CordonWorker(worker=name, by="ann"))
        world.advance(300, heard=list(world.workers))

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (Reason.QUARANTINED, ["w1", "w2", "w3"])
    assert found.numbers["workers"] == 3
    assert "KeyError" in found.verdict

    world.action(happened.ClearTask, run, task="t")
    assert why(world, "t").reason is not Reason.QUARANTINED


def test_an_ended_task(world: World) -> None:
    run = world.submit(job(task("a"), task("b")))
    world.register("w1")
    world.run_through("a", of=run)

    found = why(world, "a")
    assert (found.reason, found.by) == (None, "leader")
    assert found.verdict.startswith("Succeeded ")


def test_a_scheduler_that_is_behind_names_no_blocker(world: World) -> None:
    settled(world, w1=1)
    world.submit(wide(2))

    found = diagnose(world.shard.memory, world.task("t1").id, world.now, age_seconds=STALE_SECONDS + 12)
    assert found is not None
    assert found.is_stale()
    assert (found.reason, found.gates, found.blockers, found.suggestions) == (Reason.SCHEDULER_LAG, (), (), ())
    assert found.verdict.startswith("The scheduler is 22s behind")
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN


def test_an_unknown_cause_has_no_blockers(world: World) -> None:
    """The scheduler has not tried it for longer than a turn ever takes."""
    settled(world, w1=1)
    world.submit(wide(2))
    queues, task_id = world.shard.memory.queues, world.task("t1").id
    queues.unpark(list(queues.parked))
    assert why(world, "t1").reason is None

    found = diagnose(world.shard.memory, task_id, world.now + timedelta(seconds=STALE_SECONDS + 30))
    assert found is not None
    assert found.reason is Reason.UNKNOWN
    assert (found.blockers, found.more_blockers, found.ruled_out, found.suggestions) == ((), 0, (), ())
    assert found.verdict == messages.unknown(40)
