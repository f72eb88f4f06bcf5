"""Recently connected workers and their resources: one may come back, so a task does not count as waiting forever.

Kept for a day, up to a maximum. A new leader knows those that it misses itself, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.resources import NAMES, Resources
from mainspring.core.model.worker import Worker

RECENT_PERIOD = timedelta(days=1)
MAX_RECENT_WORKERS = 4_096
"""Scanning all of them takes 2 ms, and happens only if no current worker matches."""


class RecentWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that left or was lost."""

    worker: Worker
    """Its resources and labels only."""
    until: datetime
    """When it left or was lost."""


class RecentWorkers:
    """Workers that are gone, latest last."""

    def __init__(self, gone: Iterable[RecentWorker] = ()) -> None:
        self._gone = {one.worker.id: one for one in gone}

    def note(self, worker: Worker, now: datetime) -> None:
        """Add a worker that is gone. Of one that never registered in this term only its leases are known."""
        total, labels, zone = worker.total, worker.labels, worker.zone
        if not worker.session:
            shapes = [lease.shape for lease in worker.leases.values()]
            total, labels = worker.used, dict(pair for shape in shapes for pair in shape.labels)
            zone = next((shape.zone for shape in shapes if shape.zone), "")
        self._put(Worker(id=worker.id, total=total, labels=labels, zone=zone), now)

    def note_row(self, row: WorkerRow) -> None:
        """Add a worker of an older leader that has not registered in this term."""
        offer = msgspec.json.decode(row.offer, type=dict[str, int])
        total = Resources(*(offer.get(name, 0) for name in NAMES))
        labels = msgspec.json.decode(row.labels, type=dict[str, str])
        self._put(Worker(id=row.id, total=total, labels=labels, zone=row.zone), row.last_heartbeat_at)

    def forget(self, worker_id: str) -> None:
        """Remove a worker that has registered."""
        self._gone.pop(worker_id, None)

    def recent(self, now: datetime) -> Iterator[RecentWorker]:
        """Workers connected within the last day, latest first."""
        return (one for one in reversed(self._gone.values()) if now - one.until <= RECENT_PERIOD)

    def _put(self, worker: Worker, until: datetime) -> None:
        self.forget(worker.id)
        self._gone[worker.id] = RecentWorker(worker=worker, until=until)
        if len(self._gone) > MAX_RECENT_WORKERS:
            del self._gone[next(iter(self._gone))]
