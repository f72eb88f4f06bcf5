"""Failure budget: tasks of each tenant that failed for good in the last hour (ADM-5).

Counted in intervals of five minutes, each of which is a row, so that a new leader continues from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from mainspring.core.model.batch import FailureCountRow

PERIOD = timedelta(hours=1)
_PART_SECONDS = 300


class FailureCounts:
    """Failures by tenant and interval."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[datetime, int]] = {}

    def load(self, rows: Iterable[FailureCountRow]) -> None:
        """Load earlier counts."""
        for row in rows:
            self._parts.setdefault(row.tenant, {})[row.since] = row.failures

    def record(self, shard: str, tenant: str, now: datetime) -> FailureCountRow:
        """Count a failed task of a tenant; return the row of this interval."""
        since = datetime.fromtimestamp(now.timestamp() // _PART_SECONDS * _PART_SECONDS, UTC)
        parts = self._parts.setdefault(tenant, {})
        parts[since] = parts.get(since, 0) + 1
        return FailureCountRow(shard=shard, tenant=tenant, since=since, failures=parts[since])

    def count(self, tenant: str, now: datetime) -> int:
        """Failures in the last hour. Older ones are dropped."""
        parts = self._parts.get(tenant)
        if parts is None:
            return 0
        for since in [since for since in parts if since + PERIOD <= now]:
            del parts[since]
        if not parts:
            del self._parts[tenant]
        return sum(parts.values())

    def rows(self, shard: str, tenant: str) -> list[FailureCountRow]:
        """The counts of a tenant, as rows."""
        parts = self._parts.get(tenant, {})
        return [
            FailureCountRow(shard=shard, tenant=tenant, since=since, failures=many) for since, many in parts.items()
        ]

    def has(self, tenant: str) -> bool:
        """Return whether a tenant has recent failures; most never do, and need no counting."""
        return tenant in self._parts
