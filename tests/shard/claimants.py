"""HTTP workers in a virtual world: their calls, and the replies."""

from __future__ import annotations

import itertools

from mainspring.protocol.wire import Offer, Outcome
from mainspring.shard.effects import ActionReply
from mainspring.shard.workers.claim_events import ClaimEnded, ClaimHeartbeat, ClaimStarted, ClaimWork
from tests.shard.world import World

NAME = "http/token:t/w"
_tickets = itertools.count(1_000_000)


def open_claim(
    world: World, wanted: int = 1, *, name: str = NAME, wait: float = 30.0, hold: float = 60.0,
    offer: Offer | None = None, labels: dict[str, str] | None = None,
) -> int:  # fmt: skip
    """A claim, and its ticket."""
    request_id = next(_tickets)
    world.settle(
        ClaimWork(
            worker=name, by="t", request_id=request_id, wanted=wanted, wait_seconds=wait, hold_seconds=hold,
            offer=offer,
            labels=labels or {},
        )
    )  # fmt: skip
    return request_id


def claimed(world: World, request_id: int) -> list[str]:
    """The names of the tasks that a claim was answered with."""
    return [one.assignment.name for one in world.answers[request_id].claimed]


def claim(world: World, wanted: int = 1, *, name: str = NAME, hold: float = 60.0) -> list[str]:
    """The attempts that a claim was answered with at once."""
    request_id = open_claim(world, wanted, name=name, wait=0.0, hold=hold)
    return [one.assignment.attempt for one in world.answers[request_id].claimed]


def start(world: World, attempt: str, *, name: str = NAME) -> ActionReply:
    """A worker begins with an attempt."""
    request_id = next(_tickets)
    world.settle(ClaimStarted(worker=name, by="t", request_id=request_id, attempt=attempt))
    return world.answers[request_id]


def beat(
    world: World, attempt: str, *, name: str = NAME, percent: float | None = None, checkpoint: str | None = None,
    extend: float | None = None,
) -> ActionReply:  # fmt: skip
    """A worker is at an attempt."""
    request_id = next(_tickets)
    world.settle(
        ClaimHeartbeat(
            worker=name, by="t", request_id=request_id, attempt=attempt, percent=percent, checkpoint=checkpoint,
            extend_seconds=extend,
        )
    )  # fmt: skip
    return world.answers[request_id]


def end(
    world: World, attempt: str, outcome: Outcome = Outcome.SUCCEEDED, *, name: str = NAME, is_late: bool = False
) -> ActionReply:
    """Report the end of an attempt."""
    request_id = next(_tickets)
    world.settle(
        ClaimEnded(
            worker=name, by="t", request_id=request_id, attempt=attempt, outcome=outcome, output="1", is_late=is_late
        )
    )
    return world.answers[request_id]


def running(world: World, *, name: str = NAME) -> str:
    """A claimed and started attempt."""
    (attempt,) = claim(world, name=name)
    start(world, attempt, name=name)
    return attempt
