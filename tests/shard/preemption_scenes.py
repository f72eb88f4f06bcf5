"""Scenes that preemption tests begin with: full workers, running tasks, requested stops."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, Reservation, StopKind
from mainspring.shard import events as happened
from tests.shard.jobs import job, task
from tests.shard.world import World

P0, P1, P2 = Priority


def given(world: World, name: str, priority: Priority, **fields: Any) -> Run:
    """Adopt a run of one task of a tenant of that name."""
    return world.submit(job(task(name, **fields)), tenant=f"of_{name}", priority=priority)


def tune(world: World, **settings: float) -> None:
    """Change scheduler settings."""
    world.settle(
        happened.SettingsChanged(scheduler_settings=replace(world.shard.memory.scheduler_settings, **settings))
    )


def running(world: World, name: str, priority: Priority, **fields: Any) -> Run:
    """Start a run of one task on any worker."""
    run = given(world, name, priority, **fields)
    world.start(name)
    return run


def asked_to_go(world: World) -> set[str]:
    """Tasks that were asked to stop by preemption."""
    return {
        one.name for one in world.ledger.tasks.values() if one.stop is not None and one.stop.kind is StopKind.PREEMPT
    }


def room(world: World, name: str) -> Reservation | None:
    """The reservation of a task."""
    return world.task(name).reserved


def full_of_p2(world: World) -> None:
    """A worker of one core that runs a P2, and a P0 that wants it."""
    world.register("w1")
    running(world, "low", P2)
    world.advance(1, heard=["w1"])
    given(world, "high", P0)
