"""Start policy, backfills and failure streaks (TRG-8, TRG-9, TRG-10, TRG-12)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import FireRow
from mainspring.core.schedules.backfill import BackfillCommand, BackfillWindow, decide_backfilled, plan_backfill
from mainspring.core.schedules.failure_streak import Verdict, assess, count_failures
from mainspring.core.schedules.schedule_spec import After, Overlap, ScheduleSpec
from mainspring.core.schedules.start_policy import (
    MAX_WAITING,
    Situation,
    Start,
    StartGate,
    UpstreamWindow,
    decide_start,
)
from mainspring.core.schedules.triggers import CronTrigger
from mainspring.core.schedules.windows import Outcome
from tests.core.builders import NOON

S = RunState
HOUR = timedelta(hours=1)
HOURLY = ScheduleSpec(name="hourly", job="etl", trigger=CronTrigger(cron="0 * * * *"))
FREE = Situation()
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def started(situation: Situation, *, overlap: Overlap = Overlap.QUEUE, max_active: int = 1) -> Start:
    """The decision about the window of noon, at noon."""
    spec = msgspec.structs.replace(HOURLY, overlap=overlap, max_active=max_active)
    return decide_start(spec, NOON, situation, now=NOON)


def gated(start: Start) -> tuple[Outcome, StartGate | None]:
    """Return the outcome of a decision, and its gate."""
    return start.outcome, start.gate


def after_other(other: UpstreamWindow, after: After | None = None) -> Start:
    """The decision with an upstream job."""
    spec = msgspec.structs.replace(HOURLY, after=after or After(job="extract"))
    return decide_start(spec, NOON, Situation(other=other), now=NOON)


@pytest.mark.parametrize("overlap", Overlap)
def test_a_window_that_is_not_blocked_runs(overlap: Overlap) -> None:
    """With fewer active runs than the limit."""
    assert started(FREE, overlap=overlap).outcome is Outcome.RAN
    assert started(Situation(active=2), overlap=overlap, max_active=3).outcome is Outcome.RAN


def test_an_active_run_is_waited_for() -> None:
    """TRG-12: queue. But not by any number of windows."""
    assert gated(started(Situation(active=1))) == (Outcome.WAITING, StartGate.OVERLAP)
    full = started(Situation(active=3, waiting=MAX_WAITING), max_active=3)
    assert gated(full) == (Outcome.SKIPPED, StartGate.OVERLAP)


def test_an_active_run_skips_the_next() -> None:
    """TRG-12: skip, with the reason."""
    found = started(Situation(active=1), overlap=Overlap.SKIP)
    assert gated(found) == (Outcome.SKIPPED, StartGate.OVERLAP)


def test_an_active_run_is_cancelled() -> None:
    """TRG-12: cancel_running. As many as needed, each asked once; the window waits until they have ended."""
    found = started(Situation(active=1), overlap=Overlap.CANCEL_RUNNING)
    assert (found.outcome, found.to_cancel) == (Outcome.WAITING, 1)
    again = started(Situation(active=1, stopping=1), overlap=Overlap.CANCEL_RUNNING)
    assert (again.outcome, again.to_cancel) == (Outcome.WAITING, 0)
    lowered = started(Situation(active=5, stopping=1), overlap=Overlap.CANCEL_RUNNING, max_active=2)
    assert lowered.to_cancel == 3
    overtaken = started(Situation(active=1, has_newer=True), overlap=Overlap.CANCEL_RUNNING)
    assert (overtaken.outcome, overtaken.to_cancel) == (Outcome.SKIPPED, 0)


def test_a_window_that_waited_too_long_is_late() -> None:
    """Regardless of the gate."""
    spec = msgspec.structs.replace(HOURLY, max_delay_seconds=60)
    minute = timedelta(seconds=60)
    assert decide_start(spec, NOON, Situation(active=1), now=NOON + minute).outcome is Outcome.WAITING
    found = decide_start(spec, NOON, FREE, now=NOON + minute + timedelta(microseconds=1))
    assert found == Start(outcome=Outcome.LATE, because="more than 60 s late")


@pytest.mark.parametrize(
    ("other", "outcome", "named"),
    [
        (UpstreamWindow(), Outcome.SKIPPED, "extract"),
        (UpstreamWindow(window_at=NOON - HOUR), Outcome.WAITING, "extract's window 2026-01-01T11:00:00Z"),
        (UpstreamWindow(window_at=NOON, outcome=Outcome.WAITING), Outcome.WAITING, "2026-01-01T12:00:00Z"),
        (
            UpstreamWindow(window_at=NOON, outcome=Outcome.RAN, run_state=S.RUNNING),
            Outcome.WAITING,
            "2026-01-01T12:00:00Z",
        ),
        (UpstreamWindow(window_at=NOON, outcome=Outcome.RAN, run_state=S.SUCCEEDED), Outcome.RAN, ""),
        (UpstreamWindow(window_at=NOON, outcome=Outcome.RAN, run_state=S.PARTIAL), Outcome.RAN, ""),
        (UpstreamWindow(window_at=NOON, outcome=Outcome.RAN, run_state=S.FAILED), Outcome.SKIPPED, "FAILED"),
        (UpstreamWindow(window_at=NOON, outcome=Outcome.LATE), Outcome.SKIPPED, "late"),
    ],
)
def test_after_the_window_of_another_job(other: UpstreamWindow, outcome: Outcome, named: str) -> None:
    """TRG-8: its run of the latest window at or before ours."""
    found = after_other(other)
    assert gated(found) == (outcome, None if outcome is Outcome.RAN else StartGate.AFTER)
    assert named in found.because


def test_after_a_recent_success_of_another_job() -> None:
    """TRG-8: of any window, if it is recent enough."""
    after = After(job="extract", within_seconds=3600)
    assert after_other(UpstreamWindow(succeeded_at=NOON - HOUR), after).outcome is Outcome.RAN
    old = after_other(UpstreamWindow(succeeded_at=NOON - HOUR - timedelta(seconds=1)), after)
    assert gated(old) == (Outcome.WAITING, StartGate.AFTER)
    assert after_other(UpstreamWindow(), after).outcome is Outcome.WAITING


def a_backfill(since: datetime, before: datetime, *, again: bool = False) -> BackfillCommand:
    """A request to run past windows."""
    return BackfillCommand(since=since, before=before, again=again, by="ann")


def test_a_backfill_lists_what_it_would_do() -> None:
    """TRG-9: windows that ran or wait are excluded, skipped ones are not; from the first instant, before the last."""
    past = [
        FireRow(
            schedule_id="sched_1", window_at=at, last_window_at=at, generation=generation, outcome=outcome,
            because="", decided_at=at,
        )
        for at, outcome, generation in (
            (NOON - 4 * HOUR, Outcome.RAN, 1),
            (NOON - 3 * HOUR, Outcome.SKIPPED, 1),
            (NOON - 2 * HOUR, Outcome.WAITING, 2),
        )
    ]  # fmt: skip
    found = plan_backfill(HOURLY, a_backfill(NOON - 4 * HOUR, NOON), past, NOON, limit=10)
    assert found.total == 4
    assert found.windows == (
        BackfillWindow(window_at=NOON - 4 * HOUR, is_wanted=False, generation=1),
        BackfillWindow(window_at=NOON - 3 * HOUR, is_wanted=True, generation=2),
        BackfillWindow(window_at=NOON - 2 * HOUR, is_wanted=False, generation=2),
        BackfillWindow(window_at=NOON - HOUR, is_wanted=True, generation=1),
    )
    again = plan_backfill(HOURLY, a_backfill(NOON - 4 * HOUR, NOON, again=True), past, NOON, limit=10)
    assert [(window.is_wanted, window.generation) for window in again.windows] == [
        (True, 2),
        (True, 2),
        (True, 3),
        (True, 1),
    ]


def test_a_backfill_has_a_limit_and_no_future() -> None:
    """The total is known nevertheless."""
    found = plan_backfill(HOURLY, a_backfill(NOON - 1000 * HOUR, NOON + HOUR), [], NOON, limit=3)
    assert (len(found.windows), found.total) == (3, 1001)
    always = plan_backfill(HOURLY, a_backfill(EARLIEST, LATEST), [], NOON, limit=1)
    assert always.windows[0].window_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert plan_backfill(HOURLY, a_backfill(EARLIEST, EARLIEST), [], NOON, limit=1).total == 0
    assert plan_backfill(HOURLY, a_backfill(NOON + HOUR, NOON + 2 * HOUR), [], NOON, limit=3).total == 0


def test_a_backfill_keeps_its_own_limit() -> None:
    """Of runs at the same time, and nothing else."""
    assert decide_backfilled(1, 2).outcome is Outcome.RAN
    assert decide_backfilled(2, 2).outcome is Outcome.WAITING


@pytest.mark.parametrize(
    ("newest_first", "failures", "verdict"),
    [
        ([], 0, Verdict.OK),
        ([S.FAILED, S.TIMED_OUT], 2, Verdict.OK),
        ([S.FAILED, S.TIMED_OUT, S.FAILED], 3, Verdict.WARN),
        ([S.FAILED] * 4, 4, Verdict.WARN),
        ([S.FAILED] * 5, 5, Verdict.DISABLE),
        ([S.SUCCEEDED, *[S.FAILED] * 5], 0, Verdict.OK),
        ([*[S.FAILED] * 4, S.SUCCEEDED, S.FAILED], 4, Verdict.WARN),
        ([S.FAILED, S.CANCELLED, S.PARTIAL, *[S.FAILED] * 4], 5, Verdict.DISABLE),
        ([S.CANCELLED, S.PARTIAL], 0, Verdict.OK),
    ],
)
def test_failures_in_a_row(newest_first: list[RunState], failures: int, verdict: Verdict) -> None:
    """TRG-10: FAILED and TIMED_OUT count, PARTIAL and CANCELLED don't, a success ends it."""
    assert count_failures(newest_first) == failures
    assert assess(HOURLY, count_failures(newest_first)) is verdict


def test_the_limit_of_failures_is_set_by_the_schedule() -> None:
    """One, or none."""
    strict = msgspec.structs.replace(HOURLY, max_consecutive_failures=1)
    patient = msgspec.structs.replace(HOURLY, max_consecutive_failures=None)
    assert assess(strict, 1) is Verdict.DISABLE
    assert assess(patient, 100) is Verdict.WARN
