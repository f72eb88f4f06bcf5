"""Again, or not (RTY-3, RTY-5)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.retries import LOSSES_ALLOWED, Failure, decide_failure
from mainspring.core.states import FINAL, is_allowed
from mainspring.core.tasks import AttemptEnd, TaskState
from tests.core.builders import NOON, a_spec, a_task

S = TaskState


@pytest.mark.parametrize(
    ("end", "what"), [(AttemptEnd.FAILED, "failed"), (AttemptEnd.TIMED_OUT, "took longer than 60 s")]
)
def test_a_failure_with_tries_left_is_tried_again_after_the_delay(end: Failure, what: str) -> None:
    """RTY-5: PENDING until then."""
    step = decide_failure(a_task(tries=1), a_spec("a", retry_delay_seconds=90), end, now=NOON)
    assert (step.state, step.due_at) == (S.PENDING, NOON + timedelta(seconds=90))
    assert step.because == f"try 1 of 3 {what}; the next one in 90 s"


@pytest.mark.parametrize(("end", "state"), [(AttemptEnd.FAILED, S.FAILED), (AttemptEnd.TIMED_OUT, S.TIMED_OUT)])
def test_the_last_try_is_final(end: Failure, state: TaskState) -> None:
    """RTY-5: attempts used up is checked first."""
    step = decide_failure(a_task(tries=3), a_spec("a"), end, now=NOON)
    assert (step.state, step.due_at) == (state, None)
    assert step.because.startswith("try 3 of 3 ")


def test_a_task_with_one_try_says_so() -> None:
    """A sentence that a user can read."""
    step = decide_failure(a_task(tries=1), a_spec("a", max_attempts=1), AttemptEnd.FAILED, now=NOON)
    assert (step.state, step.because) == (S.FAILED, "its only try failed")


@pytest.mark.parametrize("losses", range(1, LOSSES_ALLOWED + 1))
def test_a_lost_attempt_is_queued_again_at_once_and_is_no_try(losses: int) -> None:
    """RTY-5: infrastructure losses are not attempts, so that used-up tries don't matter."""
    step = decide_failure(a_task(losses=losses, tries=3), a_spec("a"), AttemptEnd.LOST, now=NOON)
    assert (step.state, step.due_at) == (S.QUEUED, None)
    assert "worker was lost" in step.because


def test_the_third_loss_is_a_failure_of_the_infrastructure() -> None:
    """RTY-5, I-18: losses have their own cap."""
    step = decide_failure(a_task(losses=3), a_spec("a"), AttemptEnd.LOST, now=NOON)
    assert (step.state, step.because) == (S.FAILED, "infrastructure: its worker was lost 3 times")


@given(
    ends=st.lists(st.sampled_from([AttemptEnd.FAILED, AttemptEnd.TIMED_OUT, AttemptEnd.LOST]), min_size=20),
    max_attempts=st.integers(1, 5),
    delay=st.floats(0, 604_800),
)
def test_every_generation_ends(ends: list[Failure], max_attempts: int, delay: float) -> None:
    """I-18: whatever happens, tries and losses are bounded, and each step is one of the table."""
    task, spec = a_task(), a_spec("a", max_attempts=max_attempts, retry_delay_seconds=delay)
    for end in ends:
        if end is AttemptEnd.LOST:
            task.losses += 1
        else:
            task.tries += 1
        step = decide_failure(task, spec, end, now=NOON)
        assert is_allowed(S.RUNNING, step.state)
        assert (step.due_at is not None) is (step.state is S.PENDING)
        assert step.due_at is None or step.due_at >= NOON
        if step.state in FINAL:
            break
    else:
        pytest.fail("it was tried again twenty times")
    assert task.tries <= max_attempts
    assert task.losses <= LOSSES_ALLOWED + 1
