"""Tasks of a run go where others of it are, or stay away from them (PLC-2, PLC-3)."""

from __future__ import annotations

from mainspring.core.model.task import Priority, TaskState
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from tests.shard.jobs import cores, job, task
from tests.shard.world import World

S = TaskState


def test_a_task_runs_on_the_worker_of_its_affinity_target(world: World) -> None:
    """PLC-3: also when that one has ended, and there is capacity elsewhere."""
    world.register("w1", cores=2)
    world.register("w2", cores=8)
    world.submit(job(task("a", resources=cores(4)), task("b", "a", affinity=("a",))))
    world.run_through("a")

    assert world.task("a").ran_on == "w2"
    assert world.task("b").worker_id == "w2"


def test_a_task_waits_for_the_worker_of_its_affinity_target(world: World) -> None:
    """PLC-3: another task took its capacity, and other workers are free."""
    world.register("w1")
    world.submit(job(task("a"), task("b", "a", affinity=("a",))))
    world.start("a")
    world.register("w2", cores=4)
    urgent = world.put_in_intake(job(task("c")), priority=Priority.P0)
    world.settle(world.result("a", Outcome.SUCCEEDED), world.arrival(urgent))
    assert (world.task("c").worker_id, world.task("b").state) == ("w1", S.QUEUED)

    world.run_through("c")
    assert world.task("b").worker_id == "w1"


def test_affinity_does_not_apply_before_the_target_has_started(world: World) -> None:
    """PLC-3: tasks that never started do not count."""
    world.submit(job(task("a"), task("b", affinity=("a",))))
    world.register("w1")
    world.register("w2")

    assert {world.task("a").worker_id, world.task("b").worker_id} == {"w1", "w2"}


def test_affinity_does_not_apply_if_the_worker_is_gone(world: World) -> None:
    """Its affinity target is gone."""
    world.register("w1")
    world.submit(job(task("a"), task("b", "a", affinity=("a",))))
    world.start("a")
    world.settle(world.say(happened.WorkerLeaving, "w1"))
    world.succeed("a")
    world.register("w2")
    assert world.task("b").state is S.QUEUED

    world.advance(20, heard=["w2"])
    assert world.task("b").worker_id == "w2"


def test_anti_affinity_keeps_tasks_on_different_workers(world: World) -> None:
    """PLC-3: as long as the other is there."""
    world.register("w1", cores=4)
    world.submit(job(task("a"), task("b", anti_affinity=("a",))))
    assert (world.task("a").worker_id, world.task("b").state) == ("w1", S.QUEUED)

    world.run_through("a")
    assert world.task("b").worker_id == "w1"


def test_a_fan_out_with_anti_affinity_to_itself_is_spread(world: World) -> None:
    """PLC-3: one on each worker, and the rest when they have ended."""
    for name in ("w1", "w2"):
        world.register(name, cores=4)
    world.submit(job(task("each", for_each="params.many", anti_affinity=("each",))), params='{"many": 4}')
    held = [one for one in world.members("each") if one.worker_id is not None]
    assert sorted(str(one.worker_id) for one in held) == ["w1", "w2"]

    world.run_through(held[0].id)
    assert sorted(str(one.worker_id) for one in world.members("each") if one.worker_id) == ["w1", "w2"]


def test_affinity_ignores_other_runs_of_the_job(world: World) -> None:
    """PLC-3: each run is for itself."""
    world.register("w1", cores=4)
    first, second = (world.submit(job(task("a"), task("b", anti_affinity=("a",)))) for _ in range(2))
    world.run_through("a", of=first)

    assert world.task("b", first).state is S.ASSIGNED
    assert world.task("b", second).state is S.QUEUED


def test_a_task_prefers_the_worker_of_its_upstream(world: World) -> None:
    """PLC-2: the other would be the tighter fit."""
    world.register("large", cores=8)
    world.submit(job(task("a", resources=cores(4)), task("b", "a")))
    world.start("a")
    world.register("small", cores=1)

    world.succeed("a")

    assert world.task("b").worker_id == "large"


def test_a_run_is_spread_over_zones(world: World) -> None:
    """PLC-2: the second task goes to a zone without tasks of the run."""
    world.register("w1", cores=4, zone="one")
    world.submit(job(task("a"), task("b"), task("c", "a")))
    world.register("w2", cores=4, zone="two")
    run = world.submit(job(task("x"), task("y")))

    assert {world.task("x", run).worker_id, world.task("y", run).worker_id} == {"w1", "w2"}


def test_where_tasks_ran_is_known_to_a_new_leader(world: World) -> None:
    """HA-3: it is in their rows."""
    world.register("w1", cores=2)
    world.register("w2", cores=2)
    world.submit(job(task("a"), task("b"), task("c", "a", "b", affinity=("a",))))
    world.start("a", "b")
    where = world.task("a").worker_id
    world.succeed("a")
    world.new_leader()
    for name in ("w1", "w2"):
        world.reconnect(name)

    world.succeed("b")

    assert world.task("c").worker_id == where
