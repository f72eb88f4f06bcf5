"""Windows are decided as time passes and runs end (TRG-4, TRG-5, TRG-8, TRG-10, TRG-12)."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import EvaluationBatch
from mainspring.core.model.task import Priority
from mainspring.core.schedules import schedule_actions
from mainspring.core.schedules.evaluate import (
    Ended,
    FileProbeResult,
    record_file_probe,
    record_run_ends,
    record_run_ends_only,
)
from mainspring.core.schedules.evaluation import CANCEL_RUN, pause_broken
from mainspring.core.schedules.schedule_spec import After, Condition, Overlap
from mainspring.core.schedules.start_policy import MAX_WAITING
from mainspring.core.schedules.triggers import CronTrigger, ManualTrigger
from mainspring.core.schedules.windows import Outcome, jitter
from mainspring.protocol.errors import Broken
from tests.core.builders import NOON
from tests.core.schedule_evaluations import FakeServer, a_spec, act

O = Outcome  # noqa: E741 - read as in a table
S = RunState
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
STORM = CronTrigger(cron="* * * * * *")


def test_a_window_becomes_a_run() -> None:
    """With all settings of its schedule, in the same decision as the fire and the next time."""
    desk = FakeServer(a_spec(params=msgspec.Raw(b'{"day":1}'), priority=Priority.P0))
    assert (desk.row.planned_through, desk.row.next_at) == (NOON, NOON + HOUR)
    decision = desk.due(NOON + HOUR + SECOND)
    [fire], [run] = decision.fires, decision.runs
    assert (fire.window_at, fire.outcome, fire.because, fire.run_id) == (NOON + HOUR, O.RAN, "on time", run.id)
    assert (run.schedule_id, run.window_at, run.params, run.priority) == ("sched_1", NOON + HOUR, '{"day":1}', 0)
    assert (run.watched, run.job_id, run.submitted_by, run.start_at) == (
        True, "job_1", "schedule:hourly", NOON + HOUR + SECOND,
    )  # fmt: skip
    assert (desk.row.planned_through, desk.row.next_at) == (NOON + HOUR, NOON + 2 * HOUR)
    assert desk.due(NOON + HOUR + 2 * SECOND).fires == ()


def test_jitter_delays_the_run_and_not_the_window() -> None:
    """TRG-6: also if the window had to wait for a while."""
    desk = FakeServer(a_spec(jitter_seconds=300))
    desk.due(NOON + HOUR)
    assert desk.runs[0].start_at == NOON + HOUR + jitter("sched_1", NOON + HOUR, 300)
    desk.due(NOON + 2 * HOUR)
    desk.end(S.SUCCEEDED, NOON + 3 * HOUR - SECOND)
    assert desk.runs[1].start_at == NOON + 3 * HOUR - SECOND


@pytest.mark.parametrize(("own", "default", "seconds"), [(300, 0, 300), (None, 300, 300), (0, 300, 0)])
def test_jitter_delays_the_start(own: int | None, default: int, seconds: int) -> None:
    """The schedule's own, or the server's if it has none; 0 switches it off."""
    desk = FakeServer(a_spec(jitter_seconds=own))
    desk.context = msgspec.structs.replace(desk.context, default_jitter_seconds=default)
    desk.due(NOON + HOUR)
    assert [(run.window_at, run.start_at) for run in desk.runs] == [
        (NOON + HOUR, NOON + HOUR + jitter("sched_1", NOON + HOUR, seconds))
    ]


@pytest.mark.parametrize(
    ("overlap", "outcomes", "runs"),
    [
        (Overlap.QUEUE, [O.RAN, O.WAITING, O.WAITING], 1),
        (Overlap.SKIP, [O.RAN, O.SKIPPED, O.SKIPPED], 1),
        (Overlap.CANCEL_RUNNING, [O.RAN, O.SKIPPED, O.WAITING], 1),
    ],
)
def test_overlap_policies_with_an_active_run(overlap: Overlap, outcomes: list[Outcome], runs: int) -> None:
    """TRG-12: three windows, and the first run takes long."""
    desk = FakeServer(a_spec(overlap=overlap))
    for hour in (1, 2, 3):
        desk.due(NOON + hour * HOUR)
    assert desk.outcomes() == outcomes
    assert len(desk.runs) == runs
    assert [one.kind for one in desk.sent] == ([CANCEL_RUN] if overlap is Overlap.CANCEL_RUNNING else [])


def test_the_end_of_a_run_lets_the_next_window_start() -> None:
    """One at a time, oldest first."""
    desk = FakeServer(a_spec())
    for hour in (1, 2, 3):
        desk.due(NOON + hour * HOUR)
    desk.end(S.SUCCEEDED, NOON + 3 * HOUR + SECOND)
    assert desk.outcomes() == [O.RAN, O.RAN, O.WAITING]
    second = desk.sorted_fires()[1]
    assert (second.because, desk.sorted_fires()[0].run_state) == ("waited 3601 s", S.SUCCEEDED)
    desk.end(S.CANCELLED, NOON + 3 * HOUR + 2 * SECOND)
    assert desk.outcomes() == [O.RAN, O.RAN, O.RAN]
    assert not desk.row.has_waiting_windows


def test_recording_an_end_is_idempotent() -> None:
    """The outbox delivers at least once."""
    desk = FakeServer(a_spec(max_consecutive_failures=2))
    desk.due(NOON + HOUR)
    first = desk.end(S.FAILED, NOON + HOUR + SECOND)
    before = dict(desk.fires)
    desk.end(S.FAILED, NOON + HOUR + SECOND, run_id=first.fires[0].run_id)
    assert desk.fires == before
    assert desk.row.enabled


def test_an_unchanged_waiting_window_is_not_written() -> None:
    """A sweep of waiting windows costs no rows."""
    desk = FakeServer(a_spec())
    desk.due(NOON + HOUR)
    desk.due(NOON + 2 * HOUR)
    decision = desk.sweep(NOON + 2 * HOUR + SECOND)
    assert (decision.fires, decision.schedule.evaluated_at) == ((), NOON + 2 * HOUR + SECOND)


def test_a_cancelled_run_lets_the_newest_window_start() -> None:
    """TRG-12: it is asked once, and the newest window starts when it has ended."""
    desk = FakeServer(a_spec(overlap=Overlap.CANCEL_RUNNING))
    desk.due(NOON + HOUR)
    desk.due(NOON + 2 * HOUR)
    desk.sweep(NOON + 2 * HOUR + SECOND)
    assert [one.kind for one in desk.sent] == [CANCEL_RUN]
    assert desk.sorted_fires()[0].stopping
    desk.end(S.CANCELLED, NOON + 2 * HOUR + 2 * SECOND)
    assert desk.outcomes() == [O.RAN, O.RAN]


def test_a_storm_leaves_a_handful_of_rows() -> None:
    """Every second, an hour of outage: three are caught up and one is on time. A run that hangs fills no store."""
    desk = FakeServer(a_spec(STORM))
    desk.due(NOON + HOUR)
    assert [fire.count for fire in desk.sorted_fires()] == [3596, 1, 1, 1, 1]
    assert desk.outcomes() == [O.SKIPPED, O.RAN, O.WAITING, O.WAITING, O.WAITING]
    for second in range(1, 2 * MAX_WAITING):
        desk.due(NOON + HOUR + second * SECOND)
    assert desk.outcomes().count(O.WAITING) == MAX_WAITING
    assert "100 windows" in desk.latest().because
    assert len(desk.runs) == 1


def test_windows_that_wait_for_an_upstream_job_are_limited() -> None:
    """The limit is the same for every gate."""
    desk = FakeServer(a_spec(STORM, after=After(job="extract", within_seconds=60)))
    for second in range(2 * MAX_WAITING):
        desk.due(NOON + second * SECOND)
    assert desk.outcomes().count(O.WAITING) == MAX_WAITING


def test_after_the_window_of_another_job() -> None:
    """TRG-8: the run of the upstream job's latest window decides."""
    other = FakeServer(a_spec(CronTrigger(cron="30 * * * *"), job="extract"), name="sched_0")
    desk = FakeServer(a_spec(after=After(job="extract")))
    desk.other = other
    assert desk.row.after_job == "extract"
    other.due(NOON + HOUR / 2)
    desk.due(NOON + HOUR)
    assert (desk.latest().outcome, "2026-01-01T12:30:00Z" in desk.latest().because) == (O.WAITING, True)
    other.end(S.SUCCEEDED, NOON + HOUR + SECOND)
    desk.sweep(NOON + HOUR + 2 * SECOND)
    assert desk.outcomes() == [O.RAN]

    other.due(NOON + 1.5 * HOUR)
    other.end(S.FAILED, NOON + 1.6 * HOUR)
    desk.end(S.SUCCEEDED, NOON + 1.7 * HOUR)
    desk.due(NOON + 2 * HOUR)
    assert (desk.latest().outcome, desk.latest().because) == (
        O.SKIPPED, "extract's window 2026-01-01T13:30:00Z ended FAILED",
    )  # fmt: skip


def test_a_window_that_was_never_planned_is_not_waited_for() -> None:
    """The other schedule was created, or was paused, after its time."""
    desk = FakeServer(a_spec(after=After(job="extract")))
    desk.other = FakeServer(a_spec(CronTrigger(cron="30 * * * *"), job="extract"), NOON + 0.9 * HOUR, name="sched_0")
    desk.due(NOON + HOUR)
    assert (desk.latest().outcome, desk.latest().because) == (
        O.SKIPPED, "extract's window 2026-01-01T12:30:00Z did not run: skipped",
    )  # fmt: skip


def test_after_a_job_without_windows_its_latest_fire_counts() -> None:
    """A job that is started manually, or by an event."""
    other = FakeServer(a_spec(ManualTrigger(), job="extract"), name="sched_0")
    other.trigger(NOON + 0.5 * HOUR, schedule_actions.TriggerCommand(by="ann"))
    desk = FakeServer(a_spec(after=After(job="extract")))
    desk.other = other
    desk.due(NOON + HOUR)
    assert desk.outcomes() == [O.WAITING]
    other.end(S.SUCCEEDED, NOON + HOUR + SECOND)
    desk.sweep(NOON + HOUR + 2 * SECOND)
    assert desk.outcomes() == [O.RAN]


@pytest.mark.parametrize(
    ("expression", "outcome", "named"),
    [
        ("params.rows > 0", O.RAN, ""),
        ("window < '2026-01-01T14'", O.RAN, ""),
        ("params.rows > 9", O.CONDITION_FALSE, "params.rows > 9"),
        ("params.missing > 9", O.CONDITION_FALSE, "`missing`"),
        ("params.rows", O.CONDITION_FALSE, "3"),
    ],
)
def test_a_condition_is_an_expression(expression: str, outcome: Outcome, named: str) -> None:
    """TRG-8: false skips the window, with the reason."""
    desk = FakeServer(a_spec(params=msgspec.Raw(b'{"rows":3}'), condition=Condition(expression=expression)))
    desk.due(NOON + HOUR)
    assert desk.outcomes() == [outcome]
    assert named in desk.latest().because


def test_a_condition_is_a_file() -> None:
    """TRG-8: a worker is asked, once; its answer decides."""
    desk = FakeServer(a_spec(condition=Condition(file_exists="/data/ready")))
    desk.due(NOON + HOUR)
    desk.sweep(NOON + HOUR + SECOND)
    assert (desk.outcomes(), len(desk.questions())) == ([O.WAITING], 1)
    assert "/data/ready" in desk.latest().because
    desk.answer(NOON + HOUR + 2 * SECOND, exists=True)
    assert desk.outcomes() == [O.RAN]
    desk.end(S.SUCCEEDED, NOON + 1.5 * HOUR)
    desk.due(NOON + 2 * HOUR)
    desk.answer(NOON + 2 * HOUR + SECOND, exists=False)
    assert (desk.outcomes(), "/data/ready" in desk.latest().because) == ([O.RAN, O.CONDITION_FALSE], True)


def test_a_file_is_probed_when_the_window_could_start() -> None:
    """An old answer does not count: there is no probe while a run is active, and a new one afterwards."""
    desk = FakeServer(a_spec(condition=Condition(file_exists="/data/ready"), max_delay_seconds=7200))
    desk.due(NOON + HOUR)
    desk.answer(NOON + HOUR, exists=True)
    desk.due(NOON + 2 * HOUR)
    assert (len(desk.questions()), desk.latest().outcome) == (1, O.WAITING)
    desk.end(S.SUCCEEDED, NOON + 2.5 * HOUR)
    assert len(desk.questions()) == 2
    desk.sweep(NOON + 5 * HOUR)
    assert desk.latest().outcome is O.LATE
    assert desk.answer(NOON + 5 * HOUR, exists=True).runs == ()


def test_an_answer_to_an_older_probe_is_dropped() -> None:
    """The outbox delivers at least once, and the file may be gone by now."""
    desk = FakeServer(a_spec(condition=Condition(file_exists="/data/ready")))
    desk.due(NOON + HOUR)
    older = FileProbeResult(key=(NOON + HOUR, 1), asked_at=NOON + HOUR, exists=True)
    desk.settle(NOON + 1.1 * HOUR, act(schedule_actions.pause, by="ann"))
    desk.sweep(NOON + 1.1 * HOUR)
    desk.settle(
        NOON + 1.1 * HOUR,
        act(schedule_actions.resume, by="ann"),
    )
    assert len(desk.questions()) == 2
    desk.settle(
        NOON + 1.2 * HOUR, lambda evaluation_batch, context: record_file_probe(evaluation_batch, context, older)
    )
    assert desk.outcomes() == [O.WAITING]
    desk.answer(NOON + 1.2 * HOUR, exists=True)
    assert desk.outcomes() == [O.RAN]


def test_a_missing_job_skips_the_window() -> None:
    """With the reason."""
    desk = FakeServer(a_spec())
    desk.job = None
    desk.due(NOON + HOUR)
    assert (desk.outcomes(), desk.latest().because) == ([O.SKIPPED], "job etl does not exist")


def test_a_failure_streak_disables() -> None:
    """TRG-10: a warning at three, at five it is disabled and waiting windows are skipped; enabled, it counts anew."""
    desk = FakeServer(a_spec(STORM, max_catch_up_windows=100, max_active=3))
    desk.due(NOON + 10 * SECOND)
    for _ in range(4):
        desk.end(S.FAILED, NOON + 11 * SECOND)
    assert (desk.alerts(AlertKind.SCHEDULE_FAILING), desk.row.enabled) == ([False, False], True)
    desk.end(S.TIMED_OUT, NOON + 12 * SECOND)
    assert (desk.row.enabled, desk.row.next_at, desk.row.because) == (False, None, "5 consecutive runs failed")
    assert desk.alerts(AlertKind.SCHEDULE_DISABLED) == [False]
    assert desk.changes[-1].action == "disabled"
    assert not desk.row.has_waiting_windows
    assert (desk.latest().outcome, desk.row.because in desk.latest().because) == (O.SKIPPED, True)
    runs = len(desk.runs)
    desk.end(S.FAILED, NOON + 13 * SECOND)
    assert desk.due(NOON + 60 * SECOND).fires == ()
    assert len(desk.runs) == runs

    desk.settle(NOON + HOUR, act(schedule_actions.resume, by="ann"))
    assert (desk.row.enabled, desk.row.next_at, desk.row.because) == (True, NOON + HOUR + SECOND, "")
    assert desk.alerts(AlertKind.SCHEDULE_DISABLED) == [False, True]
    desk.due(NOON + HOUR + SECOND)
    desk.end(S.FAILED, NOON + HOUR + SECOND)
    assert desk.row.enabled


def test_what_ended_before_it_was_enabled_is_not_counted() -> None:
    """Its end was reported late."""
    desk = FakeServer(a_spec(STORM, max_active=2, max_consecutive_failures=1))
    desk.due(NOON + 2 * SECOND)
    desk.end(S.FAILED, NOON + 3 * SECOND)
    desk.settle(
        NOON + 5 * SECOND,
        act(schedule_actions.resume, by="ann"),
    )
    desk.end(S.FAILED, NOON + 4 * SECOND)
    assert desk.row.enabled


def test_a_paused_schedule_is_never_due() -> None:
    """Taken once, it is not taken again."""
    desk = FakeServer(a_spec())
    desk.row = replace(desk.row, paused=True)
    decision = desk.due(NOON + HOUR)
    assert (decision.schedule.next_at, decision.fires) == (None, ())


def test_a_success_ends_a_failure_streak() -> None:
    """The alert is resolved."""
    desk = FakeServer(a_spec(STORM))
    for second, state in enumerate([S.FAILED, S.FAILED, S.FAILED, S.CANCELLED, S.SUCCEEDED, S.SUCCEEDED], start=1):
        desk.due(NOON + second * SECOND)
        desk.end(state, NOON + second * SECOND)
    assert desk.alerts(AlertKind.SCHEDULE_FAILING) == [False, True]


def test_ends_that_are_reported_together_are_assessed_in_order() -> None:
    """The fifth failure in a row disables, and what ended later changes nothing."""
    desk = FakeServer(a_spec(STORM, max_active=7))
    for second in range(1, 8):
        desk.due(NOON + second * SECOND)
    states = [S.SUCCEEDED, *[S.FAILED] * 5, S.CANCELLED]
    ends = [
        Ended(fire=fire, state=state, at=NOON + (10 + place) * SECOND)
        for place, (fire, state) in enumerate(zip(desk.sorted_fires(), states, strict=True))
    ]
    desk.settle(
        NOON + 60 * SECOND,
        lambda evaluation_batch, context: record_run_ends(evaluation_batch, context, {desk.row.id: ends}),
    )
    assert [fire.run_state for fire in desk.sorted_fires()[: len(states)]] == states
    assert (desk.row.enabled, desk.row.because) == (False, "5 consecutive runs failed")
    assert desk.alerts(AlertKind.SCHEDULE_DISABLED) == [False]


def test_a_due_window_is_recorded_when_failures_disable_the_schedule() -> None:
    """I-31: it was due before the end was reported."""
    desk = FakeServer(a_spec(STORM, max_consecutive_failures=1))
    desk.due(NOON + SECOND)
    desk.end(S.FAILED, NOON + 3 * SECOND)
    fires = [(fire.window_at, fire.count, fire.outcome) for fire in desk.sorted_fires()]
    assert fires[0] == (NOON + SECOND, 1, Outcome.RAN)
    assert sum(count for _, count, _ in fires[1:]) == 2
    assert {outcome for _, _, outcome in fires[1:]} == {Outcome.SKIPPED}
    assert (desk.row.enabled, desk.row.planned_through) == (False, NOON + 3 * SECOND)


def test_the_end_of_a_run_is_recorded_for_a_broken_schedule() -> None:
    """Otherwise it would count as active forever."""
    desk = FakeServer(a_spec())
    desk.due(NOON + HOUR)
    fire = desk.latest()
    desk.row = replace(desk.row, spec="{broken")
    ended = Ended(fire=fire, state=S.FAILED, at=NOON + 2 * HOUR)
    with pytest.raises(Broken):
        desk.settle(
            NOON + 2 * HOUR,
            lambda evaluation_batch, context: record_run_ends(evaluation_batch, context, {desk.row.id: [ended]}),
        )
    desk.settle(
        NOON + 2 * HOUR,
        lambda evaluation_batch, context: record_run_ends_only(evaluation_batch, "broken", {desk.row.id: [ended]}),
    )
    assert (desk.latest().run_state, desk.row.paused) == (S.FAILED, True)


def test_a_schedule_that_waits_for_a_broken_one_waits() -> None:
    """It is not at fault."""
    desk = FakeServer(a_spec(after=After(job="extract")))
    desk.other = FakeServer(a_spec(job="extract"), name="sched_0")
    desk.other.row = replace(desk.other.row, spec="{broken")
    desk.due(NOON + HOUR)
    assert desk.outcomes() == [O.WAITING]


def test_a_broken_schedule_is_paused() -> None:
    """Its owner is alerted; resumed, it continues as after any pause."""
    desk = FakeServer(a_spec())
    whole = desk.row
    desk.row = replace(desk.row, spec="{broken")
    evaluation_batch = EvaluationBatch(now=NOON + HOUR, cases=(desk.case(),))
    [decision] = pause_broken(evaluation_batch, "ValueError('\x00')")
    assert (decision.schedule.paused, decision.schedule.next_at, decision.schedule.spec) == (True, None, "{broken")
    assert "ValueError('\\x00')" in decision.schedule.because
    assert [one.kind for one in decision.outgoing] == ["alert"]
    desk.row = replace(decision.schedule, spec=whole.spec)
    desk.settle(
        NOON + 1.5 * HOUR,
        act(schedule_actions.resume, by="ann"),
    )
    assert (desk.row.next_at, desk.alerts(AlertKind.EVENT_REJECTED)) == (NOON + 2 * HOUR, [True])
