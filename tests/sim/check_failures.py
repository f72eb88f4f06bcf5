"""Checks of failures: retried up to the limit, never without a chance of success, and quarantined when poisonous.

The result of a process shows its failure mode (`failure_modes.py`), so these checks do not use the rules under test.

1. Permanent failures are not retried (RTY-2).
2. A run retries no more often than its job allows, and counts its retries correctly (RTY-3).
3. While a circuit breaker is open, a retry of its signature, or a task of its job, starts only as a probe (RTY-4).
4. A task is QUARANTINED only while tries remain: the same failure on three workers, or two lost workers. Only a person
   releases it (RTY-5). After the same failure on three workers a task is retried only if others fail in the same way:
   then the circuit breaker is open.
5. A time limit ends only attempts that exceed it, a stall only attempts without progress (LIV-2, LIV-4).
"""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.lifecycle.states import HELD_BY_WORKER
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import TaskSpec
from mainspring.core.model.task import Attempt, AttemptEnd, StopKind, Task, TaskState, Transition
from tests.sim.clocks import StoreClock
from tests.sim.failure_modes import Kind, read_failure_mode
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model, Story

S = TaskState
WORKERS_ALIKE = 3
WORKERS_LOST = 2
_DRIFT = 0.95
_ON_ITS_WAY = 5.0
"""Maximum duration of a commit, in seconds: a slow call takes 3."""
_SLACK = 2.5
"""Tolerance in seconds: a turn counts at most 2, and a commit takes a little."""
_JUMP_LASTS = 90.0
_ROUNDED = 0.001
_ALIKE_WITHIN = 45.0
_MORE = 3
"""Tolerance in failures until a circuit breaker must be open: clocks jump, and turns take several at once."""
_AGAIN = frozenset({S.PENDING, S.QUEUED})


class FailureCheck:
    """Checks the failures of a batch against the model, before the batch is applied to it."""

    def __init__(
        self, findings: Findings, ever: Ever, now: Callable[[], float], store: StoreClock, opens_at: int
    ) -> None:
        self._require = findings.require
        self._count = findings.count
        self._ever = ever
        self._now = now
        self._store = store
        self._opens_at = opens_at
        self._alike: dict[str, list[float]] = {}
        """Failure times by signature, as far as the leader remembers."""

    def loaded(self) -> None:
        """Record that a leader has loaded the rows: counts in memory only are lost."""
        self._alike.clear()

    def check(self, model: Model, batch: Batch) -> None:
        """Check the attempts that end in a batch, and its stop requests."""
        common = {subject for kind, subject in model.breakers if kind == "signature"}
        common.update(row.subject for row in batch.breakers)
        for row in batch.breakers:
            if row.closed_at is not None:
                model.breakers.pop((row.kind, row.subject), None)
        changed = {change.task.id: change.task for change in batch.tasks}
        for step in batch.transitions:
            self._check_step(model, step)
        for attempt in batch.attempts:
            led_to = _step_after(batch, attempt)
            task = model.live.get(attempt.id)
            if led_to is not None and task is not None:
                after = changed[task.id]
                happens_to_all = after.trail is not None and after.trail.signature in common
                # A timed-out attempt whose worker is lost before it has stopped counts as an attempt, not as a loss.
                is_try = after.tries > task.tries
                self._check_delay(model, attempt, led_to, after)
                self._check_attempt(model, attempt, led_to, task, happens_to_all=happens_to_all, is_try=is_try)
        self._check_queued(model, batch)
        for change in batch.tasks:
            self._check_stop(model, change.task, model.spec_of(change.task))

    def check_counted(self, model: Model, batch: Batch) -> None:
        """Check that each run's row counts its retries (RTY-3)."""
        for run in batch.runs:
            counted = model.retries.get((run.id, run.generation), 0)
            self._require("RTY-3", run.retries == counted, f"{run.id} says {run.retries} retries, and had {counted}")

    def check_placed(self, model: Model, task: Task) -> None:
        """Check that a job with an open circuit breaker starts probes only (RTY-4)."""
        subject = f"{task.tenant}/{model.job_of(task.run_id).spec.name}"
        if ("job", subject) in model.breakers:
            self._require("RTY-4", _is_probe(task), f"{task.id} starts, and the circuit of {subject} is open")

    def _check_queued(self, model: Model, batch: Batch) -> None:
        """Check that due retries are not queued while a breaker is open for their signature, except probes (RTY-4)."""
        due = {step.task_id for step in batch.transitions if (step.start, step.end) == (S.PENDING, S.QUEUED)}
        for change in batch.tasks:
            task = change.task
            if task.id in due and task.tries and task.trail is not None and change.was is S.PENDING:
                held = ("signature", task.trail.signature) in model.breakers
                self._require("RTY-4", not held or _is_probe(task), f"{task.id} is retried, and {task.trail} is held")

    def apply_openings(self, model: Model, batch: Batch) -> None:
        """Check that enough failures with one signature open a breaker, which applies to later batches (RTY-4)."""
        for row in batch.breakers:
            if row.closed_at is None:
                model.breakers[row.kind, row.subject] = row
            else:
                self._alike.pop(row.subject, None)
        failed = {attempt.task_id: attempt for attempt in batch.attempts if attempt.end is AttemptEnd.FAILED}
        for change in batch.tasks:
            attempt, trail = failed.get(change.task.id), change.task.trail
            failure_mode = read_failure_mode(attempt.error) if attempt is not None else None
            if trail is None or failure_mode is None or failure_mode[0] is Kind.PERMANENT:
                continue
            now = self._now()
            alike = self._alike.setdefault(trail.signature, [])
            alike[:] = [at for at in alike if at > now - _ALIKE_WITHIN] + [now]
            held = ("signature", trail.signature) in model.breakers or len(alike) < self._opens_at + _MORE
            self._require("RTY-4", held, f"{len(alike)} failures like {failure_mode}, and no circuit opens")

    def _check_step(self, model: Model, step: Transition) -> None:
        if step.end is S.RUNNING:
            self._ever.began[step.task_id] = (step.seq, self._now())
        elif step.start is S.QUARANTINED and step.end is not S.CANCELLED:
            self._require("RTY-5", step.by.startswith("person:"), f"{step.task_id} was cleared by {step.by}")
            model.stories.pop((step.task_id, step.generation), None)

    def _check_attempt(
        self, model: Model, attempt: Attempt, step: Transition, task: Task, *, happens_to_all: bool, is_try: bool
    ) -> None:
        key = (attempt.task_id, attempt.generation)
        story = model.stories.get(key, Story())
        said = f"{attempt.task_id} {attempt.end} ({attempt.error}) leads to {step.end}: {step.because}"
        failure_mode = read_failure_mode(attempt.error)
        run, end = model.runs[attempt.run_id], attempt.end
        if end is AttemptEnd.LOST and is_try:
            end = AttemptEnd.TIMED_OUT
        match end:
            case AttemptEnd.FAILED | AttemptEnd.TIMED_OUT:
                alike = end if end is AttemptEnd.TIMED_OUT else failure_mode or attempt.error
                workers = story.workers if alike == story.alike else frozenset()
                story = Story(alike, workers | {attempt.worker_id}, story.lost_on)
                if step.end in _AGAIN and failure_mode is not None:
                    self._require("RTY-2", failure_mode[0] is not Kind.PERMANENT, said)
                    few = len(story.workers) < WORKERS_ALIKE or happens_to_all
                    self._require("RTY-5", few, f"{said}; alike on {sorted(story.workers)}")
            case AttemptEnd.LOST:
                story = Story(story.alike, story.workers, story.lost_on | {attempt.worker_id})
            case _:
                pass
        if step.end is S.PENDING:
            count = model.retries[run.id, run.generation] = model.retries.get((run.id, run.generation), 0) + 1
            most = model.job_of(run.id).spec.max_retries
            self._require("RTY-3", count <= most, f"{said}; {count} retries of {run.id}, {most} are allowed")
        model.stories[key] = story
        if step.end is S.QUARANTINED and attempt.end is not AttemptEnd.REJECTED:
            poisonous = len(story.workers) >= WORKERS_ALIKE or len(story.lost_on) >= WORKERS_LOST
            left = model.counted.get(key, 0) < model.spec_of(task).max_attempts
            self._require("RTY-5", poisonous and left, f"{said}; {story}")

    def _check_delay(self, model: Model, attempt: Attempt, step: Transition, after: Task) -> None:
        """Check that a linear policy gives the exact delay, unless too many retries would be due at once (RTY-2)."""
        spec, job = model.spec_of(after), model.job_of(after.run_id).spec
        policy = spec.retry or job.retry
        is_failure = attempt.end in (AttemptEnd.FAILED, AttemptEnd.TIMED_OUT)
        if not policy.linear or not is_failure or step.end is not S.PENDING or after.due_at is None:
            return
        base = spec.retry_delay_seconds or 0.0
        expected = base * after.tries
        if policy.cap_seconds is not None:
            expected = min(expected, max(base, policy.cap_seconds))
        waits = (after.due_at - step.at).total_seconds()
        right = waits > expected - _ROUNDED and f"; retrying in {expected:.3g} s" in step.because
        self._require("RTY-2", right, f"{attempt.task_id} waits {waits} s, not {expected}: {step.because}")

    def _check_stop(self, model: Model, task: Task, spec: TaskSpec) -> None:
        """Check that an attempt stopped at its time limit has used it up (LIV-2, LIV-4)."""
        old = model.task(task.id)
        if task.stop is None or task.attempt_id is None or (old is not None and old.stop == task.stop):
            return
        _, began = self._ever.began.get(task.id, (0, 0.0))
        if task.stop.kind is StopKind.TIMEOUT:
            limit = task.trail.limit_seconds if task.trail is not None else None
            self._check_length("LIV-4", began, limit or spec.timeout_seconds or 60.0, task, since_start=True)
        elif task.stop.kind is StopKind.STALL:
            leader = model.fence.nonce
            _, heard, before = self._ever.moved.get((leader, task.attempt_id), (None, 0.0, 0.0))
            if self._now() - heard < _ON_ITS_WAY:
                heard = before  # it may have arrived after this batch was decided
            since = max(began, heard, self._ever.led_since[leader])
            self._check_length("LIV-2", since, spec.stall_seconds or 600.0, task, since_start=since == began)

    def _check_length(self, name: str, since: float, limit: float, task: Task, *, since_start: bool) -> None:
        # After a jump back, the leader's time stands still for a while, ahead of the store's.
        jumps = sum(1 for at in self._store.jumps if at >= since - _JUMP_LASTS)
        least = limit * _DRIFT - _SLACK - 62.0 * jumps
        passed = self._now() - since
        if task.started_at is not None and since_start:
            # That commit may have been slow: time counts from the decision.
            passed = max(passed, (self._store.wall() - task.started_at).total_seconds())
        self._require(name, passed >= least, f"{task.id} is stopped after {passed:.1f} s of {limit:g}: {task.stop}")


def _step_after(batch: Batch, attempt: Attempt) -> Transition | None:
    """The new state of the task when an attempt ends."""
    for step in batch.transitions:
        if step.task_id == attempt.task_id and step.start in HELD_BY_WORKER and step.end not in HELD_BY_WORKER:
            return step
    return None


def _is_probe(task: Task) -> bool:
    return task.trail is not None and task.trail.is_probe
