"""Usual durations of the tasks of a job, from their latest successes (LIV-4, for diagnosis only).

The latest 64 durations are kept for each task of a tenant's job, and for the run as a whole under an empty name.
`record` is called for every task that succeeds, and costs under 2 µs; rows are written 10 s after a change, a few at a
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from math import ceil

import msgspec

from mainspring.core.model.batch import DurationRow

SAMPLES = 64
MAX_KEYS = 20_000
WRITE_DELAY_SECONDS = 10.0
ROWS_PER_BATCH = 50

_Key = tuple[str, str, str]
"""Tenant, job, task."""


class _Ring(msgspec.Struct):
    samples: deque[float]
    count: int = 0
    is_waiting: bool = False
    """It is queued to be written."""


class DurationStats:
    """Latest durations of successful tasks."""

    def __init__(self) -> None:
        self._rings: dict[_Key, _Ring] = {}
        """In order of the last write, so that the first one is evicted."""
        self._to_write: deque[tuple[float, _Key]] = deque()
        """Keys with unsaved samples, and since when, in seconds of the shard's life."""

    def record(self, tenant: str, job: str, task: str, seconds: float, *, life: float) -> None:
        """Record the duration of a task."""
        key = (tenant, job, task)
        ring = self._rings.get(key)
        if ring is None:
            ring = self._keep(key, _Ring(deque(maxlen=SAMPLES)))
        ring.samples.append(seconds)
        ring.count += 1
        if not ring.is_waiting:
            ring.is_waiting = True
            self._to_write.append((life, key))

    def rows_to_write(self, shard: str, *, life: float, now: datetime) -> list[DurationRow]:
        """Return the rows that are due to be written, a few at a time."""
        rows: list[DurationRow] = []
        while self._to_write and len(rows) < ROWS_PER_BATCH and life - self._to_write[0][0] >= WRITE_DELAY_SECONDS:
            _, key = self._to_write.popleft()
            ring = self._rings.pop(key, None)
            if ring is not None:
                ring.is_waiting = False
                self._rings[key] = ring
                rows.append(_row(shard, key, ring, now))
        return rows

    def load(self, rows: Iterable[DurationRow]) -> None:
        """Load stored rows."""
        for row in sorted(rows, key=lambda row: row.updated_at):
            self._keep((row.tenant, row.job, row.task), _Ring(deque(row.samples, maxlen=SAMPLES), row.count))

    def samples(self, tenant: str, job: str, task: str) -> tuple[float, ...]:
        """Return the latest durations of a task, oldest first."""
        ring = self._rings.get((tenant, job, task))
        return tuple(ring.samples) if ring is not None else ()

    def _keep(self, key: _Key, ring: _Ring) -> _Ring:
        if len(self._rings) >= MAX_KEYS:
            del self._rings[next(iter(self._rings))]
        self._rings[key] = ring
        return ring


def percentile(ordered: list[float], share: float) -> float:
    """Return the nearest-rank percentile of sorted values."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _row(shard: str, key: _Key, ring: _Ring, now: datetime) -> DurationRow:
    tenant, job, task = key
    ordered = sorted(ring.samples)
    return DurationRow(
        shard=shard, tenant=tenant, job=job, task=task, count=ring.count, p50_seconds=percentile(ordered, 0.5),
        p90_seconds=percentile(ordered, 0.9), p99_seconds=percentile(ordered, 0.99), samples=tuple(ring.samples),
        updated_at=now,
    )  # fmt: skip
