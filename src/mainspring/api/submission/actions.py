"""Has an act carried out by whoever leads the shard, and says what became of it."""

from __future__ import annotations

from mainspring.api.http.problems import refusal
from mainspring.api.services import Services
from mainspring.protocol.errors import Conflict, NotFound
from mainspring.protocol.rest.runs import Done
from mainspring.shard.effects import Reply
from mainspring.shard.events import Asked

LONGEST_REASON = 1_000


def reason(why: str) -> str:
    """Why somebody wants it so. Raises Refused if that is too long."""
    if len(why) > LONGEST_REASON:
        raise refusal("the body has 1 fault", "why", f"must have at most {LONGEST_REASON} characters")
    return why


async def carry_out(services: Services, shard: str, act: Asked) -> Done:
    """Answers when the act is durable. Raises NotFound, or Conflict if things are such that it can't be."""
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
