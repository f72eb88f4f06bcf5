"""Requests of HTTP workers (WRK-2). Each gets a reply once it is durable.

Such a worker has no session, and nothing is sent to it: everything it needs is in the replies to its calls.
"""

from __future__ import annotations

from mainspring.protocol.wire import Offer, Outcome
from mainspring.shard.events import ActionRequest, Event


class ClaimCall(ActionRequest, frozen=True, kw_only=True):
    """A request of an HTTP worker."""

    worker: str


class ClaimWork(ClaimCall, frozen=True, kw_only=True, tag="ClaimWork"):
    """Claim an amount of work. The reply comes as soon as there is work, or is empty after the wait time."""

    wanted: int
    hold_seconds: float
    """An attempt not started by then is queued again."""
    wait_seconds: float = 0.0
    offer: Offer | None = None
    """Total resources of the worker; None: a default amount per claim (`claims.DEFAULT_CLAIM_CAPACITY`)."""
    labels: dict[str, str]
    zone: str = ""
    version: str = ""


class ClaimStarted(ClaimCall, frozen=True, kw_only=True, tag="ClaimStarted"):
    """The worker has started an attempt."""

    attempt: str


class ClaimHeartbeat(ClaimCall, frozen=True, kw_only=True, tag="ClaimHeartbeat"):
    """Heartbeat of an attempt, with its progress."""

    attempt: str
    percent: float | None = None
    note: str | None = None
    checkpoint: str | None = None
    """JSON, for the task's next attempt (WRK-7)."""
    extend_seconds: float | None = None
    """Requested extension of the time limit (LIV-4)."""


class ClaimEnded(ClaimCall, frozen=True, kw_only=True, tag="ClaimEnded"):
    """An attempt has ended, with its result."""

    attempt: str
    outcome: Outcome
    output: str | None = None
    error: str | None = None
    is_late: bool = False
    """The attempt had ended before, according to its row: kept as a record, and changes nothing (LIV-5)."""


class ClaimAbandoned(Event, frozen=True, kw_only=True, tag="ClaimAbandoned"):
    """The caller of a claim is gone, or the claimed work can't be delivered."""

    worker: str
    claim: int
    attempts: tuple[str, ...] = ()
