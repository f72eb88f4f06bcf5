"""Workers that were here lately, and what they offered: who is gone may come back, so that `never` is not said of that.

Kept for a day, and of the latest only. A new leader knows of those that it misses itself, and of no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.resources import NAMES, Resources
from mainspring.core.model.worker import Worker

REMEMBERED = timedelta(days=1)
MOST_REMEMBERED = 4_096
"""To look at all of them takes 2 ms, and only if nobody who is here would do."""


class Departed(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is gone."""

    worker: Worker
    """What it offered, and nothing else of it."""
    until: datetime
    """When it was given up, or said goodbye."""


class Departures:
    """Who has gone, the latest last."""

    def __init__(self, gone: Iterable[Departed] = ()) -> None:
        self._gone = {one.worker.id: one for one in gone}

    def note(self, worker: Worker, now: datetime) -> None:
        """A worker is gone. Of one that has not come in this term it is known only what it had in hands."""
        total, labels, zone = worker.total, worker.labels, worker.zone
        if not worker.session:
            shapes = [lease.shape for lease in worker.leases.values()]
            total, labels = worker.used, dict(pair for shape in shapes for pair in shape.labels)
            zone = next((shape.zone for shape in shapes if shape.zone), "")
        self._put(Worker(id=worker.id, total=total, labels=labels, zone=zone), now)

    def note_row(self, row: WorkerRow) -> None:
        """A worker of an older leader has not come to this one."""
        offer = msgspec.json.decode(row.offer, type=dict[str, int])
        total = Resources(*(offer.get(name, 0) for name in NAMES))
        labels = msgspec.json.decode(row.labels, type=dict[str, str])
        self._put(Worker(id=row.id, total=total, labels=labels, zone=row.zone), row.last_heard_at)

    def forget(self, worker_id: str) -> None:
        """A worker is here again."""
        self._gone.pop(worker_id, None)

    def lately(self, now: datetime) -> Iterator[Departed]:
        """Those that were here within the last day, the latest first."""
        return (one for one in reversed(self._gone.values()) if now - one.until <= REMEMBERED)

    def _put(self, worker: Worker, until: datetime) -> None:
        self.forget(worker.id)
        self._gone[worker.id] = Departed(worker=worker, until=until)
        if len(self._gone) > MOST_REMEMBERED:
            del self._gone[next(iter(self._gone))]
