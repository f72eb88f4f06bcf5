"""REST types for the decision log (PLC-8)."""

from __future__ import annotations

from datetime import datetime

from mainspring.protocol.rest.runs import View
from mainspring.protocol.rest.sharing import Amounts


class RequestView(View, frozen=True, kw_only=True):
    """Placement request of a task."""

    resources: Amounts
    labels: dict[str, str]
    """Required worker labels; an empty value matches any."""
    zone: str | None
    prefer: dict[str, str]
    """Preferred worker labels."""
    prefer_zone: str | None
    groups: list[str]
    """Groups that count it."""
    affinity: list[str]
    """Affinity: tasks of its run whose worker it must share."""
    anti_affinity: list[str]
    """Anti-affinity: tasks of its run whose worker it must not share."""


class PreemptedTaskView(View, frozen=True, kw_only=True):
    """A preempted task."""

    task_id: str
    tenant: str
    priority: str
    lost_seconds: float
    """Work that has to be repeated."""


class DecisionView(View, frozen=True, kw_only=True):
    """One decision of the scheduler about one task."""

    id: str
    at: datetime
    kind: str
    """`placed`, `preempts` or `no_capacity`."""
    pool: str
    tenant: str
    task_id: str
    run_id: str
    name: str
    """Name of the task."""
    attempt: int
    """Number of the attempt that was placed, or of the previous one."""
    priority: str
    request: RequestView
    worker: str | None
    """null: no worker was found."""
    free: Amounts | None
    """Free capacity on that worker, before."""
    score: float | None
    """Placement score; comparable only within the same task."""
    workers_examined: int | None
    """Number of workers examined; null if unknown."""
    victims: list[PreemptedTaskView]
    """Preempted tasks that are visible to the caller, at most 20."""
    victim_total: int
    why: str
    version: str
    """Version of the scheduler."""
