"""Situations in which a worker has a task, or had it: each returns the name of the task."""

from __future__ import annotations

from mainspring.protocol.wire import Progress
from mainspring.shard import events as happened
from tests.shard.diagnoses import settled
from tests.shard.jobs import job, task
from tests.shard.situations import beats, known
from tests.shard.world import World


def not_acknowledged(world: World) -> str:
    """Its worker has not acknowledged it."""
    settled(world, w1=1)
    world.submit(job(task("it")))
    beats(world, 6)
    return "it"


def not_started(world: World) -> str:
    """Its worker has acknowledged it, and does not start it."""
    settled(world, w1=1)
    world.submit(job(task("it")))
    world.receive("it")
    beats(world, 6)
    return "it"


def silent(world: World) -> str:
    """Its worker is silent."""
    world.given_running("it", on="w1")
    world.advance(12)
    return "it"


def slow(world: World) -> str:
    """It takes longer than usual, with progress."""
    known(world, "acme", "it")
    world.given_running("it", on="w1")
    beats(world, 80)
    _moves(world, 61.0)
    return "it"


def stuck(world: World) -> str:
    """It has made no progress for a long time."""
    known(world, "acme", "it")
    world.given_running("it", on="w1")
    _moves(world, 10.0)
    beats(world, 130)
    return "it"


def stalled(world: World) -> str:
    """It has made no progress for so long that it is asked to stop."""
    world.given_running("it", on="w1", stall_seconds=60.0)
    _moves(world, 10.0)
    beats(world, 61)
    assert world.task("it").stop is not None
    return "it"


def _moves(world: World, percent: float) -> None:
    worker, attempt = world.holder("it")
    world.settle(world.say(happened.WorkerHeartbeat, worker, progress=(Progress(attempt, percent, ""),)))


def failed_everywhere(world: World) -> str:
    """It failed the same way on three workers."""
    world.submit(job(task("it", max_attempts=9, retry_delay_seconds=1.0)))
    for name in ("w1", "w2", "w3"):
        world.register(name)
        world.start("it")
        world.fail("it", error='{"type":"KeyError","message":"price"}')
        world.settle(happened.CordonWorker(worker=name, by="ann"))
        beats(world, 300)
    world.register("w4")
    return "it"
