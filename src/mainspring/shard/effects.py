"""What a shard wants done outside, once its batch is durable. The host carries them out; none may change the shard."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.batch import Effect
from mainspring.core.model.task import Priority
from mainspring.protocol.wire import Assignment, Extended, Offer, Stop, ToWorker
from mainspring.shard.events import Act, AttemptEnded


class Send(Effect, frozen=True):
    """A message for a worker, in the session in which it was decided; if that is over, the message is dropped."""

    worker: str
    session: str
    message: ToWorker


class Reply(StrEnum):
    """How an act ended."""

    DONE = "done"
    ALREADY = "already"
    """It was so before. Nothing changed."""
    NOT_FOUND = "not_found"
    REFUSED = "refused"


class ClaimedAttempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An attempt that a worker has claimed (WRK-2)."""

    assignment: Assignment
    needs: Offer
    job: str
    priority: Priority
    scheduled_at: datetime
    expires_at: datetime
    """Not started by then, it goes back to the queue."""


class Answered(Effect, frozen=True):
    """The answer to whoever waits under `ticket`."""

    ticket: int
    reply: Reply
    detail: str = ""
    worker: str = ""
    claimed: tuple[ClaimedAttempt, ...] = ()
    """What this worker has claimed."""
    stop: Stop | None = None
    """To a heartbeat: the attempt is to stop."""
    extended: Extended | None = None
    """To a heartbeat that asked for more time."""


class LookUpAttempt(Effect, frozen=True):
    """The report's attempt is not in memory: ask the rows, and hand the event over again with what they say."""

    event: AttemptEnded


class LookUpRun(Effect, frozen=True):
    """The act's run is not in memory: ask the rows, and hand the event over again with what they say."""

    event: Act


class TakeShare(Effect, frozen=True):
    """Work waits for a limit that is divided among pools: get the shard so much of it in all (`ShareGranted`).

    The latest for a limit counts, and is tried again each second until it is granted whole. One that asks for no more
    than the shard has ends the trying, and tells the others that nothing more is needed.
    """

    limit: str
    wanted: int
    stamp: int = 0
    """Comes back with the answer: one that was asked for before the shard lowered its part says too much."""


class TakeAllowance(Effect, frozen=True):
    """Work waits for a rate: take so many from the store (`AllowanceGranted`, once for each, perhaps with nothing)."""

    limit: str
    wanted: int


class CloseLink(Effect, frozen=True):
    """The shard does not know this worker's session: let it register again."""

    worker: str
    session: str
