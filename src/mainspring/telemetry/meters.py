"""Metrics from committed batches: transitions, wait and run times, ends of runs, failures.

mainspring_transitions_total{state}       mainspring_failures_total{class}
mainspring_preemptions_total{priority}    preempted tasks
mainspring_task_wait_seconds{priority}    from QUEUED to the start of the process
mainspring_task_run_seconds{priority}     from the start of an attempt to its end
mainspring_runs_total{job,result}         mainspring_run_seconds{result}
mainspring_run_late_seconds               scheduled runs: from the window to the first start
"""

from __future__ import annotations

from collections import Counter as Tally
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram

from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.lifecycle.failures import classify
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import Batch
from mainspring.core.model.run import FINAL_RUN, Run
from mainspring.core.model.task import Attempt, AttemptEnd, Priority, StopKind, TaskState
from mainspring.host.loop import Leader
from mainspring.telemetry.labels import BoundedLabels

_DURATION_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
_CLASSES = {AttemptEnd.TIMED_OUT: FailureClass.TIMEOUT, AttemptEnd.LOST: FailureClass.INFRASTRUCTURE}
_MAX_REMEMBERED_TASKS = 500_000
"""More tasks than a leader has in its queues."""
_LEFT_THE_QUEUE = FINAL | {TaskState.PENDING, TaskState.RUNNING, TaskState.QUARANTINED}


class Meters:
    """The counters and histograms of all leaders of a server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def seconds(name: str, about: str, *labels: str) -> Histogram:
            return Histogram(name, about, labels, buckets=_DURATION_BUCKETS, registry=registry)

        self.transitions = Counter(
            "mainspring_transitions", "Task transitions by new state.", ["state"], registry=registry
        )
        self.failures = Counter(
            "mainspring_failures", "Failed attempts by failure class, without the jobs' own rules.",
            ["class"], registry=registry,
        )  # fmt: skip
        preemptions = Counter("mainspring_preemptions", "Preempted tasks.", ["priority"], registry=registry)
        self.preemptions = {priority: preemptions.labels(priority.name) for priority in Priority}
        self.runs = Counter("mainspring_runs", "Runs that ended.", ["job", "result"], registry=registry)
        self.run_seconds = seconds("mainspring_run_seconds", "From a run's first start to its end.", "result")
        self.late = seconds("mainspring_run_late_seconds", "Scheduled runs: from the window to the first start.")
        waits = seconds("mainspring_task_wait_seconds", "From QUEUED to the start of the process.", "priority")
        lasts = seconds("mainspring_task_run_seconds", "From the start of an attempt to its end.", "priority")
        self.wait = {priority: waits.labels(priority.name) for priority in Priority}
        self.run = {priority: lasts.labels(priority.name) for priority in Priority}
        self.jobs = BoundedLabels()


class LeaderMeter:
    """Counts the commits of one leader."""

    def __init__(self, meters: Meters, leader: Leader) -> None:
        self._meters = meters
        self._leader = leader
        self._ready: dict[str, datetime] = {}
        """Time of queuing, by task queued in this term."""
        self._preempted: set[str] = set()
        """Preempted attempts that have not ended."""

    def committed(self, batch: Batch) -> None:
        """Count a durable batch."""
        for state, number in Tally(transition.end for transition in batch.transitions).items():
            self._meters.transitions.labels(state.value).inc(number)
        self._measure_waits(batch)
        self._count_preempted(batch)
        for attempt in batch.attempts:
            self._count_attempt(attempt)
        for run in batch.runs:
            if run.state in FINAL_RUN and run.ended_at is not None:
                self._count_run(run, run.ended_at)

    def _measure_waits(self, batch: Batch) -> None:
        ready, wait = self._ready, self._meters.wait
        priorities = {change.task.id: change.task.priority for change in batch.tasks}
        for moved in batch.transitions:
            if moved.end is TaskState.QUEUED:
                ready.setdefault(moved.task_id, moved.at)
            elif moved.end in _LEFT_THE_QUEUE:
                since = ready.pop(moved.task_id, None)
                if since is not None and moved.end is TaskState.RUNNING:
                    wait[priorities.get(moved.task_id, Priority.P2)].observe((moved.at - since).total_seconds())
        if len(ready) > _MAX_REMEMBERED_TASKS:
            ready.clear()

    def _count_preempted(self, batch: Batch) -> None:
        for change in batch.tasks:
            stop, attempt = change.task.stop, change.task.attempt_id
            if stop is not None and stop.kind is StopKind.PREEMPT and attempt and attempt not in self._preempted:
                self._preempted.add(attempt)
                self._meters.preemptions[change.task.priority].inc()
        self._preempted.difference_update(attempt.id for attempt in batch.attempts)

    def _count_attempt(self, attempt: Attempt) -> None:
        if attempt.started_at is not None:
            task = self._leader.shard.memory.runs.find(attempt.task_id)
            priority = task.priority if task is not None else Priority.P2
            self._meters.run[priority].observe((attempt.ended_at - attempt.started_at).total_seconds())
        if attempt.end is AttemptEnd.FAILED:
            self._meters.failures.labels(classify(attempt.error, (), job="").kind.value).inc()
        elif attempt.end in _CLASSES:
            self._meters.failures.labels(_CLASSES[attempt.end].value).inc()

    def _count_run(self, run: Run, ended_at: datetime) -> None:
        result = run.state.value
        job = self._leader.job_name(run.job_id)
        self._meters.runs.labels(self._meters.jobs.of(job) if job else "", result).inc()
        began = run.started_at or run.start_at
        self._meters.run_seconds.labels(result).observe((ended_at - began).total_seconds())
        if run.window_at is not None and run.started_at is not None:
            self._meters.late.observe(max(0.0, (run.started_at - run.window_at).total_seconds()))
