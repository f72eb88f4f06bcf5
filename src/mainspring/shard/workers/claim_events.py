"""What workers that speak plain HTTP ask of a shard (WRK-2): each is asked for, and answered once it is durable.

Such a worker has no session, and nothing is ever sent to it: what it is to know is in the answers to its own calls.
"""

from __future__ import annotations

from mainspring.protocol.wire import Offer, Outcome
from mainspring.shard.events import Asked, Event


class ClaimAct(Asked, frozen=True, kw_only=True):
    """A worker that speaks plain HTTP wants something."""

    worker: str


class ClaimWork(ClaimAct, frozen=True, kw_only=True, tag="ClaimWork"):
    """It takes so much work: answered with what there is, as soon as there is some, or with nothing after a while."""

    wanted: int
    hold_seconds: float
    """What it has not started by then goes back to the queue."""
    wait_seconds: float = 0.0
    offer: Offer | None = None
    """What it has in all; None: something for each claim (`claims.UNSAID`)."""
    labels: dict[str, str]
    zone: str = ""
    version: str = ""


class StartClaimed(ClaimAct, frozen=True, kw_only=True, tag="StartClaimed"):
    """It has begun with an attempt."""

    attempt: str


class BeatClaimed(ClaimAct, frozen=True, kw_only=True, tag="BeatClaimed"):
    """It is still at an attempt, and this is how far it is."""

    attempt: str
    percent: float | None = None
    note: str | None = None
    checkpoint: str | None = None
    """JSON, for the task's next attempt (WRK-7)."""
    extend_seconds: float | None = None
    """It asks for so much more time (LIV-4)."""


class EndClaimed(ClaimAct, frozen=True, kw_only=True, tag="EndClaimed"):
    """An attempt is over, and this is what it left."""

    attempt: str
    outcome: Outcome
    output: str | None = None
    error: str | None = None
    is_late: bool = False
    """The rows say that the attempt was over before: this is kept as a record, and changes nothing (LIV-5)."""


class ClaimDropped(Event, frozen=True, kw_only=True, tag="ClaimDropped"):
    """Nobody waits for the answer to a claim any more, or what was claimed can't be handed over."""

    worker: str
    claim: int
    attempts: tuple[str, ...] = ()
