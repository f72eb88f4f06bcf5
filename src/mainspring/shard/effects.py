"""What a shard wants done outside, once its batch is durable. The host carries them out; none may change the shard."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core.batch import Effect
from mainspring.shard.events import Act, AttemptEnded
from mainspring.wire import ToWorker


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


class Answered(Effect, frozen=True):
    """The answer to whoever waits under `ticket`."""

    ticket: int
    reply: Reply
    detail: str = ""


class LookUpAttempt(Effect, frozen=True):
    """The report's attempt is not in memory: ask the rows, and hand the event over again with what they say."""

    event: AttemptEnded


class LookUpRun(Effect, frozen=True):
    """The act's run is not in memory: ask the rows, and hand the event over again with what they say."""

    event: Act


class CloseLink(Effect, frozen=True):
    """The shard does not know this worker's session: let it register again."""

    worker: str
    session: str
