"""Diagnoses of schedules: situations are made by the rules of evaluation, and suggestions change them."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.explain.diagnosis import Diagnosis, ExpectedKind, GateState, Reason, SuggestionKind
from mainspring.core.explain.diagnosis_report import as_plain
from mainspring.core.explain.schedule_diagnosis import ScheduleContext, diagnose_schedule
from mainspring.core.model.batch import DurationRow
from mainspring.core.model.run import RunState
from mainspring.core.schedules import schedule_actions
from mainspring.core.schedules.backfill import BackfillCommand
from mainspring.core.schedules.evaluation import decode_spec
from mainspring.core.schedules.schedule_spec import After, Condition, Overlap
from mainspring.core.schedules.triggers import (
    CronTrigger,
    EventTrigger,
    Expected,
    IntervalTrigger,
    ManualTrigger,
    OnceTrigger,
)
from mainspring.core.schedules.windows import Outcome
from tests.core.builders import NOON
from tests.core.schedule_evaluations import FakeServer, a_spec, act, an_event

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
TEN_MINUTES = DurationRow(
    shard="default", tenant="acme", job="etl", task="", count=20, p50_seconds=600, p90_seconds=900, p99_seconds=1_200,
    samples=(), updated_at=NOON,
)  # fmt: skip


def why(
    desk: FakeServer, now: datetime, *, events: tuple[datetime, ...] = (), duration: DurationRow | None = None
) -> Diagnosis:
    """The diagnosis of a schedule."""
    case, fires = desk.case(), desk.sorted_fires()
    stops = [change for change in desk.changes if change.action in {"paused", "disabled"}]
    backfills = [one for one in case.waiting if one.backfill_id is not None]
    backfill = desk.backfills[backfills[0].backfill_id or ""] if backfills else None
    over = sum(one.run_state is not None and one.backfill_id is not None for one in fires)
    found = diagnose_schedule(
        ScheduleContext(
            schedule=desk.row, spec=decode_spec(desk.row), now=now, waiting=case.waiting, active=case.active,
            latest=fires[-1] if fires else None, backfill=backfill, backfilled=over, other=case.other, events=events,
            stopped=stops[-1] if stops else None, duration=duration, called=desk.row.name,
        )
    )  # fmt: skip
    assert as_plain(found).startswith(f"{found.reason or found.state}  acme/hourly")
    return found


def holding(found: Diagnosis) -> list[str]:
    """The gates that hold it."""
    return [gate.name for gate in found.gates if gate.passed is GateState.HOLDS]


def test_the_next_window_is_given_in_its_time_zone() -> None:
    desk = FakeServer(a_spec(CronTrigger(cron="30 5 * * *", timezone="Europe/Paris")))

    found = why(desk, NOON)

    assert (found.reason, holding(found)) == (Reason.WAITING_TIME, ["due"])
    assert "2026-01-02 05:30:00 Europe/Paris (in 16h 30m)" in found.verdict
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.RANGE
    due = NOON + 16 * HOUR + 30 * MINUTE
    assert (found.expected.earliest, found.expected.latest) == (due, due)
    assert not found.is_problem()
    desk.due(due)
    assert desk.outcomes() == [Outcome.RAN]


def test_the_outcome_of_the_latest_window_is_reported() -> None:
    desk = FakeServer(a_spec(condition=Condition(expression="params.day == 1")))
    desk.due(NOON + HOUR)

    found = why(desk, NOON + HOUR + MINUTE)

    assert found.reason is Reason.WAITING_TIME
    assert "its latest window, 2026-01-01 13:00:00 UTC, did not run: condition" in found.verdict


def test_a_schedule_that_waits_for_an_event_reports_its_usual_interval() -> None:
    desk = FakeServer(a_spec(EventTrigger(type="orders.ready")))
    seen = tuple(NOON - hours * HOUR for hours in (2, 26, 50, 74))

    found = why(desk, NOON, events=seen)

    assert found.reason is Reason.WAITING_EVENT
    assert "usually every 1d 00h" in found.verdict
    assert "mainspring events send orders.ready" in [action.command for action in found.suggestions]
    desk.receive(NOON + MINUTE, an_event(1, NOON + MINUTE))
    assert desk.outcomes() == [Outcome.RAN]


def test_an_event_that_was_never_received_and_one_that_is_expected() -> None:
    never = why(FakeServer(a_spec(EventTrigger(type="orders.ready"))), NOON)
    by_six = FakeServer(
        a_spec(EventTrigger(type="orders.ready", expected=Expected(cron="0 18 * * *", buffer_seconds=600)))
    )

    found = why(by_six, NOON)

    assert "usually" not in never.verdict
    assert never.expected is not None
    assert never.expected.kind is ExpectedKind.UNKNOWN
    assert found.expected is not None
    assert found.expected.latest == NOON + 6 * HOUR + 10 * MINUTE


def test_a_pause_names_its_author_time_reason_and_the_effect_of_resuming() -> None:
    desk = FakeServer(a_spec())
    desk.settle(NOON + MINUTE, act(schedule_actions.pause, by="maria", why="warehouse move"))

    found = why(desk, NOON + 2 * HOUR + MINUTE)

    assert (found.reason, holding(found), found.is_problem()) == (Reason.PAUSED, ["pause"], True)
    assert "maria 2h 00m ago" in found.verdict
    assert "warehouse move" in found.verdict
    assert [one.id for one in found.blockers] == ["maria"]
    [action] = found.suggestions
    assert (action.kind, action.command) == (SuggestionKind.ASK, "mainspring resume hourly")
    assert "2026-01-01 15:00:00 UTC" in action.effect
    desk.settle(NOON + 2 * HOUR + MINUTE, act(schedule_actions.resume, by="ann"))
    assert desk.row.next_at == NOON + 3 * HOUR


def test_a_schedule_disabled_by_failures_is_quarantined_until_it_is_resumed() -> None:
    desk = FakeServer(a_spec(max_consecutive_failures=2))
    for hour in (1, 2):
        desk.due(NOON + hour * HOUR)
        desk.end(RunState.FAILED, NOON + hour * HOUR + MINUTE)

    found = why(desk, NOON + 3 * HOUR)

    assert (found.reason, found.state, holding(found)) == (Reason.QUARANTINED, "disabled", ["enabled"])
    assert found.suggestions[-1].command == "mainspring resume hourly"
    desk.settle(NOON + 3 * HOUR, act(schedule_actions.resume, by="ann"))
    assert why(desk, NOON + 3 * HOUR).reason is Reason.WAITING_TIME


def test_a_schedule_disabled_in_its_definition() -> None:
    found = why(FakeServer(a_spec(enabled=False)), NOON)

    assert (found.reason, found.is_problem()) == (Reason.PAUSED, True)
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.NEVER


def test_a_window_that_waits_for_a_run_names_it_and_its_usual_end() -> None:
    desk = FakeServer(a_spec(overlap=Overlap.QUEUE))
    desk.due(NOON + HOUR)
    desk.due(NOON + 2 * HOUR)
    going = desk.runs[0].id

    found = why(desk, NOON + 2 * HOUR + MINUTE)

    assert (found.reason, holding(found)) == (Reason.CONCURRENCY, ["overlap"])
    assert [one.id for one in found.blockers] == [going]
    assert f"mainspring cancel {going}" in [action.command for action in found.suggestions]
    desk.end(RunState.CANCELLED, NOON + 2 * HOUR + MINUTE)
    assert desk.outcomes() == [Outcome.RAN, Outcome.RAN]


def test_the_end_of_a_blocking_run_is_expected_by_its_usual_duration() -> None:
    desk = FakeServer(a_spec(IntervalTrigger(every_seconds=300)))
    desk.due(NOON + 5 * MINUTE)
    desk.due(NOON + 10 * MINUTE)

    soon = why(desk, NOON + 11 * MINUTE, duration=TEN_MINUTES).expected
    late = why(desk, NOON + 21 * MINUTE, duration=TEN_MINUTES).expected

    assert soon is not None
    assert (soon.earliest, soon.latest) == (NOON + 15 * MINUTE, NOON + 20 * MINUTE)
    assert late is not None
    assert late.kind is ExpectedKind.UNKNOWN


def test_a_window_that_waits_for_an_upstream_job_names_its_run() -> None:
    other = FakeServer(a_spec(job="extract"), name="sched_2")
    desk = FakeServer(a_spec(after=After(job="extract")))
    desk.other = other
    other.due(NOON + HOUR)
    desk.due(NOON + HOUR + SECOND)

    found = why(desk, NOON + HOUR + MINUTE)

    assert (found.reason, holding(found)) == (Reason.WAITING_UPSTREAM, ["after"])
    assert "extract's window 2026-01-01T13:00:00Z" in found.verdict
    assert [one.id for one in found.blockers] == [other.runs[0].id]
    assert found.suggestions[0].command == "mainspring why extract"
    other.end(RunState.SUCCEEDED, NOON + HOUR + MINUTE)
    desk.sweep(NOON + HOUR + 2 * MINUTE)
    assert desk.outcomes() == [Outcome.RAN]


def test_an_unblocked_window_starts_unless_no_server_evaluates_it() -> None:
    other = FakeServer(a_spec(job="extract"), name="sched_2")
    desk = FakeServer(a_spec(after=After(job="extract")))
    desk.other = other
    other.due(NOON + HOUR)
    desk.due(NOON + HOUR + SECOND)
    other.end(RunState.SUCCEEDED, NOON + HOUR + 2 * SECOND)

    soon, late = why(desk, NOON + HOUR + 5 * SECOND), why(desk, NOON + HOUR + 2 * MINUTE)

    assert (soon.reason, soon.is_problem()) == (None, False)
    assert (late.reason, late.suggestions) == (Reason.SCHEDULER_LAG, ())


def test_a_window_that_waits_for_a_file_probe() -> None:
    desk = FakeServer(a_spec(condition=Condition(file_exists="/data/ready")))
    desk.due(NOON + HOUR)

    found = why(desk, NOON + HOUR + MINUTE)

    assert (found.reason, holding(found)) == (Reason.WAITING_EVENT, ["condition"])
    assert "/data/ready" in found.verdict
    desk.answer(NOON + HOUR + MINUTE, exists=True)
    assert desk.outcomes() == [Outcome.RAN]


def test_a_backfill_limits_parallel_runs() -> None:
    desk = FakeServer(a_spec())
    request = BackfillCommand(since=NOON - 9 * HOUR, before=NOON, max_parallel=2, by="ann")
    desk.backfill(NOON + MINUTE, request)
    backfilled = [one.run_id for one in desk.sorted_fires() if one.backfill_id and one.run_id]
    desk.end(RunState.SUCCEEDED, NOON + 2 * MINUTE, run_id=backfilled[0])

    found = why(desk, NOON + 3 * MINUTE, duration=TEN_MINUTES)

    assert found.reason is Reason.BACKFILL_THROTTLED
    assert (found.numbers["done"], found.numbers["total"]) == (1, 9)
    assert found.numbers["waiting"] == sum(one.outcome is Outcome.WAITING for one in desk.sorted_fires())
    assert len(found.blockers) == 2
    assert found.suggestions[0].kind is SuggestionKind.WAIT


def test_an_unplanned_window_is_scheduler_lag() -> None:
    desk = FakeServer(a_spec())

    found = why(desk, NOON + HOUR + 40 * SECOND)

    assert (found.reason, holding(found), found.suggestions) == (Reason.SCHEDULER_LAG, ["due"], ())
    assert "40s ago" in found.verdict


def test_a_manual_schedule_and_a_finished_one() -> None:
    manual = why(FakeServer(a_spec(ManualTrigger())), NOON)
    once = FakeServer(a_spec(OnceTrigger(at=NOON + HOUR)))
    once.due(NOON + HOUR)

    over = why(once, NOON + 2 * HOUR)

    assert (manual.reason, manual.is_problem()) == (None, False)
    assert manual.suggestions[0].command == "mainspring trigger hourly"
    assert over.reason is None
    assert over.expected is not None
    assert over.expected.kind is ExpectedKind.NEVER


def test_a_deleted_schedule() -> None:
    desk = FakeServer(a_spec())
    desk.settle(NOON + MINUTE, act(schedule_actions.delete, by="ann", why="not used"))

    found = why(desk, NOON + HOUR)

    assert (found.reason, found.state, found.suggestions) == (None, "deleted", ())
    assert "not used" in found.verdict
