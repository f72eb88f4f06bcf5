"""Memory of a shard: a few state objects, each with its own invariants. All of it can be reloaded from rows (HA-3).

    runs       adopted runs and their tasks         attempts   tasks that workers hold
    workers    who can take tasks                   leases     the capacity that attempts use
    queues     queued, blocked and starved tasks    limits     rules, groups, throttles, circuit breakers
    claims     HTTP workers that wait for work      backlog    work left for later turns
    timers     shard time and timers                durations  how long tasks took

`ShardMemory` has the changes that concern several of them, so that they stay consistent:

1. An attempt that is added is in `attempts` and in `live` of its run; an attempt that ended is in neither (I-12).
2. The last attempt of a lease ends the lease: capacity, usage and group limits are free, and tasks waiting for them are
   considered again.
3. Every change of a worker ends with `refresh`.
"""

from __future__ import annotations

import msgspec

from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.lifecycle.duration_stats import DurationStats
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.core.model.task import Task
from mainspring.core.model.worker import Lease, Worker
from mainspring.core.placement.feasibility import obstacles
from mainspring.core.placement.task_shapes import Shape, with_memory
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.state.attempts import Attempts
from mainspring.shard.state.backlog import Backlog
from mainspring.shard.state.leases import Leases
from mainspring.shard.state.limits import Limits
from mainspring.shard.state.open_claims import OpenClaims
from mainspring.shard.state.queues import ShardQueues
from mainspring.shard.state.runs import Runs
from mainspring.shard.state.timers import ShardTimers
from mainspring.shard.state.workers import Workers


class ShardMemory:
    """Everything that one shard knows."""

    def __init__(self, shard: str, scheduler_settings: SchedulerSettings = DEFAULTS) -> None:
        self.shard = shard
        self.scheduler_settings = scheduler_settings
        self.runs = Runs()
        self.attempts = Attempts()
        self.workers = Workers()
        self.leases = Leases()
        self.queues = ShardQueues()
        self.limits = Limits(scheduler_settings)
        self.claims = OpenClaims()
        self.backlog = Backlog()
        self.timers = ShardTimers(self._is_stale)
        self.durations = DurationStats()

    @property
    def shard_time(self) -> float:
        """Shard time in seconds."""
        return self.timers.shard_time

    @property
    def rules(self) -> SharingRules:
        """The sharing rules in force."""
        return self.limits.rules

    def apply_settings(self, scheduler_settings: SchedulerSettings) -> None:
        """Apply changed settings.

        A timer set under the old settings still fires once. Its subject is then judged by the new ones, except an
        assignment that is not acknowledged. Paced runs start with full buckets.
        """
        self.scheduler_settings = scheduler_settings
        self.limits.apply_settings(scheduler_settings)
        for run in self.runs.values():
            run.buckets.clear()

    def set_rules(self, rules: SharingRules) -> None:
        """Replace the sharing rules: tenants that had enough may have more."""
        self.limits.set_rules(rules)
        self.queues.retry_tenants()

    def shape(self, task: Task) -> Shape:
        """The current resource request of a task."""
        run, trail = self.runs[task.run_id], task.trail
        shape = run.shape(task.position)
        if shape.groups or shape.affinity or shape.anti_affinity:
            groups = tuple(limit_of(task.tenant, name) for name in shape.groups if name not in run.job.spec.groups)
            of_run = task.run_id if shape.affinity or shape.anti_affinity else ""
            shape = msgspec.structs.replace(shape, groups=groups, run=of_run, group_size=1)
        if trail is None or trail.memory_bytes is None:
            return shape
        return with_memory(shape, trail.memory_bytes)

    # attempts and leases

    def add_attempt(self, attempt_id: str, task: Task) -> None:
        """Add an attempt of a task that a worker holds."""
        self.attempts.add(attempt_id, task)
        self.runs[task.run_id].live[task.position] = task

    def open_lease(self, lease: Lease) -> None:
        """Add a lease whose attempts are held, and count its resources as used."""
        worker = self.workers[lease.worker_id]
        self.leases.open(lease, worker, self.shard_time)
        worker.claim_slots = worker.claim_slots and worker.claim_slots - 1
        self.limits.ledger.take(lease.shape.groups)
        self.workers.open.update(worker)

    def release_attempt(self, attempt_id: str, lease_id: str) -> None:
        """Remove an ended attempt. The last one of its lease releases the capacity."""
        task = self.attempts.remove(attempt_id)
        if task is not None:
            self.runs[task.run_id].live.pop(task.position, None)
            self.queues.wake_affinity(task.run_id)
        lease = self.leases[lease_id]
        lease.members.pop(attempt_id, None)
        if lease.members:
            if lease.has_mixed_priorities:
                self.leases.update_priority(lease)
            return
        worker = self.workers[lease.worker_id]
        weight = self.rules.weight(lease.tenant)
        self.leases.close(lease, worker, self.workers.capacity, shard_time=self.shard_time, weight=weight)
        self.queues.retry_tenant(lease.tenant)
        self.limits.ledger.release(lease.shape.groups)
        self.refresh(worker)

    # capacity

    def add_worker(self, worker_id: str) -> Worker:
        """Add a worker that is not known."""
        return self.workers.add(worker_id, self.shard_time)

    def refresh(self, worker: Worker) -> None:
        """Update the index of open workers after a change of a worker, and wake parked shapes that now fit."""
        if self.workers.open.update(worker) and self.queues.parked:
            zones = self.limits.zones
            self.queues.wake(lambda shape: not obstacles(shape, worker, zones=zones), may_try=self._waits_for_capacity)
        if worker.reserved:
            self._note_ready(worker)

    def free_slots(self, shape: Shape) -> int:
        """Estimate how many tasks of a shape fit now, given that one does."""
        return max(1, self.workers.open.free_cpu_millis // max(1, shape.resources.cpu_millis))

    def mark_starved_if_parked(self, task: Task, shape: Shape) -> None:
        """A task joined a queue that may have been skipped for lack of capacity: it may be entitled to some."""
        if self.limits.ledger.waits(shape):
            self.limits.ledger.freed.update(shape.groups)  # more may have to be requested
        elif shape in self.queues.parked:
            self.queues.starved.mark_starved((task.priority, task.tenant, shape), self.shard_time)

    def _waits_for_capacity(self, shape: Shape) -> bool:
        """Whether a parked shape waits for capacity and nothing else."""
        return shape not in self.queues.faulty and not self.limits.ledger.waits(shape)

    def _note_ready(self, worker: Worker) -> None:
        """Record queues whose reservation on this worker can be used now."""
        self.queues.starved.note_changed_worker(worker.id)
        for task_id, reserved_capacity in worker.reserved.items():
            task = self.runs.find(task_id)
            if task is not None and reserved_capacity.fits(worker.free_for(task_id)):
                self.queues.mark_ready((task.priority, task.tenant, self.shape(task)))

    def _is_stale(self, timer: TimerDue) -> bool:
        """Whether the subject of a timer has changed since it was set."""
        subject, stamp, limits = timer.subject, timer.stamp, self.limits
        match timer.kind:
            case TimerKind.SILENCE:
                worker = self.workers.get(subject)
                return worker is None or worker.watched != stamp
            case TimerKind.RECEIPT:
                return subject not in self.leases
            case TimerKind.CLAIM:
                return int(subject) not in self.claims.open
            case TimerKind.PACE:
                return subject not in self.backlog.deferred
            case TimerKind.RUN_LIMIT | TimerKind.DEADLINE:
                run = self.runs.get(subject)
                return run is None or run.run.generation != stamp
            case TimerKind.RESERVATION if not subject:
                return not self.queues.starved.has_alarm()
            case TimerKind.RULES:
                return stamp != limits.rules.version
            case TimerKind.LIMIT:
                return subject not in limits.ledger.not_before
            case TimerKind.THROTTLE:
                return subject not in limits.throttles
            case TimerKind.CIRCUIT:
                circuit = limits.signature_breakers.open.get(subject) or limits.job_breakers.open.get(subject)
                return circuit is None or int(circuit.opened_at) != stamp
            case _:
                task = self.runs.find(subject)
                return task is None or task.state in FINAL or task.seq != stamp
