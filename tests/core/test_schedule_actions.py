"""Actions on schedules, and their results (TRG-9, TRG-11, I-34)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import EvaluationBatch, ScheduleDecision
from mainspring.core.schedules import schedule_actions as acts
from mainspring.core.schedules.backfill import BackfillCommand
from mainspring.core.schedules.evaluation import Context
from mainspring.core.schedules.schedule_actions import TriggerCommand
from mainspring.core.schedules.schedule_spec import Overlap, ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Broken, Conflict, Refused
from tests.core.builders import NOON
from tests.core.schedule_evaluations import CONTEXT, FakeServer, a_spec, act, an_event

O = Outcome  # noqa: E741 - read as in a table
S = RunState
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
PAUSE = act(acts.pause, by="ann", why="too loud")
RESUME = act(acts.resume, by="ann")
DELETE = act(acts.delete, by="ann")
ANN = TriggerCommand(by="ann", why="now")


def to(spec: ScheduleSpec, **more: int) -> Callable[[EvaluationBatch, Context], Sequence[ScheduleDecision]]:
    """A change of the definition."""
    return act(acts.change, spec, by="ann", why="better", **more)


def test_a_pause_affects_future_windows_only() -> None:
    """A window that was due before it fires; those during it don't, and nothing is caught up."""
    desk = FakeServer(a_spec())
    desk.settle(NOON + HOUR + SECOND, PAUSE)
    assert desk.outcomes() == [O.RAN]
    assert (desk.row.paused, desk.row.next_at, desk.row.because) == (True, None, "paused by ann: too loud")
    assert desk.due(NOON + 5 * HOUR).fires == ()
    desk.settle(NOON + 5.5 * HOUR, RESUME)
    assert (desk.row.paused, desk.row.next_at, desk.row.because) == (False, NOON + 6 * HOUR, "")
    desk.end(S.SUCCEEDED, NOON + 5.6 * HOUR)
    desk.due(NOON + 6 * HOUR)
    assert [fire.window_at for fire in desk.sorted_fires()] == [NOON + HOUR, NOON + 6 * HOUR]
    assert [change.action for change in desk.changes] == ["created", "paused", "resumed"]


def test_a_waiting_window_keeps_waiting_during_a_pause() -> None:
    """Even if the run it waited for has ended; resumed, it runs."""
    desk = FakeServer(a_spec())
    desk.due(NOON + HOUR)
    desk.due(NOON + 2 * HOUR)
    desk.settle(NOON + 2 * HOUR + SECOND, PAUSE)
    desk.end(S.SUCCEEDED, NOON + 2 * HOUR + 2 * SECOND)
    assert (desk.outcomes(), desk.latest().because) == ([O.RAN, O.WAITING], "the schedule is paused")
    desk.settle(NOON + 3 * HOUR, RESUME)
    assert desk.outcomes() == [O.RAN, O.RAN]


def test_a_change_is_recorded_and_fires_nothing_of_the_past() -> None:
    """I-34: with the version, before and after. Windows due under the old definition fire under it."""
    desk = FakeServer(a_spec())
    before = desk.row.spec
    half_past = a_spec(CronTrigger(cron="30 * * * *"))
    desk.settle(NOON + HOUR + 45 * MINUTE, to(half_past))
    assert [fire.window_at for fire in desk.sorted_fires()] == [NOON + HOUR]
    assert (desk.row.version, desk.row.next_at) == (2, NOON + 2.5 * HOUR)
    change = desk.changes[-1]
    assert (change.action, change.by, change.why, change.version) == ("updated", "ann", "better", 2)
    assert (change.before, change.after) == (before, desk.row.spec)
    desk.settle(NOON + 2 * HOUR, to(half_past))
    assert (desk.row.version, len(desk.changes)) == (2, 2)
    with pytest.raises(Conflict, match="version 2"):
        desk.settle(NOON + 2 * HOUR, to(a_spec(), version=1))
    with pytest.raises(Refused, match="can't be changed"):
        desk.settle(NOON + 2 * HOUR, to(replace(half_past, name="other")))


def test_no_action_moves_the_plan_back() -> None:
    """The clock was a day ahead for a while: windows that ran then do not run again after a change or a resume."""
    desk = FakeServer(a_spec(max_active=9, max_catch_up_windows=9))
    desk.due(NOON + DAY)
    for action in (to(a_spec(max_active=8)), PAUSE, RESUME):
        desk.settle(NOON + HOUR, action)
    assert (desk.row.planned_through, desk.row.next_at) == (NOON + DAY, NOON + DAY + HOUR)


def test_a_change_follows_to_the_columns() -> None:
    """The columns that the store queries follow the definition."""
    desk = FakeServer(a_spec())
    desk.settle(NOON, to(a_spec(EventTrigger(type="x"), job="load")))
    assert (desk.row.event_type, desk.row.job, desk.row.next_at) == ("x", "load", None)


def test_a_definition_can_disable() -> None:
    """Only a definition enables it again; failures are forgotten then."""
    desk = FakeServer(a_spec(enabled=False))
    assert (desk.row.enabled, desk.row.next_at) == (False, None)
    with pytest.raises(Conflict, match="disabled in its definition"):
        desk.settle(NOON + MINUTE, RESUME)
    desk.settle(NOON + 2 * MINUTE, to(a_spec()))
    assert (desk.row.enabled, desk.row.enabled_since, desk.row.next_at) == (True, NOON + 2 * MINUTE, NOON + HOUR)
    desk.due(NOON + HOUR)
    desk.due(NOON + 2 * HOUR)
    desk.settle(NOON + 2 * HOUR, to(a_spec(enabled=False)))
    assert desk.outcomes() == [O.RAN, O.SKIPPED]
    assert (desk.changes[-1].by, desk.changes[-1].why) == ("ann", "better")


def test_a_change_does_not_enable_a_failed_schedule() -> None:
    """Otherwise applying a definition repeatedly would restart it each time."""
    desk = FakeServer(a_spec(max_consecutive_failures=1))
    desk.due(NOON + HOUR)
    desk.end(S.FAILED, NOON + HOUR)
    desk.settle(NOON + HOUR, to(a_spec(max_consecutive_failures=2)))
    assert (desk.row.enabled, desk.row.next_at) == (False, None)
    desk.settle(NOON + HOUR, RESUME)
    assert (desk.row.enabled, desk.changes[-1].action) == (True, "enabled")


def test_deleting_skips_waiting_windows() -> None:
    """Its history and definition stay readable."""
    desk = FakeServer(a_spec())
    desk.due(NOON + HOUR)
    desk.due(NOON + 2 * HOUR)
    desk.settle(NOON + 2 * HOUR + SECOND, DELETE)
    assert (desk.outcomes(), desk.latest().because) == ([O.RAN, O.SKIPPED], "the schedule was deleted")
    assert (desk.row.deleted_at, desk.row.next_at) == (NOON + 2 * HOUR + SECOND, None)
    assert (desk.changes[-1].action, desk.changes[-1].before) == ("deleted", desk.row.spec)


@pytest.mark.parametrize("action", [to(a_spec()), DELETE])
def test_a_definition_that_can_t_be_read_can_be_replaced_or_deleted(
    action: Callable[[EvaluationBatch, Context], Sequence[ScheduleDecision]],
) -> None:
    """Nothing else can be done to it."""
    desk = FakeServer(a_spec())
    desk.row = replace(desk.row, spec='{"name": "hourly"}', paused=True)
    with pytest.raises(Broken):
        desk.settle(NOON + HOUR, RESUME)
    desk.settle(NOON + HOUR, action)
    assert (desk.changes[-1].before, desk.runs) == ('{"name": "hourly"}', [])


def test_triggered_by_hand() -> None:
    """At once, regardless of active runs, also in a pause; twice in one instant are two runs."""
    desk = FakeServer(a_spec(params=msgspec.Raw(b'{"a":1,"b":1}')))
    desk.due(NOON + HOUR)
    desk.settle(NOON + HOUR, PAUSE)
    fire = desk.trigger(NOON + 1.1 * HOUR, replace(ANN, params='{"b":2}'))
    assert (fire.outcome, fire.because, fire.by, fire.generation) == (O.RAN, "triggered by ann: now", "ann", 1)
    assert (desk.runs[-1].submitted_by, desk.runs[-1].params) == ("ann", '{"a":1,"b":2}')
    again = desk.trigger(NOON + 1.1 * HOUR, ANN)
    assert again.window_at == fire.window_at + timedelta(microseconds=1)
    assert (desk.changes[-1].action, desk.row.paused) == ("triggered", True)


def test_triggered_by_hand_in_the_instant_of_a_window() -> None:
    """Both run: the planned window and the requested run."""
    desk = FakeServer(a_spec(max_active=5))
    fire = desk.trigger(NOON + HOUR, ANN)
    assert [one.window_at for one in desk.sorted_fires()] == [NOON + HOUR, fire.window_at]
    assert len(desk.runs) == 2


def test_a_past_window_again() -> None:
    """As its next generation, linked to the run before; a skipped one runs as its own."""
    desk = FakeServer(a_spec(max_catch_up_windows=0), NOON - 5 * HOUR)
    desk.due(NOON)
    first = desk.runs[0]
    fire = desk.trigger(NOON + MINUTE, replace(ANN, window_at=NOON))
    assert (fire.window_at, fire.generation, fire.repeats) == (NOON, 2, first.id)
    assert (desk.runs[-1].linked_run, desk.runs[-1].window_at) == (first.id, NOON)
    skipped = desk.trigger(NOON + MINUTE, replace(ANN, window_at=NOON - 2 * HOUR))
    assert (skipped.generation, desk.runs[-1].linked_run) == (1, None)
    covering = desk.trigger(NOON + MINUTE, replace(ANN, window_at=NOON - 4 * HOUR))
    assert covering.generation == 2
    for window, why in ((NOON + HOUR, "in the future"), (NOON - SECOND, "not a window")):
        with pytest.raises(Refused, match=why):
            desk.trigger(NOON + MINUTE, replace(ANN, window_at=window))


def test_a_named_window_is_validated() -> None:
    """It is converted to UTC."""
    assert acts.check_window(NOON.astimezone(timezone(HOUR))).isoformat() == "2026-01-01T12:00:00+00:00"
    for bad in (NOON.replace(tzinfo=None), datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)):
        with pytest.raises(Refused, match="window_at"):
            acts.check_window(bad)


def test_an_event_again() -> None:
    """The run gets the event that led to the window."""
    desk = FakeServer(a_spec(EventTrigger(type="orders.ready"), max_active=5))
    desk.receive(NOON, an_event(1, NOON))
    fire = desk.trigger(NOON + MINUTE, replace(ANN, window_at=desk.latest().window_at))
    assert (fire.generation, desk.runs[0].params) == (2, desk.runs[1].params)


@pytest.mark.parametrize("params", ["[]", "{", '{"a":1,"a":2}', '{"a": "\\u0000"}'])
def test_parameters_are_an_object(params: str) -> None:
    """That any store accepts."""
    with pytest.raises(Refused):
        FakeServer(a_spec()).trigger(NOON, replace(ANN, params=params))


def test_a_changed_schedule_is_read_again() -> None:
    """The fires that were read may be incomplete: nothing is decided."""
    desk = FakeServer(a_spec())
    read = acts.version_of(desk.row)
    desk.trigger(NOON + MINUTE, ANN)
    evaluation_batch = EvaluationBatch(now=NOON + HOUR, cases=(desk.case(),))
    request = BackfillCommand(since=NOON - DAY, before=NOON, by="ann")
    assert acts.backfill(evaluation_batch, CONTEXT, request, [], id="b", read=read) == ([], None)
    assert acts.trigger_now(evaluation_batch, CONTEXT, replace(ANN, window_at=NOON), read=read) == []


def test_a_backfill_runs_the_past() -> None:
    """TRG-9: limited in parallel, oldest first, excluding windows that ran; overlap and lateness don't apply."""
    desk = FakeServer(a_spec(max_catch_up_windows=0, max_delay_seconds=60), NOON - 5 * HOUR)
    desk.due(NOON)
    desk.backfill(NOON + MINUTE, BackfillCommand(since=NOON - 3 * HOUR, before=NOON + DAY, max_parallel=2, by="ann"))
    assert [run.window_at for run in desk.runs] == [NOON, NOON - 3 * HOUR, NOON - 2 * HOUR]
    assert desk.backfills["backfill_1"].windows == 3
    desk.end(S.FAILED, NOON + 2 * HOUR)
    assert desk.runs[-1].window_at == NOON - HOUR
    assert {fire.because for fire in desk.fires.values() if fire.backfill_id} == {"backfilled"}
    assert desk.changes[-1].action == "backfilled"


def test_a_backfill_does_not_block_planned_windows() -> None:
    """Planned windows run beside it, and none of its runs is cancelled for them."""
    desk = FakeServer(a_spec(), NOON - HOUR / 2)
    desk.backfill(NOON - MINUTE, BackfillCommand(since=NOON - DAY, before=NOON, by="ann"))
    desk.due(NOON)
    assert desk.fires[NOON, 1].outcome is O.RAN


def test_a_backfill_is_not_cancelled() -> None:
    """Its runs are older, but not cancelled for planned windows."""
    desk = FakeServer(a_spec(overlap=Overlap.CANCEL_RUNNING), NOON - HOUR / 2)
    desk.backfill(NOON - MINUTE, BackfillCommand(since=NOON - DAY, before=NOON, by="ann"))
    desk.due(NOON)
    desk.due(NOON + HOUR)
    assert [fire.window_at for fire in desk.sorted_fires() if fire.stopping] == [NOON]


def test_a_backfill_again_is_another_generation() -> None:
    """Of windows that ran, linked to them. Due windows are planned first, so that none runs twice."""
    desk = FakeServer(a_spec(max_active=5), NOON - 2.5 * HOUR)
    desk.due(NOON - HOUR)
    request = BackfillCommand(since=NOON - 2 * HOUR, before=NOON + DAY, max_parallel=5, again=True, by="ann")
    desk.backfill(NOON + SECOND, request)
    assert sorted(desk.fires) == [(NOON - hour * HOUR, number) for hour in (2, 1, 0) for number in (1, 2)]
    second = [run for run in desk.runs if run.linked_run is not None]
    assert {run.linked_run for run in second} == {run.id for run in desk.runs} - {run.id for run in second}


def test_a_backfill_has_bounds() -> None:
    """A request can't fill the store."""
    desk = FakeServer(a_spec(CronTrigger(cron="* * * * *")))
    with pytest.raises(Refused, match="1440 windows"):
        desk.backfill(NOON, BackfillCommand(since=NOON - DAY, before=NOON, by="ann"))
    desk.backfill(NOON, BackfillCommand(since=NOON - DAY / 2, before=NOON, by="ann"))
    with pytest.raises(Conflict, match="80 more windows"):
        desk.backfill(NOON, BackfillCommand(since=NOON - DAY, before=NOON - DAY / 2, by="ann"))
    for bad in (
        BackfillCommand(since=NOON, before=NOON, by="ann"),
        BackfillCommand(since=NOON - DAY, before=NOON, max_parallel=0, by="ann"),
        BackfillCommand(since=NOON.replace(tzinfo=None), before=NOON, by="ann"),
    ):
        with pytest.raises(Refused):
            acts.check_backfill(bad)
