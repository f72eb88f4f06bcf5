"""What the HTTP API answers about the log of decisions (PLC-8)."""

from __future__ import annotations

from datetime import datetime

from mainspring.protocol.rest.runs import View
from mainspring.protocol.rest.sharing import Amounts


class RequestView(View, frozen=True, kw_only=True):
    """What a task asked for."""

    resources: Amounts
    labels: dict[str, str]
    """Those that a worker must have; an empty value: any will do."""
    zone: str | None
    prefer: dict[str, str]
    """Those that a worker had better have."""
    prefer_zone: str | None
    groups: list[str]
    """Limits that it is counted by."""
    near: list[str]
    """Tasks of its run whose worker it had to be given."""
    apart: list[str]
    """Tasks of its run whose worker it could not be given."""


class PushedOutView(View, frozen=True, kw_only=True):
    """A task that was asked to make room."""

    task_id: str
    tenant: str
    priority: str
    lost_seconds: float
    """Work that has to be done again."""


class DecisionView(View, frozen=True, kw_only=True):
    """One decision of the scheduler about one task."""

    id: str
    at: datetime
    kind: str
    """`placed`, `preempts` or `no_room`."""
    pool: str
    tenant: str
    task_id: str
    run_id: str
    name: str
    """The task's."""
    attempt: int
    """The number of the attempt that was placed, or of the one before."""
    priority: str
    request: RequestView
    worker: str | None
    """null: there was none."""
    free: Amounts | None
    """What was free on that worker, before."""
    score: float | None
    """How good that worker was for it; only to be compared with others of the same task."""
    looked_at: int | None
    """How many workers were looked at; null if that is not known."""
    victims: list[PushedOutView]
    """Who was asked to make room: at most 20, and of those whose tenant whoever asks may see."""
    victims_in_all: int
    why: str
    version: str
    """Of the scheduler that decided."""
