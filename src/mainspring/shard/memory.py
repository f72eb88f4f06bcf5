"""What a shard has in mind: runs, their tasks, workers, leases, queues, timers. All of it can be loaded again (HA-3).

1. `attempts` has exactly the attempts of tasks that a worker holds, and each is a member of one lease (I-10, I-12).
2. A run is here from its adoption until it is final.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

import msgspec

from mainspring.core.alerts import AlertKind
from mainspring.core.batch import SpreadKind, WorkerRow
from mainspring.core.breakers import JobCircuits, SignatureCircuits
from mainspring.core.durations import Durations
from mainspring.core.placement import obstacles
from mainspring.core.queues import FairQueues
from mainspring.core.resources import NOTHING, Resources
from mainspring.core.retry_pace import RetryPace
from mainspring.core.runs import Run
from mainspring.core.shapes import Shape, with_memory
from mainspring.core.states import FINAL
from mainspring.core.tasks import Priority, Task
from mainspring.core.tuning import USUAL, Tuning
from mainspring.core.workers import Hold, Lease, OpenWorkers, Worker
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.run_memory import RunMemory
from mainspring.shard.timers import Timers

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_TURN_SECONDS = 2.0
_MOST_OVERTAKEN = 20_000
"""More than can be on their way from intake."""


class Headway(msgspec.Struct, frozen=True, kw_only=True):
    """How far an attempt is, as its worker says."""

    percent: float | None
    note: str
    moved: float
    """When it last said something else, in seconds of the shard's life."""


class PutOff(msgspec.Struct, kw_only=True):
    """Work of one run that waits for its pace."""

    spreads: list[tuple[str, SpreadKind, str]] = []
    ripples: list[tuple[str, int]] = []


class ShardMemory:
    """Everything that one shard knows."""

    def __init__(self, shard: str, tuning: Tuning = USUAL) -> None:
        self.shard = shard
        self.tuning = tuning
        self.runs: dict[str, RunMemory] = {}
        self.attempts: dict[str, Task] = {}
        self.workers: dict[str, Worker] = {}
        self.held: dict[str, WorkerRow] = {}
        """Rows of the workers that are cordoned or draining, whether or not they are here."""
        self.headway: dict[str, Headway] = {}
        """By attempt, for those that say how far they are."""
        self.deadlines: dict[str, float] = {}
        """By attempt, for those that got more time: when it is up, in seconds of the shard's life."""
        self.told: dict[str, frozenset[AlertKind]] = {}
        """By attempt: what somebody was told of it, and will be told the end of."""
        self.watches = 0
        """How many timers have been set to watch over workers."""
        self.open_workers = OpenWorkers()
        self.leases: dict[str, Lease] = {}
        self.queues = FairQueues()
        self.use: dict[str, Resources] = {}
        """What each tenant's live leases add up to."""
        self.capacity = NOTHING
        """What all ready workers offer together."""
        self.in_memory: dict[tuple[Priority, str], int] = {}
        """Tasks that are not final, made or still to be made."""
        self.ripples: deque[tuple[str, int]] = deque()
        self.undecided: deque[tuple[str, int]] = deque()
        """Tasks that may be ready, found while loading."""
        self.spreads: deque[tuple[str, SpreadKind, str]] = deque()
        self.put_off: dict[str, PutOff] = {}
        """By run: what has left the lines above, until a timer puts it back."""
        self.barred: dict[Shape, str] = {}
        """Shapes whose placing failed for a fault of ours or of the data."""
        self.hold_from: Priority | None = None
        self.life = 0.0
        """Seconds that this shard has lived through: at most 2 for each turn."""
        self._last_turn: datetime | None = None
        self.instants = Timers(self._is_stale)
        self.lengths = Timers(self._is_stale)
        self.overtaken: dict[str, Run | None] = {}
        """Runs that an act changed before they arrived, as it left them; None: adopted for it."""
        self.retry_pace = RetryPace(tuning.retries_per_second, tuning.alike_retries_per_second)
        self.alike = SignatureCircuits()
        self.failing_jobs = JobCircuits()
        self.durations = Durations()
        self.audited: deque[str] = deque()
        """Runs still to be looked at in this round of the audit."""

    def live_on(self, now: datetime) -> None:
        """Time has passed."""
        self.life += self._unlived(now)
        self._last_turn = now

    def retune(self, tuning: Tuning) -> None:
        """Go by other measures from now on.

        A timer that was set by the old ones comes up by them once. What it finds is judged by the new ones, but for an
        assignment that is not received. Runs that are paced begin with full buckets.
        """
        self.tuning = tuning
        self.retry_pace.retune(tuning.retries_per_second, tuning.alike_retries_per_second)
        for run in self.runs.values():
            run.buckets.clear()

    def overtake(self, run_id: str, row: Run | None) -> None:
        """An act has changed a run that intake may have handed over; None: adopted it, so that it must not be again."""
        self.overtaken[run_id] = row
        if len(self.overtaken) > _MOST_OVERTAKEN:
            del self.overtaken[next(iter(self.overtaken))]

    def find(self, task_id: str) -> Task | None:
        """A task by its id, if its run is in memory."""
        run_id, _, place = f"run_{task_id[5:]}".partition(".")
        memory = self.runs.get(run_id)
        if memory is None:
            return None
        position = int(place) if place.isdigit() else memory.position_of(place)
        return memory.tasks[position] if position is not None and position < len(memory.tasks) else None

    def shape(self, task: Task) -> Shape:
        """What the task needs of a worker, by now."""
        shape, trail = self.runs[task.run_id].shape(task.position), task.trail
        if trail is None or trail.memory_bytes is None:
            return shape
        return with_memory(shape, trail.memory_bytes)

    def count_in(self, priority: Priority, tenant: str, by: int) -> None:
        """So many more (or fewer) open tasks of this tenant are in memory."""
        key = (priority, tenant)
        left = self.in_memory.get(key, 0) + by
        if left:
            self.in_memory[key] = left
        else:
            self.in_memory.pop(key, None)

    def meet(self, worker_id: str) -> Worker:
        """A worker that is not known is to be from now on. A hold of it still holds."""
        row = self.held.get(worker_id)
        worker = self.workers[worker_id] = Worker(id=worker_id, heard=self.life)
        if row is not None:
            worker.hold, worker.hold_why = Hold(row.hold), row.hold_why
        return worker

    # leases and use

    def open_lease(self, lease: Lease) -> None:
        """Take the room that a lease stands for."""
        worker = self.workers[lease.worker_id]
        resources = lease.shape.resources
        self.leases[lease.id] = lease
        worker.leases[lease.id] = lease
        worker.used += resources
        self.use[lease.tenant] = self.use.get(lease.tenant, NOTHING) + resources
        self.refresh(worker)

    def leave_lease(self, attempt_id: str, lease_id: str) -> None:
        """An attempt is over; with the last one of its lease the room is free again."""
        self.attempts.pop(attempt_id, None)
        self.headway.pop(attempt_id, None)
        self.deadlines.pop(attempt_id, None)
        self.told.pop(attempt_id, None)
        lease = self.leases[lease_id]
        lease.members.pop(attempt_id, None)
        if lease.members:
            return
        worker = self.workers[lease.worker_id]
        resources = lease.shape.resources
        del self.leases[lease_id], worker.leases[lease_id]
        worker.used -= resources
        left = self.use[lease.tenant] - resources
        if left == NOTHING:
            del self.use[lease.tenant]
        else:
            self.use[lease.tenant] = left
        self.refresh(worker)

    def refresh(self, worker: Worker) -> None:
        """A worker's room or status has changed: keep `open_workers` right, and wake what it could help."""
        if self.open_workers.update(worker) and self.queues.parked:
            self.queues.wake(lambda shape: shape not in self.barred and not obstacles(shape, worker))

    # timers

    def set_instant(self, due_at: datetime, timer: TimerDue) -> None:
        """Let a timer come up at an instant of the store's clock."""
        self.instants.set((due_at - _EPOCH).total_seconds(), timer)

    def set_length(self, seconds: float, timer: TimerDue) -> None:
        """Let a timer come up after so many seconds of the shard's life."""
        self.lengths.set(self.life + seconds, timer)

    def due(self, now: datetime, most: int) -> list[TimerDue]:
        """Timers that have come up."""
        found = self.instants.pop_due((now - _EPOCH).total_seconds(), most)
        return found + self.lengths.pop_due(self.life, most)

    def seconds_to_timer(self, now: datetime) -> float | None:
        """How long nothing will come up; None for ever."""
        instant, length = self.instants.next_due(), self.lengths.next_due()
        waits = []
        if instant is not None:
            waits.append(instant - (now - _EPOCH).total_seconds())
        if length is not None:
            waits.append(length - self.life - self._unlived(now))
        return max(0.0, min(waits)) if waits else None

    def _unlived(self, now: datetime) -> float:
        """Seconds since the last turn, as far as they count."""
        if self._last_turn is None:
            return 0.0
        return min(max((now - self._last_turn).total_seconds(), 0.0), LONGEST_TURN_SECONDS)

    def _is_stale(self, timer: TimerDue) -> bool:
        if timer.kind is TimerKind.SILENCE:
            worker = self.workers.get(timer.subject)
            return worker is None or worker.watched != timer.stamp
        if timer.kind is TimerKind.RECEIPT:
            return timer.subject not in self.leases
        if timer.kind is TimerKind.PACE:
            return timer.subject not in self.put_off
        if timer.kind is TimerKind.RUN_LIMIT:
            run = self.runs.get(timer.subject)
            return run is None or run.run.generation != timer.stamp
        if timer.kind is TimerKind.CIRCUIT:
            circuit = self.alike.open.get(timer.subject) or self.failing_jobs.open.get(timer.subject)
            return circuit is None or int(circuit.opened_at) != timer.stamp
        task = self.find(timer.subject)
        return task is None or task.state in FINAL or task.seq != timer.stamp
