"""Workers of a shard: connected, expected, cordoned, and recently gone.

1. A worker is here from its registration, or from a row that names it, until it is lost or gone.
2. `capacity` is the sum of the resources of the workers here; one that has not registered in this term has none.
3. `open` has exactly the workers that are ready and accept work: `ShardMemory.refresh` follows every change of one.
4. `cordoned` has the rows of all cordoned workers, here or not; a worker here has the cordon of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.worker import Hold, Worker, WorkerStatus, is_claimant
from mainspring.core.placement.worker_index import OpenWorkers
from mainspring.shard.state.recent_workers import RecentWorkers
from mainspring.shard.state.registry import Registry


class Workers(Registry[Worker]):
    """The workers of a shard, by id."""

    def __init__(self) -> None:
        super().__init__()
        self.open = OpenWorkers()
        self.recent = RecentWorkers()
        self._cordoned: dict[str, WorkerRow] = {}
        self.cordoned: Mapping[str, WorkerRow] = self._cordoned
        self._capacity = ZERO_RESOURCES
        self._watches = 0

    @property
    def capacity(self) -> Resources:
        """Total resources of all workers that have registered."""
        return self._capacity

    def load(self, cordoned: Iterable[WorkerRow]) -> None:
        """Load the rows of cordoned workers."""
        self._cordoned.update((row.id, row) for row in cordoned)

    def add(self, worker_id: str, shard_time: float) -> Worker:
        """Add a worker that is not known. A cordon still applies."""
        row = self._cordoned.get(worker_id)
        claim_slots = 0 if is_claimant(worker_id) else None
        worker = self._by_id[worker_id] = Worker(id=worker_id, last_heartbeat=shard_time, claim_slots=claim_slots)
        if row is not None:
            worker.hold, worker.hold_why = Hold(row.hold), row.hold_why
        return worker

    def restore(self, worker: Worker) -> None:
        """Add a worker as another memory knew it."""
        self._by_id[worker.id] = worker
        self._capacity += worker.total

    def set_total(self, worker: Worker, total: Resources) -> None:
        """Set the total resources of a worker."""
        self._capacity += total - worker.total
        worker.total = total

    def watch(self, worker: Worker) -> bool:
        """Number the silence timer of a worker; False if it has one."""
        if worker.watched:
            return False
        self._watches += 1
        worker.watched = self._watches
        return True

    def close(self, worker: Worker, status: WorkerStatus, now: datetime) -> None:
        """Stop counting a worker that is lost or gone. It is removed once its leases have ended."""
        self._capacity -= worker.total
        self.recent.note(worker, now)
        worker.status = status

    def remove(self, worker_id: str) -> None:
        """Remove a worker that was closed."""
        del self._by_id[worker_id]

    def note_row(self, row: WorkerRow) -> None:
        """Remember the cordon in the row of a worker, which may not be connected."""
        if row.hold:
            self._cordoned[row.id] = row
        else:
            self._cordoned.pop(row.id, None)

    def set_capacity(self, capacity: Resources) -> None:
        """Set the capacity of a snapshot that has only a part of the workers."""
        self._capacity = capacity
