"""Effects of a shard, executed by the host once the batch is durable. None may change the shard."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.batch import Effect
from mainspring.core.model.task import Priority
from mainspring.protocol.wire import Assignment, Extended, Offer, Stop, ToWorker
from mainspring.shard.events import AttemptEnded, RunAction


class Send(Effect, frozen=True):
    """A message to a worker, within the session in which it was decided. It is dropped if that session has ended."""

    worker: str
    session: str
    message: ToWorker


class ActionStatus(StrEnum):
    """Result of an action."""

    DONE = "done"
    ALREADY = "already"
    """Unchanged: it was already so."""
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
    """If the attempt has not started by then, it is queued again."""


class ActionReply(Effect, frozen=True):
    """Reply to the request that waits under `request_id`."""

    request_id: int
    reply: ActionStatus
    detail: str = ""
    worker: str = ""
    claimed: tuple[ClaimedAttempt, ...] = ()
    """What this worker has claimed."""
    stop: Stop | None = None
    """Reply to a heartbeat: the attempt is to stop."""
    extended: Extended | None = None
    """Reply to a heartbeat that requested an extension."""


class LookUpAttempt(Effect, frozen=True):
    """The reported attempt is not in memory: look it up, and deliver the event again with its row."""

    event: AttemptEnded


class LookUpRun(Effect, frozen=True):
    """The run of this action is not in memory: look it up, and deliver the event again with its rows."""

    event: RunAction


class RequestShare(Effect, frozen=True):
    """Request a share of a limit that is divided among pools: the total that the shard needs (`ShareGranted`).

    The latest request for a limit replaces earlier ones, and is retried every second until it is granted in full. A
    request for no more than the current share ends the retries, and tells other pools that nothing more is needed.
    """

    limit: str
    wanted: int
    stamp: int = 0
    """Returned with the grant. A grant requested before the shard lowered its share has an old stamp and is dropped."""


class RequestRate(Effect, frozen=True):
    """Request starts under a rate limit. Each request gets one `RateGranted`, possibly of zero."""

    limit: str
    wanted: int


class CloseLink(Effect, frozen=True):
    """The shard does not know this session: close the link, so that the worker registers again."""

    worker: str
    session: str
