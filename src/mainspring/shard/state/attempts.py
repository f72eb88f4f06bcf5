"""Attempts of tasks that a worker holds, and what was reported of each.

1. An attempt is here exactly while its task is ASSIGNED or RUNNING, and is a member of one lease (I-10, I-12).
2. Only attempts that are here have details: they end with the attempt.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.task import Task
from mainspring.shard.state.registry import Registry


class AttemptProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an attempt, as reported by its worker."""

    percent: float | None
    note: str
    moved: float
    """When it last changed, in shard time."""


class AttemptDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What was reported of an attempt, or decided about it, and is in no row."""

    progress: AttemptProgress | None = None
    deadline: float | None = None
    """If its time limit was extended: the deadline in shard time."""
    alerts: frozenset[AlertKind] = frozenset()
    """Alerts that were raised, and have to be resolved at its end."""
    saved_at: datetime | None = None
    """When its checkpoint was last saved."""


_NO_DETAILS = AttemptDetails()


class Attempts(Registry[Task]):
    """The tasks that workers hold, by attempt."""

    def __init__(self) -> None:
        super().__init__()
        self._details: dict[str, AttemptDetails] = {}

    def add(self, attempt_id: str, task: Task) -> None:
        """Add an attempt of a task that a worker holds."""
        self._by_id[attempt_id] = task

    def remove(self, attempt_id: str) -> Task | None:
        """Remove an ended attempt with its details."""
        self._details.pop(attempt_id, None)
        return self._by_id.pop(attempt_id, None)

    def details(self, attempt_id: str | None) -> AttemptDetails:
        """The details of an attempt; empty if there are none."""
        return self._details.get(attempt_id or "", _NO_DETAILS)

    def with_progress(self) -> dict[str, AttemptProgress]:
        """The attempts that have reported progress."""
        return {attempt: one.progress for attempt, one in self._details.items() if one.progress is not None}

    def record(
        self, attempt_id: str | None, *, progress: AttemptProgress | None = None, deadline: float | None = None,
        alerts: frozenset[AlertKind] = frozenset(), saved_at: datetime | None = None,
    ) -> None:  # fmt: skip
        """Add details to an attempt that is held."""
        if attempt_id is None or attempt_id not in self._by_id:
            return
        known = self.details(attempt_id)
        self._details[attempt_id] = AttemptDetails(
            progress=progress or known.progress,
            deadline=known.deadline if deadline is None else deadline,
            alerts=known.alerts | alerts,
            saved_at=saved_at or known.saved_at,
        )
