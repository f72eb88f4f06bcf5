"""An operator sets other measures while everything runs (OPS-5)."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.model.settings import DEFAULTS
from mainspring.core.model.task import StopKind, TaskState
from mainspring.protocol.wire import Assign, Welcome
from mainspring.shard.events import SettingsChanged
from tests.shard.jobs import job, task
from tests.shard.world import World

S = TaskState


def retune(world: World, **fields: float) -> None:
    """These measures are others from now on."""
    world.settle(SettingsChanged(scheduler_settings=replace(DEFAULTS, **fields)))


def test_a_silent_worker_is_lost_by_the_new_setting(world: World) -> None:
    """LIV-1: also if its watch was set by the old one."""
    world.given_running("a", on="w1")

    retune(world, lost_after_seconds=30.0, suspect_after_seconds=20.0)

    world.advance(29)
    assert world.task("a").state is S.RUNNING
    world.advance(1)
    assert (world.task("a").state, world.task("a").losses) == (S.QUEUED, 1)


def test_workers_learn_the_limit(world: World) -> None:
    """A worker stops unattended tasks before they are requeued."""
    world.given_running("a", on="w1")

    retune(world, lost_after_seconds=30.0)

    assert world.said_to("w1", Welcome)[-1] == Welcome("w1:1", 30.0)


def test_a_longer_limit_applies_to_running_tasks(world: World) -> None:
    """LIV-4: the timer of the old limit fires early and is set again."""
    retune(world, hard_limit_seconds=10.0)
    world.given_running("a", on="w1")

    retune(world, hard_limit_seconds=20.0)

    world.advance(19, heard=["w1"])
    assert world.task("a").stop is None
    world.advance(1, heard=["w1"])
    stop = world.task("a").stop
    assert stop is not None
    assert stop.kind is StopKind.TIMEOUT


def test_settings_do_not_override_the_job(world: World) -> None:
    world.given_running("a", on="w1", timeout_seconds=10.0, max_attempts=2, retry_delay_seconds=2.0)

    retune(world, hard_limit_seconds=1.0, retry_delay_seconds=500.0)

    world.advance(9, heard=["w1"])
    assert world.task("a").stop is None
    world.fail("a")
    world.advance(3, heard=["w1"])
    assert world.task("a").state is S.ASSIGNED


def test_default_delays_follow_the_new_settings(world: World) -> None:
    retune(world, retry_delay_seconds=100.0)
    world.given_running("a", on="w1", max_attempts=2)

    world.fail("a")
    world.advance(99, heard=["w1"])

    assert world.task("a").state is S.PENDING


def test_the_assignment_timeout_follows_the_new_settings(world: World) -> None:
    """LIV-3."""
    retune(world, assignment_timeout_seconds=5.0)
    world.register("w1")
    world.submit(job(task("a")))

    world.advance(5, heard=["w1"])

    assert world.task("a").state is S.QUEUED
    assert "w1 did not acknowledge" in world.task("a").because


def test_an_assignment_has_the_new_limit(world: World) -> None:
    retune(world, hard_limit_seconds=77.0)
    world.given_running("a", on="w1")

    (message,) = world.said_to("w1", Assign)

    assert isinstance(message, Assign)
    assert message.group[0].timeout_seconds == 77.0
