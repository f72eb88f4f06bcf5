"""Execute an action on the leader of a shard, and return its result."""

from __future__ import annotations

from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.http.problems import refusal
from mainspring.protocol.errors import Conflict, NotFound
from mainspring.protocol.rest.runs import ActionResult
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import ActionRequest

MAX_REASON_LENGTH = 1_000


def reason(why: str) -> str:
    """Check the length of a reason. Raises Refused if it is too long."""
    if len(why) > MAX_REASON_LENGTH:
        raise refusal("the body has 1 fault", "why", f"must have at most {MAX_REASON_LENGTH} characters")
    return why


async def execute(leaders: LeaderRouter, shard: str, action: ActionRequest) -> ActionResult:
    """Execute an action; returns once it is durable. Raises NotFound, or Conflict if the state does not allow it."""
    answered = await leaders.ask(shard, action)
    match answered.reply:
        case ActionStatus.DONE:
            return ActionResult(changed=True, detail=answered.detail)
        case ActionStatus.ALREADY:
            return ActionResult(changed=False, detail=answered.detail)
        case ActionStatus.NOT_FOUND:
            raise NotFound(answered.detail)
        case ActionStatus.REFUSED:
            raise Conflict(answered.detail)
