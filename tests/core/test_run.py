"""A run's state is derived from its tasks' states and never set by hand (STA-5)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.run import FINAL_RUN, FailurePolicy, RunProgress, RunState, derive_run_state, update_state
from mainspring.core.model.task import TaskState
from tests.core.builders import NOON, a_run, a_task

S = TaskState
R = RunState
FAIL_FAST, AFTER_ALL, SKIP_FAILED = FailurePolicy

OPEN = [state for state in S if state not in FINAL and state is not S.QUARANTINED]


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("timed_out", [False, True])
def test_a_run_with_a_task_that_is_not_final_is_running(state: TaskState, cancelled: bool, timed_out: bool) -> None:
    """STA-5: also while a cancel or the end of its time is being carried out."""
    finish = RunProgress(policy=FAIL_FAST, cancelled=cancelled, timed_out=timed_out)
    assert derive_run_state({state: 1, S.SUCCEEDED: 3, S.FAILED: 1}, finish) is R.RUNNING


@pytest.mark.parametrize("state", [*OPEN, S.QUARANTINED])
def test_a_paused_run_with_remaining_tasks_is_paused(state: TaskState) -> None:
    """STA-5: PAUSED when held."""
    assert derive_run_state({state: 1}, RunProgress(policy=FAIL_FAST, paused=True)) is R.PAUSED


def test_a_run_with_final_tasks_only_is_never_paused() -> None:
    """STA-5: held means something only while some task is not final."""
    assert derive_run_state({S.SUCCEEDED: 2}, RunProgress(policy=FAIL_FAST, paused=True)) is R.SUCCEEDED


def test_a_run_that_waits_for_an_operator_is_paused() -> None:
    """STA-5: quarantine is left, and what waits for it."""
    assert derive_run_state({S.QUARANTINED: 1, S.SUCCEEDED: 2}, RunProgress(policy=FAIL_FAST)) is R.PAUSED
    assert derive_run_state({S.QUARANTINED: 1, S.PENDING: 4}, RunProgress(policy=FAIL_FAST)) is R.PAUSED


@pytest.mark.parametrize("state", [S.QUEUED, S.ASSIGNED, S.RUNNING])
def test_quarantine_beside_active_tasks_is_running(state: TaskState) -> None:
    """STA-5: another branch continues."""
    assert derive_run_state({S.QUARANTINED: 1, state: 1}, RunProgress(policy=FAIL_FAST)) is R.RUNNING


def test_quarantine_beside_a_delayed_task_is_running() -> None:
    """STA-5: a retry delay ends by itself."""
    finish = RunProgress(policy=FAIL_FAST, delayed=1)
    assert derive_run_state({S.QUARANTINED: 1, S.PENDING: 1}, finish) is R.RUNNING


@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("counts", [{S.SUCCEEDED: 1}, {S.SUCCEEDED: 1, S.FAILED: 1}, {S.CANCELLED: 2}, {}])
def test_a_cancelled_run_with_final_tasks_is_cancelled(policy: FailurePolicy, counts: dict[TaskState, int]) -> None:
    """STA-5: the first of the sentence, before its own limit and before failures."""
    assert derive_run_state(counts, RunProgress(policy=policy, cancelled=True, timed_out=True)) is R.CANCELLED


@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("counts", [{S.SUCCEEDED: 1}, {S.SUCCEEDED: 1, S.FAILED: 1}, {S.CANCELLED: 2}])
def test_a_run_over_its_time_limit_is_timed_out(policy: FailurePolicy, counts: dict[TaskState, int]) -> None:
    """STA-5: before failures."""
    assert derive_run_state(counts, RunProgress(policy=policy, timed_out=True)) is R.TIMED_OUT


@pytest.mark.parametrize("failure", [S.FAILED, S.TIMED_OUT])
@pytest.mark.parametrize(("policy", "end"), [(FAIL_FAST, R.FAILED), (AFTER_ALL, R.FAILED), (SKIP_FAILED, R.PARTIAL)])
def test_a_run_with_a_failed_task_is_failed_or_partial(
    failure: TaskState, policy: FailurePolicy, end: RunState
) -> None:
    """STA-5: PARTIAL under skip_failed; a cancelled or skipped task beside it changes nothing."""
    for others in ({}, {S.SUCCEEDED: 5}, {S.CANCELLED: 2, S.SKIPPED: 1}):
        assert derive_run_state({failure: 1, **others}, RunProgress(policy=policy)) is end


@pytest.mark.parametrize("policy", list(FailurePolicy))
def test_a_run_with_a_cancelled_task_and_no_failure_is_cancelled(policy: FailurePolicy) -> None:
    """STA-5: a person cancelled one of its tasks."""
    assert derive_run_state({S.CANCELLED: 1, S.SUCCEEDED: 9, S.SKIPPED: 1}, RunProgress(policy=policy)) is R.CANCELLED


@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("counts", [{S.SUCCEEDED: 3}, {S.SUCCEEDED: 1, S.SKIPPED: 2}, {S.SKIPPED: 1}])
def test_every_other_run_is_succeeded(policy: FailurePolicy, counts: dict[TaskState, int]) -> None:
    """STA-5: also when all of it was skipped."""
    assert derive_run_state(counts, RunProgress(policy=policy)) is R.SUCCEEDED


def test_a_run_with_missing_tasks_has_not_ended() -> None:
    """STA-5: a run with an open spread is not final, though every task that there is has ended."""
    assert derive_run_state({S.SUCCEEDED: 5}, RunProgress(policy=FAIL_FAST, complete=False)) is R.RUNNING
    assert derive_run_state({S.QUARANTINED: 1}, RunProgress(policy=FAIL_FAST, complete=False)) is R.RUNNING


@given(
    counts=st.dictionaries(st.sampled_from(list(S)), st.integers(0, 3)),
    policy=st.sampled_from(list(FailurePolicy)),
    paused=st.booleans(),
    cancelled=st.booleans(),
    timed_out=st.booleans(),
    complete=st.booleans(),
)
def test_a_run_ends_exactly_when_all_its_tasks_have_ended(
    counts: dict[TaskState, int], policy: FailurePolicy, paused: bool, cancelled: bool, timed_out: bool, complete: bool
) -> None:
    """I-44: the run is final if and only if every task is made and final."""
    finish = RunProgress(policy=policy, paused=paused, cancelled=cancelled, timed_out=timed_out, complete=complete)
    some_open = any(count and state not in FINAL for state, count in counts.items())
    assert (derive_run_state(counts, finish) in FINAL_RUN) is (complete and not some_open)


@pytest.mark.parametrize("state", list(R))
def test_a_run_has_an_end_time_exactly_while_it_has_ended(state: RunState) -> None:
    """STA-5: also after a reopen; a state that it has already is no change."""
    run = a_run()
    assert update_state(run, state, NOON) is (state is not R.PENDING)
    assert (run.state, run.ended_at) == (state, NOON if state in FINAL_RUN else None)
    assert update_state(run, state, NOON) is False
    update_state(run, R.RUNNING, NOON)
    assert run.ended_at is None


@pytest.mark.parametrize("state", sorted(FINAL_RUN))
def test_the_end_of_a_run_and_its_retry_have_reasons(state: RunState) -> None:
    run = a_run()
    update_state(run, state, NOON)
    ended = run.because
    assert ended not in {"", "adopted"}
    update_state(run, R.RUNNING, NOON)
    assert run.because not in {"", ended}


def test_a_cancelled_run_names_who_cancelled_it() -> None:
    run = a_run()
    run.cancelled_by, run.because = "ann", "cancelled by ann"
    update_state(run, R.CANCELLED, NOON)
    assert run.because == "cancelled by ann"


def test_the_start_of_the_first_task_is_set_while_a_run_has_ended() -> None:
    """OBS-5: and none, if none did."""
    run = a_run()
    tasks = [a_task(position=number) for number in range(3)]
    update_state(run, R.CANCELLED, NOON, tasks)
    assert run.started_at is None

    update_state(run, R.RUNNING, NOON, tasks)
    tasks[1].started_at, tasks[2].started_at = NOON + timedelta(seconds=2), NOON + timedelta(seconds=1)
    update_state(run, R.SUCCEEDED, NOON, tasks)
    assert run.started_at == tasks[2].started_at

    update_state(run, R.RUNNING, NOON, tasks)
    assert run.started_at is None
