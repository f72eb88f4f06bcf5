"""The expected content of the store: an independent model, built from the accepted batches.

Rows are never changed in place, so a copy of the dictionaries is a snapshot. `Ever` is what a restore of the store
can't undo: what clients and workers have seen.
"""

from __future__ import annotations

from copy import copy
from datetime import datetime, timedelta

import msgspec

from mainspring.core.graph import expansion
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import BreakerRow, BulkOperation, BulkOperationKind, Checkpoint, WorkerRow
from mainspring.core.model.job import Job, TaskSpec
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.schedule_rows import BackfillRow, FireRow, ScheduleRow
from mainspring.core.model.task import AttemptEnd, Task
from mainspring.core.placement.task_shapes import Shape, shape_of
from mainspring.protocol.wire import Result


class Story(msgspec.Struct, frozen=True):
    """History of one generation of a task."""

    alike: object = None
    """Signature of its last failure."""
    workers: frozenset[str] = frozenset()
    """Workers on which it failed with this signature."""
    lost_on: frozenset[str] = frozenset()


SpreadKey = tuple[str, BulkOperationKind, str]


class Fence(msgspec.Struct):
    """The shard's row: leader, lease end, and the last batch."""

    epoch: int = 0
    nonce: int = 0
    batch_no: int = 0
    lease_until: datetime | None = None
    ttl: timedelta = timedelta(0)
    holder: str = ""


class Model:
    """The rows that follow from the accepted batches."""

    def __init__(self) -> None:
        self.fence = Fence()
        self.jobs: dict[str, Job] = {}
        self.grown: dict[str, TaskSpec] = {}
        """Tasks added by outputs, including replaced outputs."""
        self.definitions: dict[str, Job] = {}
        """Including those that a restore has lost: hosts may still know them."""
        self.runs: dict[str, Run] = {}
        self.tasks: dict[str, list[Task]] = {}
        """Tasks by run and position."""
        self.born: dict[str, int] = {}
        """Positions of dynamic tasks, by id."""
        self.archived: dict[str, Run] = {}
        self.bulk_operations: dict[SpreadKey, BulkOperation] = {}
        self.live: dict[str, Task] = {}
        """Current attempts."""
        self.ended: dict[str, AttemptEnd] = {}
        self.counted: dict[tuple[str, int], int] = {}
        """Attempts that count, by task and generation."""
        self.leases: dict[str, dict[str, tuple[int, Resources]]] = {}
        """Leases by worker and id: number of attempts, and resources."""
        self.workers: dict[str, WorkerRow] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        """By task."""
        self.keys: dict[tuple[str, str], list[str]] = {}
        self.rejected: set[str] = set()
        """Subjects of rejected events."""
        self.schedules: dict[str, ScheduleRow] = {}
        self.fires: dict[str, dict[tuple[datetime, int], FireRow]] = {}
        """By schedule, then by window and generation. The inner ones are never changed in place."""
        self.backfills: dict[str, BackfillRow] = {}
        self.events: set[tuple[str, str, str]] = set()
        """Tenant, source and id."""
        self.breakers: dict[tuple[str, str], BreakerRow] = {}
        """Open breakers, by kind and subject."""
        self.retries: dict[tuple[str, int], int] = {}
        """By run and generation: number of retries."""
        self.stories: dict[tuple[str, int], Story] = {}
        """By task and its generation."""
        self.first_starts: dict[tuple[str, int], datetime] = {}
        """By task and its generation: when it first went to RUNNING."""
        self.audit: dict[str, AuditEntry] = {}
        """Executed actions, by request id."""
        self.alerts: set[str] = set()
        """Keys of the alerts that were raised."""
        self.reserved: dict[str, Task] = {}
        """Tasks with a reservation, by id."""
        self.shares: dict[tuple[str, str], int] = {}
        """By limit and holder: the granted share."""
        self.failures: dict[str, int] = {}
        """By tenant: tasks that failed for good."""
        self.dirty: dict[str, None] = {}
        """Runs whose rows have changed since the tables were compared."""

    def copy(self) -> Model:
        """The same, for a snapshot."""
        other = Model()
        for name, value in vars(self).items():
            setattr(other, name, copy(value))
        other.definitions, other.grown = self.definitions, self.grown
        other.tasks = {run: list(tasks) for run, tasks in self.tasks.items()}
        other.leases = {worker: dict(leases) for worker, leases in self.leases.items()}
        other.dirty = dict.fromkeys(self.runs)
        return other

    def task(self, task_id: str) -> Task | None:
        """A task by its id."""
        run, _, place = f"run_{task_id[5:]}".partition(".")
        tasks = self.tasks.get(run, ())
        position = self.born.get(task_id, len(tasks)) if "." in place else int(place)
        return tasks[position] if position < len(tasks) else None

    def job_of(self, run_id: str) -> Job:
        """The definition of a run."""
        return self.definitions[self.runs[run_id].job_id]

    def spec_of(self, task: Task) -> TaskSpec:
        """The definition of a task: from its job, its fan-out, or the output that created it."""
        job = self.job_of(task.run_id)
        if task.position < len(job.tasks):
            return job.tasks[task.position]
        assert task.origin is not None
        parent = self.tasks[task.run_id][task.origin.parent]
        spec = self.spec_of(parent)
        if spec.for_each is not None:
            return spec
        if parent.generation == task.origin.generation:
            self.grown[task.id] = expansion.read(parent.output).tasks[task.origin.index]
        return self.grown[task.id]

    def shape_of(self, task: Task) -> Shape:
        """The resource request of a task."""
        job = self.job_of(task.run_id)
        plain = task.position < len(job.tasks)
        shape = job.shapes[task.position] if plain else shape_of(self.spec_of(task), job.spec.groups)
        if task.trail is None or task.trail.memory_bytes is None:
            return shape
        more = msgspec.structs.replace(shape.resources, memory_bytes=task.trail.memory_bytes)
        return msgspec.structs.replace(shape, resources=more)

    def failed_lately(self, tenant: str) -> int:
        """Number of permanently failed tasks of a tenant: a seed is shorter than the hour that counts."""
        return self.failures.get(tenant, 0)

    def put_task(self, task: Task) -> None:
        """Store a new row of a task, and update attempts and leases."""
        tasks = self.tasks[task.run_id]
        old = tasks[task.position] if task.position < len(tasks) else None
        if old is None:
            tasks.append(task)
            if task.origin is not None and task.origin.parent != task.position:
                self.born[task.id] = task.position
        else:
            tasks[task.position] = task
            if old.attempt_id is not None and old.attempt_id != task.attempt_id:
                self.live.pop(old.attempt_id, None)
                self._leave(old)
        if task.attempt_id is not None:
            if old is None or old.attempt_id != task.attempt_id:
                self._join(task)
            self.live[task.attempt_id] = task
        if task.reserved is not None:
            self.reserved[task.id] = task
        else:
            self.reserved.pop(task.id, None)
        self.dirty[task.run_id] = None

    def use(self, worker: str) -> Resources:
        """Total resources of a worker's leases."""
        total = ZERO_RESOURCES
        for _, resources in self.leases.get(worker, {}).values():
            total += resources
        return total

    def _join(self, task: Task) -> None:
        assert task.worker_id is not None
        assert task.lease_id is not None
        leases = self.leases.setdefault(task.worker_id, {})
        resources = self.shape_of(task).resources
        count, _ = leases.get(task.lease_id, (0, resources))
        leases[task.lease_id] = (count + 1, resources)

    def _leave(self, task: Task) -> None:
        assert task.worker_id is not None
        assert task.lease_id is not None
        leases = self.leases[task.worker_id]
        count, resources = leases[task.lease_id]
        if count == 1:
            del leases[task.lease_id]
        else:
            leases[task.lease_id] = (count - 1, resources)


class Ever:
    """Irrevocable history, independent of restores of the store."""

    def __init__(self) -> None:
        self.terms: dict[int, int] = {}
        """Nonce to epoch."""
        self.attempts: dict[str, str] = {}
        """Every attempt that was ever durable, with its worker."""
        self.task_of: dict[str, str] = {}
        self.ended: set[str] = set()
        self.late: set[str] = set()
        self.rejected: set[str] = set()
        """Subjects of rejected events."""
        self.stops: set[str] = set()
        """Attempts whose task had a durable request to stop."""
        self.held: set[str] = set()
        """Workers with a durable hold."""
        self.saved: dict[str, set[str]] = {}
        """Checkpoints saved by each attempt, stored or not."""
        self.put: dict[str, tuple[str, str | None]] = {}
        """Documents with which users replaced a checkpoint, stored or not: task and expected digest."""
        self.to_find: dict[str, str | None] = {}
        """Checkpoint that each attempt gets: the latest of its task at its creation."""
        self.cancelled: set[str] = set()
        self.paused: set[str] = set()
        self.began: dict[str, tuple[int, float]] = {}
        """Latest known start of each task: number of the transition, and the loop's time."""
        self.led_since: dict[int, float] = {}
        """Start of the term of each leader, by nonce."""
        self.moved: dict[tuple[int, str], tuple[float | None, float, float]] = {}
        """Progress of each attempt: when a leader (by nonce) first received it, and when it received the previous one.
        Leaders do not share this."""
        self.run_ends: dict[str, set[RunState]] = {}
        """Final states that each run has had."""
        self.left: dict[str, tuple[str, Result]] = {}
        """Results of processes: worker and result by attempt."""
        self.begun: dict[str, str] = {}
        """Started attempts, with their workers."""
        self.wiped: set[str] = set()
        """Attempts on a lost disk."""
        self.erased_runs: set[str] = set()
        self.erased_attempts: set[str] = set()
        self.erased_entries: set[str] = set()
        self.asked: dict[str, int] = {}
        """Number of requests of each action, by the id of its audit entry."""
        self.since: dict[tuple[str, str], datetime] = {}
        """By tenant and name: the `since` of a new schedule."""
        self.acknowledged: dict[str, None] = {}
        self.restores = 0
        self.restored_at = -1.0
        """Time of the latest restore of the store, by the loop's clock."""
