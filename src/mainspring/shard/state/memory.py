"""Memory of a shard: runs, tasks, workers, leases, queues, timers. All of it can be reloaded from rows (HA-3).

1. `attempts` has exactly the attempts of tasks that a worker holds, and each is a member of one lease (I-10, I-12).
2. A run is here from its adoption until it is final.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

import msgspec

from mainspring.core.admission.intake import TaskCounts
from mainspring.core.fairness.fair_queues import FairQueues
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.fairness.recent_usage import RecentUsage
from mainspring.core.fairness.sharing_rules import NO_RULES, SharingRules
from mainspring.core.lifecycle.circuit_breakers import JobBreakers, SignatureBreakers
from mainspring.core.lifecycle.duration_stats import DurationStats
from mainspring.core.lifecycle.states import FINAL, HELD_BY_WORKER
from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.limits.failure_budget import FailureCounts
from mainspring.core.limits.retry_rate import RetryRateLimiter
from mainspring.core.limits.token_bucket import TokenBucket
from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.batch import BulkOperationKind, WorkerRow
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.run import Run
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.core.model.task import Priority, StopKind, Task
from mainspring.core.model.worker import Hold, Lease, Worker, is_claimant
from mainspring.core.placement.feasibility import obstacles
from mainspring.core.placement.task_shapes import Shape, with_memory
from mainspring.core.placement.worker_index import OpenWorkers
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.placement.blocked import BlockedTasks
from mainspring.shard.placement.limit_ledger import LimitLedger
from mainspring.shard.placement.starved_queues import QueueKey, StarvedQueues
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.state.timers import Timers
from mainspring.shard.workers.open_claims import OpenClaims
from mainspring.shard.workers.recent_workers import RecentWorkers

PAST_INTAKE = FINAL | HELD_BY_WORKER
"""Tasks in these states do not limit intake: running tasks are bounded by the workers."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TURN_SECONDS = 2.0
_MAX_INTAKE_OVERRIDES = 20_000
"""More than can be on their way from intake."""


class AttemptProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an attempt, as reported by its worker."""

    percent: float | None
    note: str
    moved: float
    """When it last changed, in shard time."""


class Throttle(msgspec.Struct, kw_only=True):
    """Start rate of a tenant that is over its failure budget."""

    bucket: TokenBucket
    due: float = 0.0
    """When a timer checks it again, in shard time."""


class DeferredWork(msgspec.Struct, kw_only=True):
    """Paced work of one run that was deferred."""

    bulk_operations: list[tuple[str, BulkOperationKind, str]] = []
    propagations: list[tuple[str, int]] = []


class ShardMemory:
    """Everything that one shard knows."""

    def __init__(
        self, shard: str, scheduler_settings: SchedulerSettings = DEFAULTS
    ) -> None:  # tidy: long because it lists all fields
        self.shard = shard
        self.scheduler_settings = scheduler_settings
        self.runs: dict[str, RunMemory] = {}
        self.attempts: dict[str, Task] = {}
        self.workers: dict[str, Worker] = {}
        self.held: dict[str, WorkerRow] = {}
        """Rows of cordoned and draining workers, connected or not."""
        self.attempt_progress: dict[str, AttemptProgress] = {}
        """By attempt, for those that report progress."""
        self.deadlines: dict[str, float] = {}
        """By attempt, for those that were extended: the deadline in shard time."""
        self.alerted: dict[str, frozenset[AlertKind]] = {}
        """By attempt: alerts that were raised, and have to be resolved at its end."""
        self.watches = 0
        """How many silence timers have been set for workers."""
        self.open_workers = OpenWorkers()
        self.leases: dict[str, Lease] = {}
        self.holders: dict[Priority, dict[str, int]] = {priority: {} for priority in Priority}
        """By priority: number of leases per worker."""
        self.stopping_leases: dict[str, Lease] = {}
        """Leases with a task that was asked to stop, or whose rest was recalled."""
        self.saved_at: dict[str, datetime] = {}
        """By attempt, for those with a checkpoint: when it was last saved."""
        self.reserved_tasks: dict[QueueKey, dict[str, Task]] = {}
        """By queue: tasks with a reservation, by id (`shard/placement/reservations.py`)."""
        self.ready_queues: dict[QueueKey, None] = {}
        """Queues whose reserved capacity may be free: they are placed even if their shape is parked for others."""
        self.starved_queues = StarvedQueues()
        self.queues = FairQueues()
        self.use: dict[str, Resources] = {}
        """By tenant: total resources of its live leases."""
        self.lease_counts: dict[str, int] = {}
        """By tenant: number of live leases."""
        self.recent_usage = {priority: RecentUsage() for priority in Priority}
        """By tenant: recent usage, which orders tenants with equal shares."""
        self.blocked, self.groups, self.claims = BlockedTasks(), LimitLedger(), OpenClaims()
        self.recent_workers = RecentWorkers()
        self.affinity_parked: dict[str, set[Shape]] = {}
        """By run: shapes that wait for tasks of their run to be elsewhere."""
        self.failures = FailureCounts()
        self.throttles: dict[str, Throttle] = {}
        """By tenant, for those over their failure budget."""
        self.rule(NO_RULES)
        self.capacity = ZERO_RESOURCES
        """Total resources of all ready workers."""
        self.in_memory = TaskCounts()
        """Tasks that are neither final nor held by a worker, including those not created yet."""
        self.propagations: deque[tuple[str, int]] = deque()
        self.undecided: deque[tuple[str, int]] = deque()
        """Tasks found while loading that may be ready."""
        self.bulk_operations: deque[tuple[str, BulkOperationKind, str]] = deque()
        self.deferred: dict[str, DeferredWork] = {}
        """By run: work removed from the queues above until a timer returns it."""
        self.faulty_shapes: dict[Shape, str] = {}
        """Shapes whose placement failed because of a bug or bad data."""
        self.suspended_from: Priority | None = None
        self.life = 0.0
        """Shard time in seconds: advances at most 2 s per turn."""
        self._last_turn: datetime | None = None
        self.timers_at = Timers(self._is_stale)
        self.timers_after = Timers(self._is_stale)
        self.intake_overrides: dict[str, Run | None] = {}
        """Runs that an action changed before they arrived from intake; None: already adopted."""
        self.retry_limiter = RetryRateLimiter(
            scheduler_settings.retries_per_second, scheduler_settings.same_signature_retries_per_second
        )
        self.signature_breakers = SignatureBreakers()
        self.job_breakers = JobBreakers()
        self.durations = DurationStats()
        self.runs_to_check: deque[str] = deque()
        """Runs left in the current round of invariant checks."""

    def advance_clock(self, now: datetime) -> None:
        """Advance the shard's clock."""
        self.life += self._since_last_turn(now)
        self._last_turn = now

    def retune(self, scheduler_settings: SchedulerSettings) -> None:
        """Apply changed settings.

        A timer set under the old settings still fires once. Its subject is then judged by the new ones, except an
        assignment that is not acknowledged. Paced runs start with full buckets.
        """
        self.scheduler_settings = scheduler_settings
        self.retry_limiter.retune(
            scheduler_settings.retries_per_second, scheduler_settings.same_signature_retries_per_second
        )
        self.throttles.clear()
        for run in self.runs.values():
            run.buckets.clear()

    def rule(self, rules: SharingRules) -> None:
        """Apply changed sharing rules. The effects on waiting tasks are in `shard/placement/rule_changes.py`."""
        self.rules = rules
        self.queues.retry_tenants()
        self.guaranteed_tenants = frozenset(tenant for tenant, row in rules.quotas.items() if row.may_have_guarantee())
        """Tenants with a guarantee, now or at another time."""
        self.frozen_jobs = {row.subject: row for row in rules.freezes if row.kind is FreezeKind.JOB}
        self.frozen_tenants = {row.subject: row for row in rules.freezes if row.kind is FreezeKind.TENANT}
        self.zones = () if rules.pool is None else rules.pool.zones
        """Zones whose workers get work; empty: all."""

    def override_intake(self, run_id: str, row: Run | None) -> None:
        """Remember that an action changed a run that may be on its way from intake; None: it was adopted."""
        self.intake_overrides[run_id] = row
        if len(self.intake_overrides) > _MAX_INTAKE_OVERRIDES:
            del self.intake_overrides[next(iter(self.intake_overrides))]

    def find(self, task_id: str) -> Task | None:
        """Return a task by its id, if its run is in memory."""
        run_id, _, place = f"run_{task_id[5:]}".partition(".")
        memory = self.runs.get(run_id)
        if memory is None:
            return None
        position = int(place) if place.isdigit() else memory.position_of(place)
        return memory.tasks[position] if position is not None and position < len(memory.tasks) else None

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

    def add_worker(self, worker_id: str) -> Worker:
        """Add a worker that is not known. A cordon still applies."""
        row = self.held.get(worker_id)
        wants = 0 if is_claimant(worker_id) else None
        worker = self.workers[worker_id] = Worker(id=worker_id, last_heartbeat=self.life, wants=wants)
        if row is not None:
            worker.hold, worker.hold_why = Hold(row.hold), row.hold_why
        return worker

    # leases and usage

    def open_lease(self, lease: Lease) -> None:
        """Add a lease, and count its resources as used."""
        worker = self.attach_lease(lease)
        lease.since = self.life
        worker.wants = worker.wants and worker.wants - 1
        self.use[lease.tenant] = self.use.get(lease.tenant, ZERO_RESOURCES) + lease.shape.resources
        self.lease_counts[lease.tenant] = self.lease_counts.get(lease.tenant, 0) + 1
        self.groups.take(lease.shape.groups)
        self.open_workers.update(worker)

    def attach_lease(self, lease: Lease) -> Worker:
        """Attach a lease to its worker, and count its resources there."""
        worker = self.workers[lease.worker_id]
        self.leases[lease.id] = lease
        worker.leases[lease.id] = lease
        worker.used += lease.shape.resources
        self.count_holder(lease, 1)
        return worker

    def hold(self, attempt_id: str, task: Task) -> None:
        """Register an attempt of a task that a worker holds."""
        self.attempts[attempt_id] = task
        self.runs[task.run_id].live[task.position] = task

    def release_attempt(self, attempt_id: str, lease_id: str) -> None:
        """Remove an ended attempt. The last one of its lease releases the capacity."""
        task = self.attempts.pop(attempt_id, None)
        if task is not None:
            self.runs[task.run_id].live.pop(task.position, None)
            if self.affinity_parked:
                self.wake_affinity(task.run_id)
        self.attempt_progress.pop(attempt_id, None)
        self.deadlines.pop(attempt_id, None)
        self.alerted.pop(attempt_id, None)
        self.saved_at.pop(attempt_id, None)
        lease = self.leases[lease_id]
        lease.members.pop(attempt_id, None)
        if lease.members:
            if lease.has_mixed_priorities:
                self.update_priority(lease)
            return
        worker = self.workers[lease.worker_id]
        resources = lease.shape.resources
        del self.leases[lease_id], worker.leases[lease_id]
        self.stopping_leases.pop(lease_id, None)
        self.count_holder(lease, -1)
        worker.used -= resources
        had_for, weight = self.life - lease.since, self.rules.weight(lease.tenant)
        self.recent_usage[lease.priority].add(lease.tenant, resources, self.capacity, seconds=had_for, weight=weight)
        self.use[lease.tenant] -= resources
        self.lease_counts[lease.tenant] -= 1
        if not self.lease_counts[lease.tenant]:
            del self.use[lease.tenant], self.lease_counts[lease.tenant]
        self.queues.retry_tenant(lease.tenant)
        self.groups.release(lease.shape.groups)
        self.refresh(worker)

    def mark_starved_if_parked(self, task: Task, shape: Shape) -> None:
        """A task joined a queue that may have been skipped for lack of capacity: it may be entitled to some."""
        if self.waits_for_group(shape):
            self.groups.freed.update(shape.groups)  # more may have to be requested
        elif shape in self.queues.parked:
            self.starved_queues.mark_starved((task.priority, task.tenant, shape), self.life)

    def update_priority(self, lease: Lease) -> None:
        """Recompute the priority of a lease whose tasks changed."""
        self.count_holder(lease, -1)
        lease.update_priority()
        self.count_holder(lease, 1)

    def count_holder(self, lease: Lease, change: int) -> None:
        """Add to the number of leases of a priority that a worker has."""
        holders = self.holders[lease.priority]
        count = holders.get(lease.worker_id, 0) + change
        if count:
            holders[lease.worker_id] = count
        else:
            del holders[lease.worker_id]

    def note_stopping(self, task: Task) -> None:
        """Record that a held task was asked to stop. A HOLD is only a request to return it."""
        if task.lease_id is not None and task.stop is not None and task.stop.kind is not StopKind.HOLD:
            self.stopping_leases[task.lease_id] = self.leases[task.lease_id]

    def refresh(self, worker: Worker) -> None:
        """Update `open_workers` after a change of a worker, and wake parked shapes that now fit."""
        if self.open_workers.update(worker) and self.queues.parked:
            zones = self.zones
            self.queues.wake(lambda kind: not obstacles(kind, worker, zones=zones), may_try=self._waits_for_capacity)
        if worker.reserved:
            self._note_ready(worker)

    def _waits_for_capacity(self, shape: Shape) -> bool:
        """Whether a parked shape waits for capacity and nothing else."""
        return shape not in self.faulty_shapes and not self.waits_for_group(shape)

    def free_slots(self, shape: Shape) -> int:
        """Estimate how many tasks of a shape fit now, given that one does."""
        return max(1, self.open_workers.free_cpu_millis // max(1, shape.resources.cpu_millis))

    def waits_for_group(self, shape: Shape) -> bool:
        """Whether a shape is parked because a group of it is full: capacity does not help."""
        return any(shape in self.groups.parked.get(limit, ()) for limit in shape.groups)

    def park(self, shape: Shape, why: str) -> None:
        """Park a shape that found no capacity. If it has affinity rules, changes of its run wake it."""
        self.queues.park(shape, why)
        if shape.run:
            self.affinity_parked.setdefault(shape.run, set()).add(shape)

    def wake_affinity(self, run_id: str) -> None:
        """Tasks of a run started or ended: wake shapes whose affinity depends on them."""
        self.queues.unpark(self.affinity_parked.pop(run_id, ()))

    def _note_ready(self, worker: Worker) -> None:
        """Record queues whose reservation on this worker can be used now."""
        self.starved_queues.changed_workers[worker.id] = None
        for task_id, reserved_capacity in worker.reserved.items():
            task = self.find(task_id)
            if task is not None and reserved_capacity.fits(worker.free_for(task_id)):
                shape = self.shape(task)
                if shape not in self.faulty_shapes:
                    self.ready_queues[task.priority, task.tenant, shape] = None

    # timers

    def set_timer_at(self, due_at: datetime, timer: TimerDue) -> None:
        """Set a timer for a time of the store's clock."""
        self.timers_at.set((due_at - _EPOCH).total_seconds(), timer)

    def set_timer_after(self, seconds: float, timer: TimerDue) -> None:
        """Set a timer after a number of seconds of shard time."""
        self.timers_after.set(self.life + seconds, timer)

    def due(self, now: datetime, most: int) -> list[TimerDue]:
        """Return the timers that have fired."""
        found = self.timers_at.pop_due((now - _EPOCH).total_seconds(), most)
        return found + self.timers_after.pop_due(self.life, most)

    def seconds_to_timer(self, now: datetime) -> float | None:
        """Seconds until the next timer; None if there is none."""
        instant, length = self.timers_at.next_due(), self.timers_after.next_due()
        waits = []
        if instant is not None:
            waits.append(instant - (now - _EPOCH).total_seconds())
        if length is not None:
            waits.append(length - self.life - self._since_last_turn(now))
        return max(0.0, min(waits)) if waits else None

    def _since_last_turn(self, now: datetime) -> float:
        """Seconds since the last turn, up to the limit per turn."""
        if self._last_turn is None:
            return 0.0
        return min(max((now - self._last_turn).total_seconds(), 0.0), MAX_TURN_SECONDS)

    def _is_stale(self, timer: TimerDue) -> bool:
        if timer.kind is TimerKind.SILENCE:
            worker = self.workers.get(timer.subject)
            return worker is None or worker.watched != timer.stamp
        if timer.kind is TimerKind.RECEIPT:
            return timer.subject not in self.leases
        if timer.kind is TimerKind.CLAIM:
            return int(timer.subject) not in self.claims.open
        if timer.kind is TimerKind.PACE:
            return timer.subject not in self.deferred
        if timer.kind in (TimerKind.RUN_LIMIT, TimerKind.DEADLINE):
            run = self.runs.get(timer.subject)
            return run is None or run.run.generation != timer.stamp
        if timer.kind is TimerKind.RESERVATION and not timer.subject:
            return self.starved_queues.alarm is None
        if timer.kind is TimerKind.RULES:
            return timer.stamp != self.rules.version
        if timer.kind is TimerKind.LIMIT:
            return timer.subject not in self.groups.not_before
        if timer.kind is TimerKind.THROTTLE:
            return timer.subject not in self.throttles
        if timer.kind is TimerKind.CIRCUIT:
            circuit = self.signature_breakers.open.get(timer.subject) or self.job_breakers.open.get(timer.subject)
            return circuit is None or int(circuit.opened_at) != timer.stamp
        task = self.find(timer.subject)
        return task is None or task.state in FINAL or task.seq != timer.stamp
