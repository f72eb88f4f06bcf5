"""The table of transitions and its guard (STA-1, STA-4, STA-6)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.states import (
    FINAL,
    HELD_BY_WORKER,
    UNSUCCESSFUL,
    PipelineState,
    create,
    is_allowed,
    move,
    pipeline_state,
    reopen,
)
from mainspring.core.model.task import StopKind, StopRequest, TaskState, Transition
from mainspring.protocol.errors import Broken, IllegalTransition
from tests.core.builders import NOON, a_task

S = TaskState

TABLE: dict[TaskState, set[TaskState]] = {
    S.PENDING: {S.QUEUED, S.SKIPPED, S.CANCELLED, S.QUARANTINED, S.FAILED},
    S.QUEUED: {S.ASSIGNED, S.CANCELLED, S.QUARANTINED, S.PENDING},
    S.ASSIGNED: {S.RUNNING, S.QUEUED, S.CANCELLED, S.FAILED, S.QUARANTINED},
    S.RUNNING: {S.SUCCEEDED, S.FAILED, S.TIMED_OUT, S.CANCELLED, S.QUEUED, S.PENDING, S.QUARANTINED},
    S.QUARANTINED: {S.QUEUED, S.CANCELLED},
    S.SUCCEEDED: set(),
    S.FAILED: set(),
    S.TIMED_OUT: set(),
    S.CANCELLED: set(),
    S.SKIPPED: set(),
}
"""As the specification has it, written down a second time."""

PAIRS = [(start, end) for start in S for end in S]


@pytest.mark.parametrize(("start", "end"), PAIRS, ids=lambda state: state.value)
def test_every_transition_is_allowed_or_refused_as_specified(start: TaskState, end: TaskState) -> None:
    """STA-1: a move that the table has changes the task and is recorded; any other changes nothing and raises."""
    task = a_task(state=start, seq=4)
    assert is_allowed(start, end) is (end in TABLE[start])
    if end in TABLE[start]:
        record = move(task, end, now=NOON, by="shard", because="a reason")
        assert (record.start, record.end, record.seq, record.because, record.by) == (start, end, 5, "a reason", "shard")
        assert (task.state, task.seq, task.since, task.because) == (end, 5, NOON, "a reason")
    else:
        with pytest.raises(IllegalTransition) as raised:
            move(task, end, now=NOON, by="shard", because="a reason")
        assert task.id in str(raised.value)
        assert (task.state, task.seq, task.because) == (start, 4, "")


def test_an_illegal_transition_is_a_broken_invariant() -> None:
    """STA-1: nothing that a caller could do better."""
    assert issubclass(IllegalTransition, Broken)


def test_the_five_final_states_have_no_transitions() -> None:
    """STA-1: SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, SKIPPED."""
    assert {S.SUCCEEDED, S.FAILED, S.TIMED_OUT, S.CANCELLED, S.SKIPPED} == FINAL
    assert HELD_BY_WORKER.isdisjoint(FINAL)
    assert UNSUCCESSFUL < FINAL


def test_a_new_task_is_pending() -> None:
    """I-04: the first record has no state before it."""
    task = a_task(seq=0)
    record = create(task)
    assert (record.seq, record.start, record.end, record.attempt) == (1, None, S.PENDING, 0)
    assert task.seq == 1
    assert [state for state in S if is_allowed(None, state)] == [S.PENDING]


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_task_can_be_reopened_in_a_clean_generation(state: TaskState) -> None:
    """STA-1: generation + 1, counters zero, PENDING, recorded; `seq` continues."""
    task = a_task(state=state, seq=7, tries=3, losses=2)
    task.attempt, task.attempt_id, task.lease_id, task.worker_id = 5, "att_1", "lease_1", "w1"
    task.cause, task.output, task.error = "task_x", "{}", "{}"
    task.assigned_at = task.started_at = task.ended_at = task.due_at = NOON
    task.stop = StopRequest(StopKind.CANCEL, "ann", "why not", NOON)

    record = reopen(task, now=NOON + timedelta(hours=1), by="ann", because="try again")

    assert (record.start, record.end, record.seq, record.generation, record.by) == (state, S.PENDING, 8, 2, "ann")
    assert (task.generation, task.attempt, task.tries, task.losses) == (2, 0, 0, 0)
    held = (task.attempt_id, task.lease_id, task.worker_id, task.cause, task.stop, task.output, task.error)
    times = (task.assigned_at, task.started_at, task.ended_at, task.due_at)
    assert {*held, *times} == {None}


@pytest.mark.parametrize("state", sorted(set(S) - FINAL))
def test_a_task_that_is_not_final_can_not_be_reopened(state: TaskState) -> None:
    """STA-1: `reopen` leaves final states and no others."""
    task = a_task(state=state)
    with pytest.raises(IllegalTransition, match="only a final task"):
        reopen(task, now=NOON, by="ann", because="try again")
    assert (task.state, task.generation) == (state, 1)


@given(st.lists(st.sampled_from([*S, None]), max_size=60))
def test_the_history_of_a_task_is_a_path(wishes: list[TaskState | None]) -> None:
    """STA-4, I-04: seq without a gap, each record begins where the last one ended, each step is in the table."""
    task = a_task(seq=0)
    history: list[Transition] = [create(task)]
    for wish in wishes:
        try:
            if wish is None:
                history.append(reopen(task, now=NOON, by="ann", because="again"))
            else:
                history.append(move(task, wish, now=NOON, by="shard", because="asked"))
        except IllegalTransition:
            continue
    assert [record.seq for record in history] == list(range(1, len(history) + 1))
    assert history[0].start is None
    for before, after in pairwise(history):
        assert after.start is before.end
        assert before.generation <= after.generation <= before.generation + 1
        if after.generation == before.generation:
            assert after.end in TABLE[before.end]
        else:
            assert before.end in FINAL
            assert after.end is S.PENDING
    assert task.state is history[-1].end


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (S.PENDING, "PENDING"),
        (S.QUEUED, "PENDING"),
        (S.ASSIGNED, "CLAIMED"),
        (S.RUNNING, "RUNNING"),
        (S.SUCCEEDED, "COMPLETED"),
        (S.TIMED_OUT, "TIMEOUT"),
        (S.FAILED, "FAILED"),
        (S.CANCELLED, "CANCELLED"),
        (S.SKIPPED, "SKIPPED"),
        (S.QUARANTINED, "QUARANTINED"),
    ],
)
def test_the_pipelines_api_has_its_own_state_names(state: TaskState, name: str) -> None:
    """STA-6."""
    assert pipeline_state(state) is PipelineState(name)


def test_every_state_has_a_name_in_the_pipelines_api() -> None:
    """STA-6: and no name is left over."""
    assert {pipeline_state(state) for state in S} == set(PipelineState)
