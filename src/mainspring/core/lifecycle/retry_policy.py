"""Retry policy: what follows an unsuccessful attempt (RTY-1 to RTY-3, RTY-5).

    failed, timed out ─┬─ no attempts left ───────────► FAILED, TIMED_OUT
                       ├─ permanent ──────────────────► FAILED
                       ├─ retry budget of the run used ► FAILED, TIMED_OUT
                       ├─ same signature on 3 workers ► QUARANTINED, unless the failure is widespread
                       └─ else ───────────────────────► PENDING until the delay has passed
    lost ──────────────┬─ for the third time ─────────► FAILED (infrastructure)
                       ├─ the second worker lost ─────► QUARANTINED
                       └─ else ───────────────────────► QUEUED: not the task's fault, and does not count as an attempt

The delay grows exponentially within a generation: base, times the factor per attempt, up to the cap, plus up to a third
of jitter, so that tasks that failed together are not retried together. With a `linear` policy, it is exactly the base
times the attempt number, and built-in backoffs don't apply. A retry also gets what may help: more memory after running
out of it, a longer limit after a timeout. `RetryState` carries this state from one attempt to the next.

1. The attempt limit is checked first: a task without attempts left is never retried.
2. Every generation ends: attempts are bounded by `max_attempts`, losses by MAX_LOSSES.
3. The delay is deterministic per attempt: the jitter is derived from its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec.structs import replace

from mainspring.core.lifecycle import timeouts
from mainspring.core.lifecycle.failure_policy import Backoff, FailureClass, RetryPolicy
from mainspring.core.lifecycle.failures import STALLED, Failure
from mainspring.core.model.job import DEFAULT_ATTEMPTS, JobSpec, TaskSpec
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import AttemptEnd, RetryState, Task, TaskState

S = TaskState
MAX_LOSSES = 2
"""Attempts of a generation that may be lost with their worker; one more fails the task (RTY-5)."""
QUARANTINE_AFTER_WORKERS = 3
QUARANTINE_AFTER_LOSSES = 2
JITTER = 1 / 3
"""Maximum jitter, as a fraction of the delay."""
MAX_MEMORY_FACTOR = 4
"""Default maximum memory request, as a multiple of the definition's."""

_OF_TYPE: Mapping[str, Backoff] = {
    "RATE_LIMIT_EXCEEDED": Backoff(base_seconds=900, factor=2, cap_seconds=7_200, max_attempts=5),
    "TRANSIENT_NETWORK": Backoff(base_seconds=300, factor=2, cap_seconds=3_600, max_attempts=3),
    "SERVICE_UNAVAILABLE": Backoff(base_seconds=600, factor=2, cap_seconds=3_600, max_attempts=3),
}
_OF_CLASS: Mapping[FailureClass, Backoff] = {FailureClass.RATE_LIMITED: _OF_TYPE["RATE_LIMIT_EXCEEDED"]}
_NO_BACKOFF = Backoff()

FailedEnd = Literal[AttemptEnd.FAILED, AttemptEnd.TIMED_OUT, AttemptEnd.LOST]


class FailedAttempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An unsuccessful attempt."""

    end: FailedEnd
    failure: Failure
    worker: str
    worker_lost: bool = False
    """The whole worker was lost, not only the attempt."""
    is_widespread: bool = False
    """Many tasks currently fail with this signature, so it does not indicate a poisonous task."""


class RetryDecision(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Next state of the task: PENDING until `due_at`, QUEUED, QUARANTINED, FAILED or TIMED_OUT."""

    state: TaskState
    because: str
    trail: RetryState
    """New retry state of the task's row."""
    due_at: datetime | None = None
    """Set if and only if the state is PENDING."""


def decide_failure(
    task: Task, spec: TaskSpec, job: JobSpec, ending: FailedAttempt, scheduler_settings: SchedulerSettings, *,
    retries: int, max_memory: int | None,
    now: datetime,
) -> RetryDecision:  # fmt: skip
    """Decide what follows an attempt that just ended; `task.tries` or `task.losses` already counts it.

    `retries` is the number of retries of the run, `max_memory` the memory of the largest worker, if known.
    """
    policy, failure = spec.retry or job.retry, ending.failure
    trail = _with_attempt(task.trail or RetryState(), ending)
    delay = delay_seconds(task, spec, policy, failure, scheduler_settings)
    if ending.failure.kind is FailureClass.INFRASTRUCTURE or ending.end is AttemptEnd.LOST:
        return _decide_loss(task, ending, trail, delay, now)
    otherwise = S.TIMED_OUT if ending.end is AttemptEnd.TIMED_OUT else S.FAILED
    tries = max_attempts_for(spec, policy, failure)
    what = _format_end(ending)
    if task.tries >= tries:
        tried = "the only attempt" if tries == 1 else f"attempt {task.tries} of {tries}"
        return RetryDecision(state=otherwise, because=f"{tried} {what}", trail=trail)
    tried = f"attempt {task.tries} of {tries} {what}"
    if failure.kind is FailureClass.PERMANENT:
        return RetryDecision(state=otherwise, because=f"{tried}; not retried", trail=trail)
    if retries >= job.max_retries:
        because = f"{tried}; the run's retry budget is used ({retries} of {job.max_retries})"
        return RetryDecision(state=otherwise, because=because, trail=trail)
    if len(trail.workers) >= QUARANTINE_AFTER_WORKERS and not ending.is_widespread:
        because = f"{tried}, with the same error on {', '.join(trail.workers)}; quarantined until cleared"
        return RetryDecision(state=S.QUARANTINED, because=because, trail=trail)
    trail, change = _with_more_resources(spec, policy, failure, trail, scheduler_settings, max_memory)
    return RetryDecision(
        state=S.PENDING, because=f"{tried}; retrying in {delay:.3g} s{change}", trail=trail,
        due_at=now + timedelta(seconds=delay),
    )  # fmt: skip


def max_attempts_for(spec: TaskSpec, policy: RetryPolicy, failure: Failure) -> int:
    """Return the attempt limit of a task for this failure.

    A class can lower the task's limit. Only built-in backoffs can raise it, and only if the task has the default limit.
    """
    class_backoff = policy.classes.get(failure.kind, _NO_BACKOFF).max_attempts
    if class_backoff is not None:
        return min(class_backoff, spec.max_attempts)
    built_in = _built_in_backoff(policy, failure).max_attempts
    return built_in if built_in is not None and spec.max_attempts == DEFAULT_ATTEMPTS else spec.max_attempts


def delay_seconds(
    task: Task, spec: TaskSpec, policy: RetryPolicy, failure: Failure, scheduler_settings: SchedulerSettings
) -> float:
    """Return the delay before the next attempt, with jitter unless the policy is linear."""
    spread = 1.0 if policy.linear else 1 + JITTER * _fraction(f"{task.id}:{task.generation}:{task.attempt}")
    return backoff_seconds(max(1, task.tries), spec, policy, failure, scheduler_settings) * spread


def backoff_seconds(
    tries: int, spec: TaskSpec, policy: RetryPolicy, failure: Failure, scheduler_settings: SchedulerSettings
) -> float:
    """Return the delay after `tries` attempts, without jitter.

    A delay given by the failing service takes precedence; then the job's backoff for the class, the built-in backoff,
    the job's backoff for all classes, and the installation's default.
    """
    if failure.retry_after_seconds is not None:
        return failure.retry_after_seconds
    sources = (
        policy.classes.get(failure.kind, _NO_BACKOFF),
        _built_in_backoff(policy, failure),
        Backoff(base_seconds=spec.retry_delay_seconds, factor=policy.factor, cap_seconds=policy.cap_seconds),
    )
    base = _first(sources, "base_seconds", scheduler_settings.retry_delay_seconds)
    cap = _first(sources, "cap_seconds", math.inf if policy.linear else scheduler_settings.retry_cap_seconds)
    factor = _first(sources, "factor", scheduler_settings.retry_factor)
    delay = base * tries if policy.linear else base * factor ** (tries - 1)
    # A cap below the base delay does not shorten the first delay.
    return min(delay, max(base, cap))


def _built_in_backoff(policy: RetryPolicy, failure: Failure) -> Backoff:
    if policy.linear:
        return _NO_BACKOFF
    return _OF_TYPE.get(failure.type) or _OF_CLASS.get(failure.kind) or _NO_BACKOFF


def _first(sources: Iterable[Backoff], field: str, otherwise: float) -> float:
    values: Iterator[float | None] = (getattr(one, field) for one in sources)
    return next((value for value in values if value is not None), otherwise)


def _decide_loss(task: Task, ending: FailedAttempt, trail: RetryState, delay: float, now: datetime) -> RetryDecision:
    if task.losses > MAX_LOSSES:
        because = f"infrastructure: worker lost {task.losses} times"
        return RetryDecision(state=S.FAILED, because=because, trail=trail)
    if len(trail.lost_on) >= QUARANTINE_AFTER_LOSSES:
        because = f"{' and '.join(trail.lost_on)} were lost while running it; quarantined until cleared"
        return RetryDecision(state=S.QUARANTINED, because=because, trail=trail)
    times = f"loss {task.losses} of at most {MAX_LOSSES}"
    if ending.end is AttemptEnd.LOST:
        return RetryDecision(state=S.QUEUED, because=f"worker lost ({times}); requeued", trail=trail)
    because = f"worker failed to run it ({times}): {ending.failure.message}; retrying in {delay:.3g} s"
    return RetryDecision(state=S.PENDING, because=because, trail=trail, due_at=now + timedelta(seconds=delay))


def _with_attempt(trail: RetryState, ending: FailedAttempt) -> RetryState:
    """Add this attempt to the retry state."""
    worker = ending.worker
    if ending.failure.kind is FailureClass.INFRASTRUCTURE or ending.end is AttemptEnd.LOST:
        counts = ending.worker_lost and worker not in trail.lost_on
        return replace(trail, lost_on=(*trail.lost_on, worker) if counts else trail.lost_on, is_probe=False)
    if ending.failure.signature != trail.signature:
        return replace(trail, signature=ending.failure.signature, workers=(worker,), is_probe=False)
    workers = trail.workers if worker in trail.workers else (*trail.workers, worker)
    return replace(trail, workers=workers, is_probe=False)


def _with_more_resources(
    spec: TaskSpec,
    policy: RetryPolicy,
    failure: Failure,
    trail: RetryState,
    scheduler_settings: SchedulerSettings,
    max_memory: int | None,
) -> tuple[RetryState, str]:
    """Grant the next attempt more memory or time; return the retry state and a description."""
    if failure.kind is FailureClass.RESOURCE:
        defined = spec.resources.memory_bytes
        now = trail.memory_bytes or defined
        most = policy.memory_limit_bytes if policy.memory_limit_bytes is not None else MAX_MEMORY_FACTOR * defined
        if max_memory is not None:
            most = min(most, max_memory)
        more = min(int(now * policy.memory_factor), most)
        if more > now:
            return replace(trail, memory_bytes=more), f", with {more / 2**20:.0f} MiB of memory"
    elif failure.kind is FailureClass.TIMEOUT and failure.type != STALLED:
        limit = timeouts.after_timeout(spec, trail, scheduler_settings)
        return replace(trail, limit_seconds=limit), f", with a limit of {limit:g} s"
    return trail, ""


def _format_end(ending: FailedAttempt) -> str:
    if ending.end is AttemptEnd.TIMED_OUT:
        return ending.failure.message
    return "failed" if ending.failure.kind is FailureClass.TRANSIENT else f"failed ({ending.failure.kind})"


def _fraction(name: str) -> float:
    """Return a pseudorandom number from 0 to 1 that is the same for the same name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) / 2**32
