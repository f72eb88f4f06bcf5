"""Silent workers and reconnects (LIV-1, LIV-3, LIV-5, LIV-6)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import AttemptEnd, TaskState
from mainspring.core.model.worker import WorkerStatus
from mainspring.protocol.wire import Outcome, Verdict, Welcome
from mainspring.shard import events as happened
from tests.shard.jobs import job, task, wide
from tests.shard.world import World

S = TaskState


def test_a_silent_worker_loses_its_task_when_the_lease_ends_and_not_before(world: World) -> None:
    """LIV-1: w1 gets `extract` and is silent from then on."""
    world.given_running("extract", on="w1")

    world.advance(seconds=14)
    assert world.task("extract").state is S.RUNNING

    world.advance(seconds=1)
    assert world.task("extract").state is S.QUEUED
    assert world.task("extract").because == "w1 was silent for 15 s"


def test_a_worker_with_heartbeats_keeps_its_task(world: World) -> None:
    """LIV-1: fifteen seconds of silence are needed, not fifteen seconds."""
    world.given_running("extract", on="w1")

    world.advance(seconds=120, heard=["w1"])

    assert world.task("extract").state is S.RUNNING


def test_a_silent_worker_gets_nothing_new_after_ten_seconds(world: World) -> None:
    """LIV-1: suspect means that it keeps what it has and gets nothing more."""
    world.register("w1", cores=2)
    world.advance(seconds=9)
    world.given_run(task("early"))
    assert world.task("early").worker_id == "w1"

    world.advance(seconds=1)
    world.given_run(task("late"))
    assert world.task("late").state is S.QUEUED
    assert world.shard.memory.workers["w1"].status is WorkerStatus.SUSPECT


def test_a_suspect_worker_gets_work_after_its_next_heartbeat(world: World) -> None:
    """LIV-1: a beat is enough to be trusted again."""
    world.register("w1")
    world.advance(seconds=12)
    world.given_run(task("a"))
    assert world.task("a").state is S.QUEUED

    world.settle(world.say(happened.WorkerHeartbeat, "w1"))

    assert world.task("a").worker_id == "w1"


@pytest.mark.parametrize("report", ["received", "started", "ended"])
def test_every_report_counts_as_a_heartbeat(world: World, report: str) -> None:
    """LIV-1: a worker that reports need not beat."""
    world.register("w1", cores=2)
    world.given_run(task("a"))
    world.given_run(task("b"))
    world.start("b")
    world.advance(seconds=9)

    {"received": lambda: world.receive("a"), "started": lambda: world.start("a"), "ended": lambda: world.succeed("b")}[
        report
    ]()
    world.advance(seconds=9)

    assert world.task("a").worker_id == "w1"


def test_a_stall_of_the_shard_expires_nothing(world: World) -> None:
    """LIV-1, I-16, I-42: a turn counts for two seconds at most, however long we slept."""
    world.given_running("extract", on="w1")

    for _ in range(7):
        world.now += timedelta(hours=1)
        world.settle()
    assert world.task("extract").state is S.RUNNING

    world.now += timedelta(hours=1)
    world.settle()
    assert world.task("extract").state is S.QUEUED


def test_a_clock_that_goes_back_counts_for_nothing(world: World) -> None:
    """LIV-1, I-15: lengths don't shrink with the store's clock."""
    world.given_running("extract", on="w1")
    world.advance(seconds=8)

    world.now -= timedelta(hours=1)
    world.settle()
    world.advance(seconds=6)
    assert world.task("extract").state is S.RUNNING

    world.advance(seconds=1)
    assert world.task("extract").state is S.QUEUED


def test_an_unacknowledged_assignment_is_requeued_after_thirty_seconds(world: World) -> None:
    """LIV-3: w1 is alive, but never got `extract`."""
    world.register("w1")
    world.given_run(task("extract"))
    (_, attempt) = world.holder("extract")

    world.advance(seconds=29, heard=["w1"])
    assert world.holder("extract") == ("w1", attempt)

    world.advance(seconds=1, heard=["w1"])
    assert world.ledger.attempts[attempt].end is AttemptEnd.RETURNED
    assert (attempt, 0.0) in world.stops("w1")
    assert world.task("extract").attempt_id != attempt


def test_a_worker_that_acknowledges_nothing_gets_no_work_until_it_registers_again(world: World) -> None:
    """LIV-3: otherwise the best worker for a task could be one that never receives it."""
    world.register("w1")
    world.given_run(task("extract"))
    world.advance(seconds=30, heard=["w1"])
    assert world.task("extract").state is S.QUEUED

    world.register("w1")
    assert world.holder("extract")[0] == "w1"


def test_an_acknowledged_assignment_may_wait_longer(world: World) -> None:
    """LIV-3: the acknowledgment is enough, even long before the start."""
    world.register("w1")
    world.given_run(task("extract"))
    (_, attempt) = world.holder("extract")
    world.receive("extract")

    world.advance(seconds=90, heard=["w1"])

    assert world.holder("extract") == ("w1", attempt)


def test_receipt_and_silence_timers_can_fire_together(world: World) -> None:
    """LIV-1, LIV-3: the worker falls silent so that both timers are due in one turn."""
    world.register("w1")
    world.given_run(task("extract"))
    world.advance(seconds=14.5, heard=["w1"])
    world.advance(seconds=14)

    world.now += timedelta(seconds=1.5)
    world.settle()

    assert world.task("extract").state is S.QUEUED
    assert "w1" not in world.shard.memory.workers


def test_an_unacknowledged_assignment_is_requeued_after_a_reload(world: World) -> None:
    """LIV-3: the thirty seconds outlive a reload within the term."""
    world.register("w1")
    world.given_run(task("extract"))
    (_, attempt) = world.holder("extract")
    world.advance(seconds=5, heard=["w1"])

    world.reload()
    world.advance(seconds=35, heard=["w1"])

    assert world.ledger.attempts[attempt].end is AttemptEnd.RETURNED


def test_a_lost_worker_that_returns_is_told_to_stop_reassigned_attempts(world: World) -> None:
    """LIV-5: its work has been reassigned in the meantime."""
    world.given_running("extract", on="w1")
    (_, attempt) = world.holder("extract")
    world.advance(seconds=15)
    world.register("w2")
    world.start("extract")

    world.reconnect("w1")

    assert (attempt, 0.0) in world.stops("w1")
    assert world.task("extract").worker_id == "w2"


def test_a_late_result_is_kept_and_changes_nothing(world: World) -> None:
    """LIV-5, I-52: w1 finishes what was started again on w2."""
    world.given_running("extract", on="w1")
    (_, attempt) = world.holder("extract")
    world.advance(seconds=15)
    world.register("w2")
    world.start("extract")
    world.reconnect("w1")

    ended = world.say(
        happened.AttemptEnded, "w1", attempt=attempt, outcome=Outcome.SUCCEEDED, output='"late"', error=None
    )
    world.settle(ended)

    assert world.verdicts("w1")[attempt] is Verdict.SUPERSEDED
    assert [late.output for late in world.ledger.late] == ['"late"']
    assert world.task("extract").state is S.RUNNING


def test_a_repeated_result_gets_the_verdict_already(world: World) -> None:
    """STA-2: the first answer may have been lost."""
    world.given_running("extract", on="w1")
    report = world.result("extract", Outcome.SUCCEEDED)
    (_, attempt) = world.holder("extract")
    world.settle(report)
    assert world.verdicts("w1")[attempt] is Verdict.APPLIED

    world.settle(report)

    assert world.verdicts("w1")[attempt] is Verdict.ALREADY
    assert world.path("extract").count(S.SUCCEEDED) == 1


def test_a_result_of_an_unknown_attempt_gets_the_verdict_unknown(world: World) -> None:
    """I-54: a store that lost a moment may have forgotten it."""
    world.register("w1")
    world.settle(
        world.say(
            happened.AttemptEnded, "w1", attempt="att_0", outcome=Outcome.SUCCEEDED, output=None, error=None
        )
    )  # fmt: skip

    assert world.verdicts("w1") == {"att_0": Verdict.UNKNOWN}


@pytest.mark.parametrize("kind", [happened.AttemptStarted, happened.AttemptReturned])
def test_a_worker_can_not_report_for_another(world: World, kind: type[happened.WorkerEvent]) -> None:
    """I-13: w2 names w1's attempt."""
    world.register("w1")
    world.given_run(task("extract"))
    world.register("w2")
    (_, attempt) = world.holder("extract")

    world.settle(world.say(kind, "w2", attempt=attempt))

    assert world.holder("extract") == ("w1", attempt)
    assert world.task("extract").state is S.ASSIGNED


def test_a_result_from_the_wrong_worker_is_not_applied(world: World) -> None:
    """I-13: it learns that the attempt belongs to another worker."""
    world.given_running("extract", on="w1")
    world.register("w2")
    (_, attempt) = world.holder("extract")

    world.settle(
        world.say(happened.AttemptEnded, "w2", attempt=attempt, outcome=Outcome.FAILED, output=None, error=None)
    )

    assert world.task("extract").state is S.RUNNING
    assert world.verdicts("w2")[attempt] is Verdict.SUPERSEDED


def test_events_of_an_older_session_are_dropped(world: World) -> None:
    """The worker has registered again: only the new session counts."""
    world.register("w1")
    world.given_run(task("extract"))
    (_, attempt) = world.holder("extract")
    old = world.say(happened.AttemptStarted, "w1", attempt=attempt)
    world.reconnect("w1")

    world.settle(old)

    assert world.task("extract").state is S.ASSIGNED
    assert not world.workers["w1"].closed


def test_an_unknown_worker_has_to_register(world: World) -> None:
    """After a loss, a heartbeat of the old session closes the link."""
    world.register("w1")
    world.advance(seconds=15)

    world.settle(world.say(happened.WorkerHeartbeat, "w1"))

    assert world.workers["w1"].closed


def test_a_new_leader_keeps_running_work_and_gets_its_result(world: World) -> None:
    """LIV-6: w1 registers with what it runs, and continues."""
    world.given_running("extract", on="w1")
    (_, attempt) = world.holder("extract")

    world.new_leader()
    world.advance(seconds=14)
    world.reconnect("w1")
    assert world.stops("w1") == []
    assert [type(message) for message in world.workers["w1"].told] == [Welcome]

    world.succeed("extract")
    assert world.verdicts("w1") == {attempt: Verdict.APPLIED}
    assert world.path("extract").count(S.RUNNING) == 1


def test_a_new_leader_requeues_only_after_the_grace(world: World) -> None:
    """LIV-6, I-16: fifteen seconds of its own listening, not of the old leader's."""
    world.given_running("extract", on="w1")
    world.advance(seconds=10)

    world.new_leader()
    world.advance(seconds=14)
    assert world.task("extract").state is S.RUNNING

    world.advance(seconds=1)
    assert world.task("extract").state is S.QUEUED


def test_a_new_leader_requeues_what_the_worker_does_not_hold(world: World) -> None:
    """LIV-6: the worker registers, and does not hold `extract`."""
    world.given_running("extract", on="w1")
    world.new_leader()

    world.reconnect("w1", holds=())

    assert world.path("extract")[-2:] == [S.QUEUED, S.ASSIGNED]
    assert world.task("extract").losses == 1


def test_a_completion_that_happened_before_the_take_over_is_never_run_again(world: World) -> None:
    """LIV-6: the worker still has the result, and lists it in `holds`."""
    run = world.given_running("extract", on="w1")
    world.new_leader()

    world.reconnect("w1")
    world.succeed("extract", output="7")

    assert world.run(run).state is RunState.SUCCEEDED
    assert world.path("extract").count(S.ASSIGNED) == 1


def test_a_task_that_is_lost_three_times_fails(world: World) -> None:
    """RTY-5: losses do not count as attempts, and have their own limit. One flapping worker proves nothing."""
    run = world.submit(job(task("extract", max_attempts=1)))
    world.register("w1")
    for _ in range(3):
        world.start("extract")
        world.advance(seconds=15)
        world.reconnect("w1", holds=())

    assert world.task("extract").state is S.FAILED
    assert world.task("extract").because == "infrastructure: worker lost 3 times"
    assert world.task("extract").tries == 0
    assert world.run(run).state is RunState.FAILED


def test_an_assignment_that_never_started_is_not_counted_as_a_loss(world: World) -> None:
    """RTY-5: w1 is lost before it started anything."""
    world.register("w1")
    world.given_run(task("extract"))

    world.advance(seconds=15)

    assert world.task("extract").losses == 0
    assert world.task("extract").state is S.QUEUED


def test_a_lost_worker_releases_all_of_its_capacity(world: World) -> None:
    """I-65: three leases, one of them not started."""
    world.register("w1", cores=3)
    run = world.submit(wide(3))
    world.start("t0", "t1", of=run)

    world.advance(seconds=15)
    assert not world.shard.memory.leases

    world.register("w2", cores=3)
    assert {one.worker_id for one in world.ledger.tasks_of(run.id)} == {"w2"}
