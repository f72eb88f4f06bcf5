"""Work that counts against groups, and a store that grants shares and rates."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.run import Run
from mainspring.shard import events as happened
from mainspring.shard.effects import RequestRate, RequestShare
from tests.shard.jobs import job, task
from tests.shard.world import World

LIMIT = "group:acme/db"


def in_group(name: str, *needs: str, **fields: Any) -> TaskSpec:
    """A task that counts by the group."""
    return task(name, *needs, groups=("db",), **fields)


def counted(*names: str, **fields: Any) -> JobSpec:
    """A job whose runs count by the group."""
    return job(*(task(name) for name in names), groups=("db",), **fields)


def grant(world: World, granted: int | None = None) -> None:
    """Grant what the shard has requested, or the given amount."""
    limit_requests, world.limit_requests[:] = list(world.limit_requests), []
    for effect in limit_requests:
        assert isinstance(effect, RequestShare)
        given = effect.wanted if granted is None else granted
        row = ShareRow(limit=effect.limit, holder="pool", granted=given, needed=effect.wanted)
        world.ledger.shares[effect.limit] = row
        world.settle(happened.ShareGranted(limit=effect.limit, granted=given, stamp=effect.stamp))


def allow(world: World, amount: int, *, more_in: float | None = None) -> None:
    """Grant what the shard has requested of a rate."""
    (effect,) = world.limit_requests
    assert isinstance(effect, RequestRate)
    world.limit_requests.clear()
    more_at = None if more_in is None else world.now + timedelta(seconds=more_in)
    world.settle(happened.RateGranted(limit=effect.limit, amount=amount, more_at=more_at))


def began(*runs: Run, world: World) -> list[bool]:
    """Which of these runs have something on a worker."""
    return [any(one.worker_id is not None for one in world.ledger.tasks_of(run.id)) for run in runs]


def used(world: World) -> int:
    """How many count by the group now."""
    return world.shard.memory.limits.ledger.use.get(LIMIT, 0)


def answer_requests(world: World, most: int) -> None:
    """Grant this amount of each limit, as if other pools had the rest."""
    limit_requests, world.limit_requests = world.limit_requests, []
    for effect in limit_requests:
        if isinstance(effect, RequestShare):
            known = world.ledger.shares.get(effect.limit)
            granted = max(min(most, effect.wanted), 0 if known is None else known.granted)
            row = ShareRow(limit=effect.limit, holder="pool", granted=granted, needed=effect.wanted)
            world.ledger.shares[effect.limit] = row
            world.turn(happened.ShareGranted(limit=effect.limit, granted=granted, stamp=effect.stamp))
        else:
            more_at = world.now + timedelta(seconds=2)
            world.turn(happened.RateGranted(limit=effect.limit, amount=min(most, effect.wanted), more_at=more_at))
