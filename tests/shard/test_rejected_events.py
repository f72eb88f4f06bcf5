"""One bad value never stops a shard: a failing event is recorded, its owner held, the others continue."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.core.model.alerts import Alert, AlertKind
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.run import RunState
from mainspring.core.model.task import AttemptEnd, TaskState
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.wire import Outcome, Verdict
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import ONE_CORE, chain, fan, job, task, wide
from tests.shard.world import World

S = TaskState


def test_a_bad_result_quarantines_its_task_with_the_verdict_rejected(world: World) -> None:
    """STA-1: only a person leads out of it."""
    run = world.given_running("extract", on="w1")
    other = world.given_run(task("other"))
    (_, attempt) = world.holder("extract")

    world.reject(world.result("extract", Outcome.SUCCEEDED, output="1"), "its output is bad")

    assert world.task("extract").state is S.QUARANTINED
    assert world.task("extract").because == "its output is bad"
    assert world.verdicts("w1")[attempt] is Verdict.REJECTED
    assert world.ledger.attempts[attempt].end is AttemptEnd.REJECTED
    assert world.run(run).state is RunState.PAUSED
    world.settle()
    world.run_through("other", of=other)
    assert world.run(other).state is RunState.SUCCEEDED


def test_a_rejected_event_is_recorded_and_raises_an_alert(world: World) -> None:
    """L-4: what is held is visible."""
    world.given_running("extract", on="w1")
    event = world.result("extract", Outcome.SUCCEEDED, output='"\\u0000"')

    world.reject(event, "it has a NUL: \0")

    (record,) = world.ledger.rejected
    assert record.kind == "AttemptEnded"
    assert record.subject == event.attempt
    assert "\0" not in record.fault
    assert "\\u0000" not in record.event
    assert msgspec.json.decode(record.event)
    found = [msgspec.json.decode(row.payload, type=Alert) for row in world.ledger.outbox if row.kind == "alert"]
    assert {alert.kind for alert in found} == {AlertKind.EVENT_REJECTED, AlertKind.QUARANTINED}
    (alert,) = [alert for alert in found if alert.kind is AlertKind.EVENT_REJECTED]
    assert (alert.details["record"], alert.details["subject"]) == (record.id, event.attempt)


def test_the_record_of_an_event_is_bounded(world: World) -> None:
    """SEC-6: a megabyte of output is not stored twice."""
    world.given_running("extract", on="w1")

    world.reject(world.result("extract", Outcome.SUCCEEDED, output=f'"{"x" * 1_000_000}"'), "y" * 5_000)

    (record,) = world.ledger.rejected
    assert len(record.event) < 20_000
    assert len(record.fault) <= 1_000


def test_a_lone_surrogate_in_an_event_can_be_recorded(world: World) -> None:
    """No store accepts one, and the record has none."""
    world.given_running("extract", on="w1")

    world.reject(world.result("extract", Outcome.SUCCEEDED, output='"\ud800"'), "a lone surrogate: \ud800")

    (record,) = world.ledger.rejected
    assert record.event.encode()
    assert record.fault.encode()
    assert world.task("extract").because.encode()


def test_a_repeated_rejected_result_gets_the_verdict_rejected_again(world: World) -> None:
    """STA-2: the first answer may have been lost."""
    world.given_running("extract", on="w1")
    event = world.result("extract", Outcome.SUCCEEDED)
    (_, attempt) = world.holder("extract")
    world.reject(event, "bad")
    world.workers["w1"].told.clear()

    world.settle(event)

    assert world.verdicts("w1") == {attempt: Verdict.REJECTED}


@pytest.mark.parametrize("kind", [happened.AttemptStarted, happened.AttemptReturned])
def test_other_reports_quarantine_their_task_as_well(world: World, kind: type[happened.WorkerEvent]) -> None:
    """Any report of an attempt has its task as the owner."""
    world.register("w1")
    world.given_run(task("extract"))
    (worker, attempt) = world.holder("extract")

    world.reject(world.say(kind, worker, attempt=attempt), "bad")

    assert world.task("extract").state is S.QUARANTINED


def test_a_worker_whose_process_may_still_run_is_told_to_stop_it(world: World) -> None:
    """LIV-5: the attempt has ended and the capacity is free; the process must end."""
    world.given_running("extract", on="w1")
    (worker, attempt) = world.holder("extract")

    world.reject(happened.TimerDue(kind=happened.TimerKind.TASK_LIMIT, subject=world.task("extract").id), "bad")

    assert world.task("extract").state is S.QUARANTINED
    assert world.stops(worker) == [(attempt, 0.0)]


def test_a_bad_report_of_another_worker_does_not_touch_the_task(world: World) -> None:
    """I-13: w2 can't have w1's task quarantined."""
    world.given_running("extract", on="w1")
    world.register("w2")
    (_, attempt) = world.holder("extract")
    bad = world.say(
        happened.AttemptEnded, "w2", attempt=attempt, outcome=Outcome.SUCCEEDED, output="{", error=None
    )  # fmt: skip

    world.settle(happened.EventNotStorable(event=bad, fault="its output is not JSON"))

    assert world.task("extract").state is S.RUNNING
    assert world.verdicts("w2") == {attempt: Verdict.REJECTED}
    assert len(world.ledger.rejected) == 1


def test_a_result_found_unstorable_on_receipt_quarantines_its_task(world: World) -> None:
    """It needs no reload."""
    world.given_running("extract", on="w1")
    (_, attempt) = world.holder("extract")
    bad = world.result("extract", Outcome.SUCCEEDED, output="{")

    world.settle(happened.EventNotStorable(event=bad, fault="its output is not JSON"))

    assert world.task("extract").state is S.QUARANTINED
    assert world.verdicts("w1") == {attempt: Verdict.REJECTED}


def test_a_run_that_can_not_be_adopted_is_held_and_leaves_intake(world: World) -> None:
    """Once a person resumes it, it returns to intake."""
    run = world.put_in_intake(chain("a"))

    world.reject(world.arrival(run), "its definition is bad")
    assert world.run(run).held == "its definition is bad"
    assert world.run(run).adopted_at is None
    assert world.ledger.tasks == {}

    assert world.reply(happened.ResumeRun, run) is ActionStatus.DONE
    assert world.run(run).held is None
    world.settle(world.arrival(world.run(run)))
    assert world.task("a").state is S.QUEUED


def test_a_run_whose_definition_can_not_be_read_is_held(world: World) -> None:
    """Others are not concerned."""
    run = world.put_in_intake(chain("a"))
    other = world.put_in_intake(chain("b"))

    world.settle(happened.RunUnreadable(run=run, fault="no such job"), world.arrival(other))

    assert world.run(run).held == "no such job"
    assert world.task("b").state is S.QUEUED


def test_a_shape_whose_placement_fails_is_skipped_and_others_are_placed(world: World) -> None:
    """Until a new leader tries it."""
    world.submit(job(task("bad")))
    world.submit(job(task("good", labels={"fast": "yes"})))
    shape = world.shard.memory.shape(world.task("bad"))

    world.reject(happened.PlaceShape(shape=shape), "placing fails")
    world.register("w1", cores=4, labels={"fast": "yes"})
    assert world.task("bad").state is S.QUEUED
    assert world.task("good").state is S.ASSIGNED

    world.reload()
    world.settle()
    assert world.task("bad").state is S.QUEUED

    world.new_leader()
    world.reconnect("w1")
    assert world.task("bad").state is S.ASSIGNED


def test_a_timer_that_fails_quarantines_its_task(world: World) -> None:
    """The retry timer of a delayed task."""
    world.given_running("extract", on="w1", retry_delay_seconds=1.0)
    world.fail("extract")
    waiting = world.task("extract")

    world.reject(happened.TimerDue(kind=happened.TimerKind.RETRY, subject=waiting.id, stamp=waiting.seq), "bad")

    assert world.task("extract").state is S.QUARANTINED
    world.advance(seconds=5, heard=["w1"])
    assert world.task("extract").state is S.QUARANTINED


def test_a_run_limit_that_fails_holds_its_run(world: World) -> None:
    """It rests until a person resumes it."""
    run = world.submit(job(task("a"), timeout_seconds=60))

    world.reject(happened.TimerDue(kind=happened.TimerKind.RUN_LIMIT, subject=run.id), "bad")

    assert world.run(run).held == "bad"
    assert world.run(run).state is RunState.PAUSED


def test_a_failed_step_of_a_bulk_operation_holds_its_run_until_resumed(world: World) -> None:
    """The bulk operation rests, and continues where it stopped."""
    run = world.put_in_intake(wide(100))
    with world.rows_per_turn(40):
        world.turn(world.arrival(run))
        made = len(world.ledger.tasks)
        world.reject(happened.BulkOperationStep(run_id=run.id, kind=BulkOperationKind.ADOPT), "bad")
        world.settle()
        assert len(world.ledger.tasks) == made
        assert world.run(run).state is RunState.PAUSED

        assert world.reply(happened.ResumeRun, run) is ActionStatus.DONE

    assert len(world.ledger.tasks) == 100
    assert set(world.states(run).values()) == {S.QUEUED}


def test_a_failed_propagation_holds_its_run_until_resumed(world: World) -> None:
    """The children are notified once the run is resumed."""
    world.register("w1")
    run = world.submit(fan(100))
    world.start("first")
    with world.rows_per_turn(20):
        world.turn(world.result("first", Outcome.SUCCEEDED))
        world.reject(happened.PropagationStep(run_id=run.id, position=0), "bad")
        world.settle()
        assert world.task("t99").state is S.PENDING

        assert world.reply(happened.ResumeRun, run) is ActionStatus.DONE

    assert all(world.task(f"t{n}").state in (S.QUEUED, S.ASSIGNED) for n in range(100))


def test_a_held_run_is_still_held_for_a_new_leader(world: World) -> None:
    """Held is a column, and its spreads rest."""
    run = world.put_in_intake(wide(100))
    with world.rows_per_turn(40):
        world.turn(world.arrival(run))
        world.reject(happened.BulkOperationStep(run_id=run.id, kind=BulkOperationKind.ADOPT), "bad")
        made = len(world.ledger.tasks)
        world.new_leader()
        world.settle()
        assert len(world.ledger.tasks) == made

        world.action(happened.ResumeRun, run)

    assert len(world.ledger.tasks) == 100


def test_a_failed_action_is_refused_with_the_reason(world: World) -> None:
    """The caller gets the error, and nothing is held."""
    run = world.submit(chain("a"))
    action = world.asked(happened.CancelRun, run)

    world.reject(action, "bad")

    assert (world.answers[action.request_id].reply, world.answers[action.request_id].detail) == (
        ActionStatus.REFUSED,
        "bad",
    )
    assert world.run(run).state is RunState.RUNNING


@pytest.mark.parametrize(
    "event",
    [
        happened.InvariantsDue(),
        happened.StoreLagged(hold=None),
        happened.RunsExpired(run_ids=("run_x",)),
        happened.WorkerHeartbeat(worker="w9", session="w9:1"),
        happened.WorkerRegistered(
            worker="w9", session="w9:1", offer=None, labels={}, zone="", version="", holds=()  # type: ignore[arg-type]
        ),
        happened.AttemptsReceived(worker="w9", session="w9:1", attempts=("att_1",)),
        happened.TaskUndecided(run_id="run_x", position=0),
        happened.AttemptEnded(worker="w9", session="w9:1", attempt="att_1", outcome=Outcome.FAILED),
        happened.PlaceShape(shape=Shape(resources=ONE_CORE)),
    ],
    ids=lambda event: type(event).__name__,
)  # fmt: skip
def test_any_event_can_be_recorded(world: World, event: happened.Event) -> None:
    """Also one that is about nothing we know."""
    world.register("w9")

    world.reject(event, "bad")

    assert [record.kind for record in world.ledger.rejected] == [type(event).__name__]


def test_a_person_clears_a_quarantined_task_and_it_runs_again(world: World) -> None:
    """STA-1: QUARANTINED to QUEUED."""
    run = world.given_running("extract", on="w1")
    world.reject(world.result("extract", Outcome.SUCCEEDED), "bad")

    assert world.reply(happened.ClearTask, run, task="extract") is ActionStatus.DONE
    assert world.path("extract")[-3:] == [S.QUARANTINED, S.QUEUED, S.ASSIGNED]

    world.run_through("extract")
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_task_that_is_not_quarantined_can_not_be_cleared(world: World) -> None:
    """The reply has its state."""
    run = world.submit(chain("a"))

    assert world.reply(happened.ClearTask, run, task="a") is ActionStatus.REFUSED


def test_a_quarantined_task_of_a_paused_run_is_cleared_after_the_resume(world: World) -> None:
    """Nothing of a paused run is queued."""
    run = world.given_running("extract", on="w1")
    world.reject(world.result("extract", Outcome.SUCCEEDED), "bad")
    world.action(happened.PauseRun, run)
    assert world.reply(happened.ClearTask, run, task="extract") is ActionStatus.REFUSED

    world.action(happened.ResumeRun, run)
    assert world.reply(happened.ClearTask, run, task="extract") is ActionStatus.DONE


def test_a_quarantined_task_whose_upstream_is_open_again_waits_for_it_when_cleared(world: World) -> None:
    """I-40: a person retried `a` while `b` was held."""
    world.register("w1", cores=2)
    run = world.submit(chain("a", "b"))
    world.run_through("a")
    world.start("b")
    world.reject(world.result("b", Outcome.SUCCEEDED), "bad")
    world.action(happened.ReopenTask, run, task="a")

    world.action(happened.ClearTask, run, task="b")
    assert world.task("b").state is S.PENDING

    world.run_through("a", "b")
    assert world.run(run).state is RunState.SUCCEEDED


def test_a_bad_result_of_a_run_that_is_being_cancelled_does_not_hold_the_cancel(world: World) -> None:
    """The end was asked for before: there is nothing left for a person to decide."""
    run = world.given_running("extract", on="w1")
    world.action(happened.CancelRun, run)

    world.reject(world.result("extract", Outcome.STOPPED), "bad")

    assert world.task("extract").state is S.CANCELLED
    assert world.run(run).state is RunState.CANCELLED


def test_a_bad_result_of_a_timed_out_run_does_not_hold_its_end(world: World) -> None:
    """The same for a run that timed out."""
    world.register("w1")
    run = world.submit(job(task("a"), timeout_seconds=10))
    world.start("a")
    world.advance(seconds=10, heard=["w1"])

    world.reject(world.result("a", Outcome.STOPPED), "bad")

    assert world.run(run).state is RunState.TIMED_OUT


def test_a_run_with_a_quarantined_task_continues_with_the_others(world: World) -> None:
    """STA-5: it is PAUSED only when nothing else can move."""
    world.register("w1", cores=2)
    run = world.submit(job(task("a"), task("b"), task("c", "b")))
    world.start("a", "b")
    world.reject(world.result("a", Outcome.SUCCEEDED), "bad")
    assert world.run(run).state is RunState.RUNNING

    world.succeed("b")
    world.run_through("c")
    assert world.run(run).state is RunState.PAUSED


def test_a_quarantined_task_whose_upstream_was_cancelled_since_is_cancelled_when_cleared(world: World) -> None:
    """I-40: it was ready once; then its upstream was retried, and the retry cancelled by a person."""
    world.register("w1", cores=2)
    run = world.submit(chain("a", "b"))
    world.run_through("a")
    world.start("b")
    world.reject(world.result("b", Outcome.SUCCEEDED), "bad")
    world.action(happened.ReopenTask, run, task="a")
    world.action(happened.CancelTask, run, task="a")
    world.give_back("a")
    assert world.task("a").state is S.CANCELLED

    world.action(happened.ClearTask, run, task="b")

    assert world.task("b").state is S.CANCELLED
    assert world.run(run).state is RunState.CANCELLED
