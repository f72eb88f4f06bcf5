"""Execute an action on the leader of a shard, and return its result."""

from __future__ import annotations

from mainspring.api.http.problems import refusal
from mainspring.api.services import Services
from mainspring.protocol.errors import Conflict, NotFound
from mainspring.protocol.rest.runs import Done
from mainspring.shard.effects import Reply
from mainspring.shard.events import Asked

LONGEST_REASON = 1_000


def reason(why: str) -> str:
    """Check the length of a reason. Raises Refused if it is too long."""
    if len(why) > LONGEST_REASON:
        raise refusal("the body has 1 fault", "why", f"must have at most {LONGEST_REASON} characters")
    return why


async def carry_out(services: Services, shard: str, act: Asked) -> Done:
    """Execute an action; returns once it is durable. Raises NotFound, or Conflict if the state does not allow it."""
    answered = await services.shards.ask(shard, act)
    match answered.reply:
        case Reply.DONE:
            return Done(changed=True, detail=answered.detail)
        case Reply.ALREADY:
            return Done(changed=False, detail=answered.detail)
        case Reply.NOT_FOUND:
            raise NotFound(answered.detail)
        case Reply.REFUSED:
            raise Conflict(answered.detail)
