"""HTTP workers in a virtual world: their calls, and the replies."""

from __future__ import annotations

import itertools

from mainspring.protocol.wire import Offer, Outcome
from mainspring.shard.effects import Answered
from mainspring.shard.workers.claim_events import BeatClaimed, ClaimWork, EndClaimed, StartClaimed
from tests.shard.world import World

NAME = "http/token:t/w"
_tickets = itertools.count(1_000_000)


def open_claim(
    world: World, wanted: int = 1, *, name: str = NAME, wait: float = 30.0, hold: float = 60.0,
    offer: Offer | None = None, labels: dict[str, str] | None = None,
) -> int:  # fmt: skip
    """A claim, and its ticket."""
    ticket = next(_tickets)
    world.settle(
        ClaimWork(
            worker=name, by="t", ticket=ticket, wanted=wanted, wait_seconds=wait, hold_seconds=hold, offer=offer,
            labels=labels or {},
        )
    )  # fmt: skip
    return ticket


def claimed(world: World, ticket: int) -> list[str]:
    """The names of the tasks that a claim was answered with."""
    return [one.assignment.name for one in world.answers[ticket].claimed]


def claim(world: World, wanted: int = 1, *, name: str = NAME, hold: float = 60.0) -> list[str]:
    """The attempts that a claim was answered with at once."""
    ticket = open_claim(world, wanted, name=name, wait=0.0, hold=hold)
    return [one.assignment.attempt for one in world.answers[ticket].claimed]


def start(world: World, attempt: str, *, name: str = NAME) -> Answered:
    """A worker begins with an attempt."""
    ticket = next(_tickets)
    world.settle(StartClaimed(worker=name, by="t", ticket=ticket, attempt=attempt))
    return world.answers[ticket]


def beat(
    world: World, attempt: str, *, name: str = NAME, percent: float | None = None, checkpoint: str | None = None,
    extend: float | None = None,
) -> Answered:  # fmt: skip
    """A worker is at an attempt."""
    ticket = next(_tickets)
    world.settle(
        BeatClaimed(
            worker=name, by="t", ticket=ticket, attempt=attempt, percent=percent, checkpoint=checkpoint,
            extend_seconds=extend,
        )
    )  # fmt: skip
    return world.answers[ticket]


def end(
    world: World, attempt: str, outcome: Outcome = Outcome.SUCCEEDED, *, name: str = NAME, is_late: bool = False
) -> Answered:
    """Report the end of an attempt."""
    ticket = next(_tickets)
    world.settle(
        EndClaimed(worker=name, by="t", ticket=ticket, attempt=attempt, outcome=outcome, output="1", is_late=is_late)
    )
    return world.answers[ticket]


def running(world: World, *, name: str = NAME) -> str:
    """A claimed and started attempt."""
    (attempt,) = claim(world, name=name)
    start(world, attempt, name=name)
    return attempt
