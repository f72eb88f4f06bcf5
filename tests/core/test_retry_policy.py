"""Retry policy: the next state after an unsuccessful attempt (RTY-1 to RTY-3, RTY-5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.lifecycle.failure_policy import Backoff, FailureClass, RetryPolicy
from mainspring.core.lifecycle.failures import Failure, classify, lost, stalled, timed_out
from mainspring.core.lifecycle.retry_policy import (
    JITTER,
    MAX_LOSSES,
    FailedAttempt,
    FailedEnd,
    RetryDecision,
    backoff_seconds,
    decide_failure,
    delay_seconds,
    max_attempts_for,
)
from mainspring.core.lifecycle.states import FINAL, is_allowed
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.model.settings import DEFAULTS
from mainspring.core.model.task import AttemptEnd, RetryState, Task, TaskState
from tests.core.builders import NOON, a_spec, a_task

S, C = TaskState, FailureClass
MIB = 2**20
TRANSIENT = classify('{"type": "E", "message": "boom"}')
OTHER = classify('{"type": "E", "message": "bang"}')
PERMANENT = classify('{"class": "permanent", "type": "E"}')
OUT_OF_MEMORY = classify('{"type": "MemoryError"}')
TOO_SLOW = timed_out(60, job="acme/nightly")


def decide(
    task: Task, spec: TaskSpec | None = None, failure: Failure = TRANSIENT, end: FailedEnd = AttemptEnd.FAILED, *,
    on: str = "w1", worker_lost: bool = False, is_widespread: bool = False, retries: int = 0,
    max_memory: int | None = None, **job: Any,
) -> RetryDecision:  # fmt: skip
    """Decide what follows a failure, and update the task."""
    spec = spec or a_spec("extract")
    ending = FailedAttempt(end=end, failure=failure, worker=on, worker_lost=worker_lost, is_widespread=is_widespread)
    step = decide_failure(
        task, spec, JobSpec(name="nightly", tasks=(spec,), **job), ending, DEFAULTS, retries=retries,
        max_memory=max_memory, now=NOON,
    )  # fmt: skip
    task.trail = step.trail
    return step


def after(step: RetryDecision) -> float:
    """Return the delay of the next attempt in seconds."""
    assert step.due_at is not None
    return (step.due_at - NOON).total_seconds()


@pytest.mark.parametrize(
    ("failure", "end"),
    [
        (TRANSIENT, AttemptEnd.FAILED),
        (TOO_SLOW, AttemptEnd.TIMED_OUT),
        (stalled(5, job="a/b"), AttemptEnd.TIMED_OUT),
        (OUT_OF_MEMORY, AttemptEnd.FAILED),
    ],
)
def test_a_failure_with_attempts_left_is_retried_after_the_delay(failure: Failure, end: FailedEnd) -> None:
    """RTY-2: PENDING until then."""
    step = decide(a_task(tries=1), a_spec("a", retry_delay_seconds=90), failure, end)
    assert step.state is S.PENDING
    assert 90 <= after(step) <= 90 * (1 + JITTER)


@pytest.mark.parametrize("failure", [TRANSIENT, PERMANENT, OUT_OF_MEMORY])
def test_the_last_attempt_is_final(failure: Failure) -> None:
    """RTY-5: attempts used up is checked first, also if the task looks poisonous."""
    task = a_task(tries=3)
    task.trail = RetryState(signature=failure.signature, workers=("w7", "w8", "w9"))
    step = decide(task, failure=failure)
    assert (step.state, step.due_at) == (S.FAILED, None)


def test_the_last_timeout_ends_in_timed_out() -> None:
    """It has a state of its own."""
    assert decide(a_task(tries=3), failure=TOO_SLOW, end=AttemptEnd.TIMED_OUT).state is S.TIMED_OUT


def test_a_task_with_one_attempt_is_not_retried() -> None:
    assert decide(a_task(tries=1), a_spec("a", max_attempts=1)).state is S.FAILED


def test_a_permanent_failure_is_not_retried() -> None:
    """RTY-2."""
    assert decide(a_task(tries=1), failure=PERMANENT).state is S.FAILED


def test_the_retry_budget_of_a_run_is_enforced() -> None:
    """RTY-3: 100 retries of all tasks together, unless the job says otherwise."""
    assert decide(a_task(tries=1), retries=99).state is S.PENDING
    assert decide(a_task(tries=1), retries=100).state is S.FAILED
    assert decide(a_task(tries=1), retries=5, max_retries=6).state is S.PENDING
    assert decide(a_task(tries=1), retries=5, max_retries=5).state is S.FAILED


def test_the_same_failure_on_three_workers_quarantines_the_task() -> None:
    """RTY-5: held while tries remain."""
    task, spec = a_task(tries=1), a_spec("a", max_attempts=5)
    assert decide(task, spec, on="w1").state is S.PENDING
    assert decide(task, spec, on="w2").state is S.PENDING
    assert decide(task, spec, on="w2").state is S.PENDING
    step = decide(task, spec, on="w3")
    assert step.state is S.QUARANTINED
    assert step.trail.workers == ("w1", "w2", "w3")


def test_a_widespread_failure_does_not_quarantine_the_task() -> None:
    """RTY-4, RTY-5: the task itself has to look poisonous."""
    task, spec = a_task(tries=1), a_spec("a", max_attempts=5)
    task.trail = RetryState(signature=TRANSIENT.signature, workers=("w1", "w2"))
    assert decide(task, spec, on="w3", is_widespread=True).state is S.PENDING
    assert decide(task, spec, on="w3").state is S.QUARANTINED


def test_a_different_failure_resets_the_count() -> None:
    """Only what is alike speaks against the task."""
    task, spec = a_task(tries=1), a_spec("a", max_attempts=5)
    for number, failure in enumerate([TRANSIENT, TRANSIENT, OTHER, TRANSIENT, TRANSIENT]):
        assert decide(task, spec, failure, on=f"w{number}").state is S.PENDING
    assert task.trail == RetryState(signature=TRANSIENT.signature, workers=("w3", "w4"))


@pytest.mark.parametrize("losses", range(1, MAX_LOSSES + 1))
def test_a_lost_attempt_is_requeued_at_once_and_does_not_count(losses: int) -> None:
    """RTY-5: infrastructure losses are not attempts, so that used-up tries don't matter."""
    step = decide(a_task(losses=losses, tries=3), failure=lost("gone"), end=AttemptEnd.LOST)
    assert (step.state, step.due_at) == (S.QUEUED, None)


def test_the_third_loss_is_an_infrastructure_failure() -> None:
    """RTY-5, I-18: losses have their own cap."""
    step = decide(a_task(losses=3), failure=lost("gone"), end=AttemptEnd.LOST, worker_lost=True)
    assert (step.state, step.because) == (S.FAILED, "infrastructure: worker lost 3 times")


def test_a_second_worker_lost_quarantines_the_task() -> None:
    """RTY-5: the same worker again says nothing, nor does an attempt that was lost while its worker lives."""
    task = a_task(losses=1)

    def lose(on: str, *, worker_lost: bool = True) -> RetryDecision:
        return decide(task, failure=lost("gone"), end=AttemptEnd.LOST, on=on, worker_lost=worker_lost)

    assert lose("w1").state is S.QUEUED
    assert lose("w1").state is S.QUEUED
    assert lose("w2", worker_lost=False).state is S.QUEUED
    step = lose("w3")
    assert (step.state, step.trail.lost_on) == (S.QUARANTINED, ("w1", "w3"))


def test_a_worker_error_is_a_loss_and_retried_after_a_delay() -> None:
    """The next worker may do better, and this one later."""
    failure = classify('{"class": "infrastructure", "type": "child", "message": "no child"}')
    assert decide(a_task(losses=1), failure=failure).state is S.PENDING
    assert decide(a_task(losses=3), failure=failure).state is S.FAILED


# delays


@pytest.mark.parametrize(
    ("failure", "delays"),
    [
        ('{"type": "E"}', [10, 30, 90, 270, 600, 600]),
        ('{"type": "RATE_LIMIT_EXCEEDED"}', [900, 1800, 3600, 7200, 7200]),
        ('{"type": "E", "message": "too many requests"}', [900, 1800]),
        ('{"type": "TRANSIENT_NETWORK"}', [300, 600]),
        ('{"type": "SERVICE_UNAVAILABLE"}', [600, 1200]),
    ],
)
def test_built_in_backoffs(failure: str, delays: list[float]) -> None:
    """RTY-1, RTY-2: base, factor and cap."""
    found = [
        backoff_seconds(n, a_spec("a"), RetryPolicy(), classify(failure), DEFAULTS) for n in range(1, len(delays) + 1)
    ]
    assert found == delays


def test_the_jobs_backoff_for_a_class_takes_precedence() -> None:
    """RTY-2: per job and per class; other values keep their defaults."""
    policy = RetryPolicy(factor=2, cap_seconds=50, classes={C.RATE_LIMITED: Backoff(base_seconds=1, max_attempts=2)})
    limited = classify('{"type": "RATE_LIMIT_EXCEEDED"}')
    assert [backoff_seconds(n, a_spec("a"), policy, TRANSIENT, DEFAULTS) for n in (1, 2, 3, 4)] == [10, 20, 40, 50]
    assert [backoff_seconds(n, a_spec("a"), policy, limited, DEFAULTS) for n in (1, 2)] == [1, 2]
    assert max_attempts_for(a_spec("a"), policy, limited) == 2
    step = decide(a_task(tries=2), replace(a_spec("a"), retry=policy), limited)
    assert (step.state, step.because) == (S.FAILED, "attempt 2 of 2 failed (rate_limited)")


def test_retry_after_replaces_every_backoff() -> None:
    """It knows."""
    limited = classify('{"class": "rate_limited", "type": "E", "retry_after_seconds": 45}')
    policy = RetryPolicy(classes={C.RATE_LIMITED: Backoff(base_seconds=1)})
    assert [backoff_seconds(n, a_spec("a"), policy, limited, DEFAULTS) for n in (1, 4)] == [45, 45]


@pytest.mark.parametrize(("max_attempts", "tries"), [(1, 1), (2, 2), (3, 5), (4, 4), (5, 5)])
def test_a_rate_limit_gets_five_attempts_by_default(max_attempts: int, tries: int) -> None:
    """RTY-1: the default is 3 attempts."""
    limited = classify('{"type": "RATE_LIMIT_EXCEEDED"}')
    assert max_attempts_for(a_spec("a", max_attempts=max_attempts), RetryPolicy(), limited) == tries


@given(
    base=st.floats(0, 604_800), factor=st.floats(1, 100), cap=st.floats(0.1, 604_800), tries=st.integers(1, 5),
    attempt=st.integers(1, 8),
)  # fmt: skip
def test_delays_grow_up_to_the_cap_within_the_jitter(
    base: float, factor: float, cap: float, tries: int, attempt: int
) -> None:
    """RTY-2: and the same attempt always has the same delay."""
    spec, policy = a_spec("a", retry_delay_seconds=base), RetryPolicy(factor=factor, cap_seconds=cap)
    delays = [backoff_seconds(n, spec, policy, TRANSIENT, DEFAULTS) for n in range(1, 6)]
    assert delays == sorted(delays)
    assert delays[0] == base
    assert max(delays) <= max(base, cap)
    task = a_task(tries=tries)
    task.attempt = attempt
    delay = delay_seconds(task, spec, policy, TRANSIENT, DEFAULTS)
    assert delays[tries - 1] <= delay <= delays[tries - 1] * (1 + JITTER)
    assert delay == delay_seconds(task, spec, policy, TRANSIENT, DEFAULTS)


@pytest.mark.parametrize(
    "failure",
    ['{"type": "E"}', '{"type": "RATE_LIMIT_EXCEEDED"}', '{"type": "TRANSIENT_NETWORK"}', '{"type": "MemoryError"}'],
)
def test_a_linear_delay_is_the_base_times_the_attempt_number(failure: str) -> None:
    """RTY-2: to the second, with as many tries as the task says, and bounded by its own cap only."""
    found, policy = classify(failure), RetryPolicy(linear=True)
    long = a_spec("a", retry_delay_seconds=86_400)
    assert [delay_seconds(a_task(tries=n), a_spec("a"), policy, found, DEFAULTS) for n in (1, 2, 3)] == [10, 20, 30]
    assert delay_seconds(a_task(tries=4), long, policy, found, DEFAULTS) == 4 * 86_400
    assert max_attempts_for(a_spec("a"), policy, found) == 3
    capped = RetryPolicy(linear=True, cap_seconds=25)
    assert [delay_seconds(a_task(tries=n), a_spec("a"), capped, found, DEFAULTS) for n in (1, 2, 3)] == [10, 20, 25]
    step = decide(a_task(tries=2), replace(a_spec("a"), retry=policy), found)
    assert (step.state, after(step)) == (S.PENDING, 20)


def test_a_linear_policys_class_takes_precedence() -> None:
    """A delay given by the failing service takes precedence."""
    policy = RetryPolicy(linear=True, classes={C.RATE_LIMITED: Backoff(base_seconds=7, cap_seconds=15, max_attempts=2)})
    limited = classify('{"type": "RATE_LIMIT_EXCEEDED"}')
    assert [delay_seconds(a_task(tries=n), a_spec("a"), policy, limited, DEFAULTS) for n in (1, 2, 3)] == [7, 14, 15]
    assert max_attempts_for(a_spec("a"), policy, limited) == 2
    asked = classify('{"class": "rate_limited", "type": "E", "retry_after_seconds": 45}')
    assert delay_seconds(a_task(tries=2), a_spec("a"), policy, asked, DEFAULTS) == 45


def test_tasks_that_failed_together_are_not_retried_together() -> None:
    """The jitter of a thousand tasks is spread over all of its range."""
    delays = sorted(
        delay_seconds(a_task(tries=1, position=n), a_spec("a"), RetryPolicy(), TRANSIENT, DEFAULTS) for n in range(1000)
    )
    assert delays[100] < 10 * (1 + JITTER * 0.2)
    assert delays[900] > 10 * (1 + JITTER * 0.8)


# what helps


def test_out_of_memory_gets_more_memory_up_to_the_limit() -> None:
    """RTY-2: twice as much each time, at most four times; at the limit it is an ordinary retry."""
    task, spec = a_task(tries=1), a_spec("a", max_attempts=5, resources=Resources(1000, 100 * MIB))
    asked = [decide(task, spec, OUT_OF_MEMORY, on="w1").trail.memory_bytes for _ in range(4)]
    assert asked == [200 * MIB, 400 * MIB, 400 * MIB, 400 * MIB]


def test_memory_is_bounded_by_the_largest_worker() -> None:
    """It would never be placed."""
    spec = a_spec("a", resources=Resources(1000, 100 * MIB))
    assert decide(a_task(tries=1), spec, OUT_OF_MEMORY, max_memory=150 * MIB).trail.memory_bytes == 150 * MIB
    assert decide(a_task(tries=1), spec, OUT_OF_MEMORY, max_memory=100 * MIB).trail.memory_bytes is None


def test_a_job_can_set_the_memory_factor() -> None:
    """By its factor and its limit."""
    policy = RetryPolicy(memory_factor=1.5, memory_limit_bytes=160 * MIB)
    task, spec = a_task(tries=1), a_spec("a", max_attempts=5, resources=Resources(1000, 100 * MIB))
    asked = [decide(task, spec, OUT_OF_MEMORY, retry=policy).trail.memory_bytes for _ in range(2)]
    assert asked == [150 * MIB, 160 * MIB]


def test_a_timeout_gets_a_longer_limit_and_a_stall_does_not() -> None:
    """RTY-1: again, with a longer limit."""
    task = a_task(tries=1)
    limits = [decide(task, failure=TOO_SLOW, end=AttemptEnd.TIMED_OUT).trail.limit_seconds for _ in range(2)]
    assert limits == [90, 135]
    stuck = decide(a_task(tries=1), failure=stalled(5, job="a/b"), end=AttemptEnd.TIMED_OUT)
    assert (stuck.state, stuck.trail.limit_seconds) == (S.PENDING, None)


FAILURES = [TRANSIENT, OTHER, PERMANENT, OUT_OF_MEMORY, TOO_SLOW, classify('{"class": "infrastructure"}')]


@given(
    ends=st.lists(
        st.tuples(st.sampled_from(FAILURES), st.sampled_from(["w1", "w2", "w3"]), st.booleans(), st.booleans()),
        min_size=20,
    ),
    max_attempts=st.integers(1, 5),
    delay=st.floats(0, 604_800),
)
def test_every_generation_ends(ends: list[tuple[Failure, str, bool, bool]], max_attempts: int, delay: float) -> None:
    """I-18: whatever happens, tries and losses are bounded, and each step is one of the table."""
    task, spec = a_task(), a_spec("a", max_attempts=max_attempts, retry_delay_seconds=delay)
    for said, worker, is_lost, worker_lost in ends:
        failure = lost("gone") if is_lost else said
        end: FailedEnd = AttemptEnd.LOST if is_lost else AttemptEnd.FAILED
        if failure.kind is C.INFRASTRUCTURE:
            task.losses += 1
        else:
            task.tries += 1
        step = decide(task, spec, failure, end, on=worker, worker_lost=worker_lost)
        assert is_allowed(S.RUNNING, step.state)
        assert (step.due_at is not None) is (step.state is S.PENDING)
        assert step.due_at is None or step.due_at >= NOON + timedelta(seconds=min(delay, 300))
        if step.state in FINAL or step.state is S.QUARANTINED:
            break
    else:
        pytest.fail("it was retried twenty times")
    assert task.tries <= max_attempts
    assert task.losses <= MAX_LOSSES + 1
