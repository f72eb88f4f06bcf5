"""The decision log (PLC-8): decisions with reasons, sampled, without any effect on them."""

from __future__ import annotations

from random import Random

import pytest

from mainspring import __version__
from mainspring.core.explain.unplaced import explain
from mainspring.core.model.decisions import MAX_DECISIONS_PER_BATCH, Decision, DecisionKind, is_sampled
from mainspring.core.model.task import Priority
from mainspring.core.placement.feasibility import obstacles
from mainspring.protocol.ids import new_id
from tests.shard.jobs import cores, job, short, task, wide
from tests.shard.preemption_scenes import asked_to_go, full_of_p2, given, running, tune
from tests.shard.world import World

P0, P1, P2 = Priority
K = DecisionKind


def told(world: World, kind: DecisionKind) -> list[Decision]:
    """The decisions of a kind, in order."""
    return [one for batch in world.batches for one in batch.decisions if one.kind is kind]


def keep_all(world: World) -> None:
    tune(world, decisions_sampled_per_1000=1_000)


def test_a_placement_records_the_worker_and_its_score(world: World) -> None:
    keep_all(world)
    world.register("w1", cores=4)
    world.register("w2", cores=8)
    run = given(world, "extract", P1, resources=cores(3), labels={})

    (one,) = told(world, K.PLACED)
    assert (one.task_id, one.run_id, one.tenant) == (world.task("extract").id, run.id, "of_extract")
    assert (one.name, one.attempt, one.priority, one.shard) == ("extract", 1, P1, "pool")
    assert one.request.resources == cores(3)
    assert (one.worker_id, one.free) == ("w1", cores(4))
    assert (one.workers_examined, one.why) == (2, "the best of 2 workers")
    assert (one.version, one.at) == (__version__, world.now)
    assert (one.victims, one.victim_count) == ((), 0)


def test_a_fuller_worker_has_a_higher_score(world: World) -> None:
    keep_all(world)
    world.register("w1", cores=8)
    given(world, "begins", P1, resources=cores(1))
    given(world, "fills", P1, resources=cores(7))

    begins, fills = told(world, K.PLACED)
    assert begins.score is not None
    assert fills.score is not None
    assert fills.score > begins.score
    assert fills.free == cores(7)


def test_tasks_of_one_lease_are_logged_together(world: World) -> None:
    keep_all(world)
    world.submit(job(*(short(f"s{n}") for n in range(20))))
    world.register("w1", cores=1)

    first = told(world, K.PLACED)
    assert len(first) == 10
    assert {one.why for one in first} == {"the best of 1 worker; 10 tasks share the lease"}
    assert {one.free for one in first} == {cores(1)}


def test_a_placement_on_a_reservation_is_logged_as_such(world: World) -> None:
    keep_all(world)
    full_of_p2(world)
    world.stop("low")

    *_, high = told(world, K.PLACED)
    assert (high.name, high.free, high.workers_examined) == ("high", cores(1), 1)
    assert high.why == "the capacity reserved for it is free"


def test_a_preemption_is_always_logged_with_victims_and_reason(world: World) -> None:
    tune(world, decisions_sampled_per_1000=0)
    world.register("w1", cores=2)
    running(world, "old", P2)
    world.advance(30, heard=["w1"])
    running(world, "young", P2)
    world.advance(5, heard=["w1"])
    given(world, "high", P0)

    assert told(world, K.PLACED) == []
    (one,) = told(world, K.PREEMPTS)
    assert (one.name, one.worker_id, one.free) == ("high", "w1", cores(0))
    (victim,) = one.victims
    assert asked_to_go(world) == {"young"}
    assert (victim.task_id, victim.tenant, victim.priority) == (world.task("young").id, "of_young", P2)
    assert victim.lost_seconds == pytest.approx(5.0)
    assert one.victim_count == 1
    assert one.why == ("P0 preempts P1 and P2: 1 of P2, losing 5 s of work, is the cheapest choice on 1 worker")


def test_the_reason_of_a_preemption_names_no_other_tenant(world: World) -> None:
    full_of_p2(world)

    (one,) = told(world, K.PREEMPTS)
    assert "low" not in one.why


def test_a_shape_without_capacity_is_logged_with_a_reason_per_worker(world: World) -> None:
    world.register("w1", cores=1)
    world.register("w2", cores=4, labels={"arch": "arm"})
    given(world, "waits", P1, resources=cores(2), labels={"arch": "arm"})
    given(world, "waits more", P1, resources=cores(3), labels={"arch": "arm"})

    (one,) = told(world, K.NO_CAPACITY)
    assert (one.name, one.worker_id, one.free, one.score, one.workers_examined) == ("waits more", None, None, None, 2)
    workers = world.shard.memory.workers.values()
    assert one.why == explain(one.request, [obstacles(one.request, worker) for worker in workers])


def test_a_shape_without_capacity_is_logged_at_most_every_ten_seconds(world: World) -> None:
    """Each time capacity becomes free one task of the queue gets it, and the others find none."""
    world.register("w1", cores=1)
    world.submit(wide(13))
    for number in range(11):
        world.run_through(f"t{number}")
        world.advance(2, heard=["w1"])

    assert [one.name for one in told(world, K.NO_CAPACITY)] == ["t1", "t7", "t12"]


def test_a_pool_without_workers_is_logged_as_such(world: World) -> None:
    given(world, "waits", P1)

    (one,) = told(world, K.NO_CAPACITY)
    assert (one.workers_examined, one.why) == (0, explain(one.request, []))


def test_sampling_does_not_affect_decisions() -> None:
    """The same scenario twice: with everything logged, and with nothing."""
    stories = []
    for kept in (0, 1_000):
        world = World()
        tune(world, decisions_sampled_per_1000=kept)
        for number in range(30):
            world.register(f"w{number}", cores=2)
        world.submit(wide(80), tenant="a", priority=P2)
        world.submit(job(*(short(f"s{n}") for n in range(200))), tenant="b", priority=P1)
        given(world, "large", P0, resources=cores(2))
        stories.append([step for batch in world.batches for step in batch.transitions])
        assert bool(told(world, K.PLACED)) is bool(kept)

    assert stories[0] == stories[1]


def test_the_sampling_rate_follows_the_setting(world: World) -> None:
    random = Random(1)
    rooms = [new_id("lease", world.now, random) for _ in range(20_000)]

    for kept_of_1000 in (0, 10, 500, 1_000):
        kept = sum(is_sampled(room, kept_of_1000) for room in rooms)
        assert kept == pytest.approx(20 * kept_of_1000, rel=0.2)


def test_a_batch_has_a_bounded_number_of_placements(world: World) -> None:
    keep_all(world)
    world.submit(job(*(task(f"t{n}", resources=cores(0.01)) for n in range(MAX_DECISIONS_PER_BATCH + 500))))
    world.register("w1", cores=1_000)

    assert max(len(batch.decisions) for batch in world.batches) <= MAX_DECISIONS_PER_BATCH
