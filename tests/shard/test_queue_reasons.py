"""Queue reasons and summaries agree with the diagnosis of the oldest task; all workers of a large cluster are
checked."""

from __future__ import annotations

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from mainspring.shard.explain.matching import MAX_EXAMINED
from mainspring.shard.explain.pool_status import pool_status
from mainspring.shard.explain.queue_reasons import summarize_waiting
from tests.shard.diagnoses import settled, why
from tests.shard.groups import counted, grant
from tests.shard.jobs import chain, cores, job, task, wide
from tests.shard.preemption_scenes import given, running
from tests.shard.sharing_rules import freeze, group, quota, rules, submit
from tests.shard.world import World

P0, P1, P2 = Priority
S = TaskState


def sums(world: World, tenant: str | None = None) -> dict[Reason, int]:
    """Waiting tasks by reason."""
    return {one.reason: one.tasks for one in summarize_waiting(world.shard.memory, world.now, tenant)}


def test_every_queue_has_the_reason_of_its_oldest_task(world: World) -> None:
    settled(world, w1=2)
    world.rule(rules(quota("broke", max_tasks=0), freeze(FreezeKind.TENANT, "cold"), group("db", 1)))
    running(world, "x", P1)
    world.submit(counted("a"))
    grant(world)
    world.submit(counted("b"))
    given(world, "huge", P1, resources=cores(16))
    given(world, "odd", P1, labels={"disk": "ssd"})
    submit(world, "broke", 2, P1)
    submit(world, "cold", 3, P1)
    submit(world, "late", 1, P2)

    reasons = {line.tenant: line.reason for line in pool_status(world.shard.memory, world.now).queues}

    assert reasons == {
        "acme": Reason.CONCURRENCY, "of_huge": Reason.TOO_BIG, "of_odd": Reason.NO_MATCHING_WORKER,
        "broke": Reason.TENANT_OVER_QUOTA, "cold": Reason.FROZEN, "late": Reason.NO_WORKER_CAPACITY,
    }  # fmt: skip
    for tenant, name in (
        ("acme", "b"),
        ("of_huge", "huge"),
        ("of_odd", "odd"),
        ("broke", "broke10"),
        ("late", "late20"),
    ):
        assert why(world, name).reason is reasons[tenant]
    assert sums(world) == dict.fromkeys(reasons.values(), 1) | {Reason.TENANT_OVER_QUOTA: 2, Reason.FROZEN: 3}
    assert sums(world, "cold") == {Reason.FROZEN: 3}


def test_pending_tasks_are_summarized(world: World) -> None:
    """By run: upstream tasks, retries, pauses."""
    settled(world, w1=8)
    world.submit(chain("a", "b", "c"))
    paused = world.submit(chain("d", "e"))
    world.action(happened.PauseRun, paused)
    retried = world.submit(job(task("f", retry_delay_seconds=60.0)))
    world.start("f")
    world.fail("f", of=retried)

    assert sums(world) == {Reason.WAITING_UPSTREAM: 2, Reason.PAUSED: 1, Reason.WAITING_RETRY: 1}
    (upstream,) = [
        one for one in summarize_waiting(world.shard.memory, world.now) if one.reason is Reason.WAITING_UPSTREAM
    ]
    assert upstream.example == world.task("b").id
    assert upstream.says == why(world, "b").verdict


def test_the_largest_sum_comes_first_with_its_oldest_task(world: World) -> None:
    settled(world, w1=1)
    world.submit(wide(3))
    world.advance(5, heard=["w1"])
    given(world, "huge", P1, resources=cores(16))

    first, second = summarize_waiting(world.shard.memory, world.now)
    assert (first.reason, first.tasks, first.example) == (Reason.NO_WORKER_CAPACITY, 2, world.task("t1").id)
    assert (second.reason, second.oldest) == (Reason.TOO_BIG, world.task("huge").since)


def test_the_only_matching_worker_of_many_is_found(world: World) -> None:
    """It is not in the first sample: all are examined before the answer is never."""
    names = [f"w{number}" for number in range(2 * MAX_EXAMINED)]
    for name in names:
        world.register(name, labels={"gpu": "a100"} if name == "w1" else {})
    world.advance(6, heard=names)
    world.submit(job(task("t0", labels={"gpu": "a100"}), task("t1", labels={"gpu": "a100"})))

    found = why(world, "t1")
    assert found.reason is Reason.NO_WORKER_CAPACITY
    assert [one.id for one in found.blockers] == [world.task("t0").id]

    world.submit(job(task("t2", resources=cores(2))))
    assert why(world, "t2").reason is Reason.TOO_BIG


def test_a_cordoned_sample_does_not_stand_for_the_fleet(world: World) -> None:
    """Every second worker is cordoned, and just those are in the first sample."""
    names = [f"w{number}" for number in range(2 * MAX_EXAMINED)]
    for name in names:
        world.register(name)
    world.settle(*(happened.CordonWorker(worker=name, by="ann") for name in names[::2]))
    world.submit(wide(MAX_EXAMINED + 1))

    assert why(world, f"t{MAX_EXAMINED}").reason is Reason.NO_WORKER_CAPACITY
