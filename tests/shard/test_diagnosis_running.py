"""How a task is that a worker has, or that a person has to look at; and what is said when nothing is known."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.explain.diagnosis import STALE_SECONDS, Foresight, Reason
from mainspring.core.model.task import TaskState
from mainspring.protocol.wire import Progress
from mainspring.shard import events as happened
from mainspring.shard.explain.diagnose import diagnose
from tests.shard.asking import blockers, settled, why
from tests.shard.jobs import job, short, task, wide
from tests.shard.world import World

S = TaskState


def took(world: World, *seconds: float) -> None:
    """The task `t` took so long before, one time after another."""
    for one in seconds:
        world.shard.memory.durations.record("acme", "job", "t", one, life=world.shard.memory.life)


def moves(world: World, percent: float) -> None:
    """The task `t` says how far it is."""
    worker, attempt = world.holder("t")
    world.settle(world.say(happened.WorkerBeat, worker, progress=(Progress(attempt, percent, ""),)))


def test_what_runs_as_usual_is_held_up_by_nothing(world: World) -> None:
    took(world, 60.0)
    world.given_running("t", on="w1")
    world.advance(30, heard=["w1"])

    found = why(world, "t")
    assert (found.reason, found.verdict) == (None, "Running on w1 for 30s, usually 1m 00s")
    assert (found.in_the_way, found.acts, found.expected) == ((), (), None)


def test_what_takes_longer_than_usual_and_moves_is_slow(world: World) -> None:
    took(world, 50.0, 60.0, 70.0)
    world.given_running("t", on="w1")
    world.advance(80, heard=["w1"])
    moves(world, 61.0)

    found = why(world, "t")
    assert found.reason is Reason.RUNNING_SLOW
    assert found.verdict == "Running 1m 20s, usually 1m 00s, still making progress (61 %)"


def test_what_says_how_far_it_is_and_moves_no_more_is_stuck(world: World) -> None:
    took(world, 60.0)
    world.given_running("t", on="w1")
    moves(world, 10.0)
    world.advance(130, heard=["w1"])

    found = why(world, "t")
    assert found.reason is Reason.STUCK
    assert "no progress for 2m 10s" in found.verdict
    assert "its worker answers" in found.ruled_out

    moves(world, 11.0)
    assert why(world, "t").reason is Reason.RUNNING_SLOW


def test_what_says_nothing_is_stuck_after_a_multiple_of_what_it_ever_takes(world: World) -> None:
    took(world, 30.0)
    world.given_running("t", on="w1")
    world.advance(60, heard=["w1"])
    assert why(world, "t").reason is Reason.RUNNING_SLOW

    world.advance(60, heard=["w1"])
    assert why(world, "t").reason is Reason.STUCK


def test_what_its_owner_was_told_of_is_slow(world: World) -> None:
    world.given_running("t", on="w1", soft_timeout_seconds=5.0, timeout_seconds=1_000.0)
    world.advance(6, heard=["w1"])

    assert why(world, "t").reason is Reason.RUNNING_SLOW


def test_a_silent_worker_says_until_when_it_is_waited_for(world: World) -> None:
    world.given_running("t", on="w1")
    world.advance(12)

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (Reason.WORKER_LOST, ["w1"])
    assert found.verdict.startswith("w1 has not answered for 12s; in 3.0s it counts as lost")

    world.settle(world.say(happened.WorkerBeat, "w1"))
    assert why(world, "t").reason is None


def test_what_is_not_acknowledged_starts_slowly(world: World) -> None:
    settled(world, w1=1)
    world.submit(job(task("t")))
    assert why(world, "t").reason is None
    world.advance(6, heard=["w1"])

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (Reason.STARTING_SLOW, ["w1"])
    assert "not acknowledged" in found.verdict

    world.start("t")
    assert why(world, "t").reason is None


def test_what_shares_a_room_waits_for_those_before_it(world: World) -> None:
    settled(world, w1=1)
    world.submit(job(*(short(f"t{number}") for number in range(40))))
    held = [one for one in world.ledger.tasks.values() if one.state is S.ASSIGNED]
    first, second = held[0], held[1]
    world.start(first.id)
    world.advance(8, heard=["w1"])

    found = why(world, second.id)
    assert (found.reason, blockers(found)) == (None, [first.id])


def test_what_is_being_cancelled_says_by_whom(world: World) -> None:
    run = world.given_running("t", on="w1")
    world.act(happened.CancelTask, run, task="t")

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (None, ["ann"])
    assert found.verdict.startswith("Is being stopped (cancelled by ann)")


def test_what_failed_alike_everywhere_waits_for_a_person(world: World) -> None:
    run = world.submit(job(task("t", max_attempts=9, retry_delay_seconds=1.0)))
    for name in ("w1", "w2", "w3"):
        world.register(name)
        world.start("t")
        world.fail("t", error='{"type":"KeyError","message":"price"}')
        world.settle(happened.CordonWorker(worker=name, by="ann"))
        world.advance(300, heard=list(world.workers))

    found = why(world, "t")
    assert (found.reason, blockers(found)) == (Reason.QUARANTINED, ["w1", "w2", "w3"])
    assert found.verdict.startswith("Failed alike on 3 workers (")
    assert "KeyError" in found.verdict

    world.act(happened.ClearTask, run, task="t")
    assert why(world, "t").reason is not Reason.QUARANTINED


def test_what_is_over_says_so(world: World) -> None:
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
    assert (found.reason, found.gates, found.in_the_way, found.acts) == (Reason.SCHEDULER_LAG, (), (), ())
    assert found.verdict.startswith("The scheduler is 22s behind")
    assert found.expected is not None
    assert found.expected.foresight is Foresight.CANNOT_SAY


def test_what_nothing_known_holds_is_unknown_and_blames_nobody(world: World) -> None:
    """The scheduler has not tried it, as far as its record goes, for longer than a turn ever takes."""
    settled(world, w1=1)
    world.submit(wide(2))
    queues, task_id = world.shard.memory.queues, world.task("t1").id
    queues.unpark(list(queues.parked))
    assert why(world, "t1").reason is None

    found = diagnose(world.shard.memory, task_id, world.now + timedelta(seconds=STALE_SECONDS + 30))
    assert found is not None
    assert found.reason is Reason.UNKNOWN
    assert (found.in_the_way, found.others_in_the_way, found.ruled_out, found.acts) == ((), 0, (), ())
    assert found.verdict == "The scheduler has not placed this task for 40s; no cause can be named"
