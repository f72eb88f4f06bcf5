"""Capacity gates: the true blocker is named, and the gate passes when it is removed."""

from __future__ import annotations

import pytest

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import MAX_NAMED, ExpectedKind, Reason
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from tests.shard.diagnoses import blockers, holding, settled, why
from tests.shard.jobs import GIB, cores, job, task, wide
from tests.shard.preemption_scenes import full_of_p2, given, running
from tests.shard.sharing_rules import promise, quota, rules, submit
from tests.shard.world import World

P0, P1, P2 = Priority
S = TaskState


def test_a_full_pool_names_the_holders_and_counts_the_tasks_ahead(world: World) -> None:
    settled(world, w1=1)
    run = world.submit(wide(4))

    found = why(world, "t3")
    assert (found.reason, holding(found)) == (Reason.NO_WORKER_CAPACITY, words.CAPACITY)
    assert [found.numbers[name] for name in ("free", "total", "ahead")] == [0, 1_000, 2]
    assert blockers(found) == [world.task("t0").id]

    world.run_through("t0", "t1", "t2", of=run)
    assert world.task("t3").state is S.ASSIGNED


def test_the_next_free_capacity_is_estimated_from_usual_durations(world: World) -> None:
    settled(world, w1=1)
    world.submit(job(task("long", expected_seconds=100.0)))
    world.start("long")
    world.advance(40, heard=["w1"])
    given(world, "next", P1)

    found = why(world, "next")
    assert found.numbers["next_room_seconds"] == pytest.approx(60)
    assert "~1m 00s" in found.verdict


def test_the_scarce_resource_is_named(world: World) -> None:
    settled(world, w1=4)
    run = job(*(task(name, resources=Resources(1_000, 3 * GIB)) for name in "ab"))
    world.submit(run)

    assert why(world, "b").verdict.startswith("1 of 4 GiB of memory free")


def test_all_blockers_are_counted_and_a_few_are_named(world: World) -> None:
    settled(world, w1=20)
    world.submit(wide(21))

    found = why(world, "t20")
    assert (len(found.blockers), found.more_blockers) == (MAX_NAMED, 20 - MAX_NAMED)


def test_a_label_without_workers_means_never_and_lists_similar_values(world: World) -> None:
    world.register("w1", labels={"gpu": "t4"})
    world.register("w2", labels={"gpu": "t4"})
    settled(world)
    world.submit(job(task("train", labels={"gpu": "a100"})))

    found = why(world, "train")
    assert (found.reason, holding(found)) == (Reason.NO_MATCHING_WORKER, words.MATCH)
    assert found.verdict == words.no_such_worker("gpu=a100", "2 have gpu=t4", "")
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.NEVER

    world.register("w3", labels={"gpu": "a100"})
    assert world.task("train").state is S.ASSIGNED


def test_a_gpu_without_workers_means_never(world: World) -> None:
    settled(world, w1=8)
    world.submit(job(task("train", resources=Resources(1_000, GIB, gpus=1))))

    found = why(world, "train")
    assert (found.reason, found.verdict) == (
        Reason.NO_MATCHING_WORKER, words.no_such_worker("1 GPU", "", ""),
    )  # fmt: skip

    world.register("w2", cores=8, gpus=1)
    assert world.task("train").state is S.ASSIGNED


def test_constraints_that_no_worker_meets_together_are_listed_together(world: World) -> None:
    world.register("w1", labels={"disk": "ssd"}, zone="a")
    world.register("w2", labels={"disk": "hdd"}, zone="b")
    settled(world)
    world.submit(job(task("t", labels={"disk": "ssd"}, zone="b")))

    found = why(world, "t")
    assert found.reason is Reason.NO_MATCHING_WORKER
    assert found.verdict.startswith("No worker offers disk=ssd and zone b (")


def test_right_after_a_failover_nothing_is_never(world: World) -> None:
    """Workers may not have reconnected yet."""
    world.register("w1", labels={"gpu": "a100"})
    settled(world, w2=1)
    world.new_leader()
    world.reconnect("w2")
    world.submit(job(task("train", labels={"gpu": "a100"})))

    found = why(world, "train")
    assert found.reason is Reason.NO_MATCHING_WORKER
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN


def test_a_pool_without_workers(world: World) -> None:
    world.advance(10)
    world.submit(wide(1))

    found = why(world, "t0")
    assert found.verdict == words.no_worker_at_all("pool")
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN


def test_the_only_matching_worker_is_cordoned(world: World) -> None:
    world.register("w1", labels={"gpu": "a100"})
    settled(world, w2=1)
    world.settle(happened.CordonWorker(worker="w1", by="ann", why="new disk"))
    world.submit(job(task("train", labels={"gpu": "a100"})))

    found = why(world, "train")
    assert (found.reason, blockers(found)) == (Reason.NO_MATCHING_WORKER, ["w1"])
    assert found.verdict.endswith("w1 (cordoned)")
    assert "new disk" not in str(found)
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN

    world.settle(happened.UncordonWorker(worker="w1", by="ann"))
    assert world.task("train").state is S.ASSIGNED


def test_the_only_matching_worker_is_silent(world: World) -> None:
    world.register("w1", labels={"gpu": "a100"})
    settled(world, w2=1)
    world.advance(11, heard=["w2"])
    world.submit(job(task("train", labels={"gpu": "a100"})))

    assert why(world, "train").verdict == words.only_away("gpu=a100", ["w1 (suspect)"], 1)


def test_too_big_names_the_largest_worker(world: World) -> None:
    settled(world, w1=8, w2=4)
    world.submit(job(task("huge", resources=cores(16))))

    found = why(world, "huge")
    assert (found.reason, holding(found)) == (Reason.TOO_BIG, words.SIZE)
    assert found.verdict == words.too_big("16 cores", "8 cores", "")
    assert next(gate.says for gate in found.gates if gate.name == words.MATCH) == "2 of 2"
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.NEVER

    world.register("w3", cores=16)
    assert world.task("huge").state is S.ASSIGNED


def test_fragmented_capacity(world: World) -> None:
    settled(world, w1=3, w2=3)
    run = world.submit(job(*(task(name, resources=cores(2)) for name in "abc")))

    found = why(world, "c")
    assert (found.reason, holding(found)) == (Reason.FRAGMENTED, words.PIECE)
    assert set(blockers(found)) == {world.task("a").id, world.task("b").id}
    assert (found.numbers["free_cores"], found.numbers["most_free_cores"]) == (2, 1)

    world.start("a")
    world.succeed("a", of=run)
    assert world.task("c").state is S.ASSIGNED


def test_higher_priorities_are_counted_and_the_first_is_named(world: World) -> None:
    settled(world, w1=1)
    running(world, "x", P1)
    given(world, "last", P2)
    submit(world, "first", 3, P1)

    found = why(world, "last")
    assert (found.reason, holding(found), found.numbers["ahead"]) == (Reason.PRIORITY_QUEUE_WAIT, words.PRIORITY, 3)
    assert found.verdict == words.behind_priority(3, P2, is_all=True)
    assert [one.tenant for one in found.blockers] == ["first"] * 3

    world.action(happened.CancelRun, world.run("run_0003"))
    assert why(world, "last").reason is Reason.NO_WORKER_CAPACITY


def test_a_more_important_task_with_another_cause_is_not_ahead(world: World) -> None:
    """No worker has their label, or their quota is used up: the capacity is not for them."""
    settled(world, w1=1)
    world.rule(rules(quota("broke", max_tasks=0)))
    running(world, "x", P1)
    given(world, "last", P2)
    given(world, "elsewhere", P1, labels={"disk": "ssd"})
    submit(world, "broke", 2, P1)

    assert why(world, "last").reason is Reason.NO_WORKER_CAPACITY


def test_a_tenant_beyond_its_share_waits_for_one_below(world: World) -> None:
    settled(world, w1=4)
    submit(world, "big", 6, P1)
    submit(world, "small", 1, P1)

    found = why(world, "big14")
    assert (found.reason, holding(found), blockers(found)) == (Reason.FAIR_SHARE, words.SHARE, ["small"])
    assert (found.numbers["share"], found.numbers["other_share"]) == (2, 0)
    assert why(world, "small10").reason is Reason.NO_WORKER_CAPACITY

    world.action(happened.CancelRun, world.run("run_0002"))
    assert why(world, "big14").reason is Reason.NO_WORKER_CAPACITY


def test_a_tenant_within_its_guarantee_goes_first(world: World) -> None:
    settled(world, w1=2)
    promise(world, sure=2)
    submit(world, "other", 3, P1)
    submit(world, "sure", 1, P1)

    found = why(world, "other12")
    assert (found.reason, blockers(found)) == (Reason.FAIR_SHARE, ["sure"])
    assert "within its guarantee" in found.verdict


def test_a_task_with_a_reservation_names_the_tasks_that_are_preempted(world: World) -> None:
    full_of_p2(world)

    found = why(world, "high")
    assert (found.reason, blockers(found)) == (Reason.NO_WORKER_CAPACITY, [world.task("low").id])
    assert next(gate.says for gate in found.gates if gate.name == words.CAPACITY).endswith("w1")

    world.stop("low")
    assert world.task("high").state is S.ASSIGNED


def test_a_preempted_task_names_who_it_was_preempted_for_and_its_progress(world: World) -> None:
    full_of_p2(world)
    asked = why(world, "low")
    assert (asked.reason, blockers(asked)) == (Reason.PREEMPTED, [world.task("high").id])
    high = world.run(world.task("high").run_id)

    world.advance(3, heard=["w1"])
    world.stop("low")
    found = why(world, "low")
    assert (found.reason, blockers(found)[0]) == (Reason.PREEMPTED, high.id)
    assert found.numbers["ran_seconds"] == pytest.approx(4, abs=0.1)
    assert found.numbers["place"] == 1
    trail = world.task("low").trail
    assert trail is not None
    assert trail.preempted_for is not None
    assert (trail.preempted_for.task, trail.preempted_for.run) == (world.task("high").id, high.id)
    assert (found.blockers[0].tenant, found.blockers[0].priority) == ("of_high", P0)
    assert "of_high" not in found.verdict

    world.run_through("high")
    assert why(world, "low").reason is None
    placed = world.task("low").trail
    assert placed is None or placed.preempted_for is None


def test_capacity_reserved_for_a_more_important_task_is_not_free(world: World) -> None:
    """What is free beside the preempted task is reserved for a large P0."""
    settled(world, w1=2)
    running(world, "low", P2)
    given(world, "large", P0, resources=cores(2))
    given(world, "small", P2)

    found = why(world, "small")
    assert (found.reason, holding(found), blockers(found)) == (
        Reason.PRIORITY_QUEUE_WAIT, words.PIECE, [world.task("large").id],
    )  # fmt: skip


def test_anti_affinity_names_the_tasks_to_avoid(world: World) -> None:
    settled(world, w1=4)
    run = world.submit(job(task("a"), task("b", anti_affinity=("a",))))

    found = why(world, "b")
    assert (found.reason, blockers(found)) == (Reason.NO_WORKER_CAPACITY, [world.task("a").id])
    assert found.verdict == words.anti_affinity(["a"])

    world.run_through("a", of=run)
    assert world.task("b").state is S.ASSIGNED


def test_affinity_waits_for_the_worker_of_another_task(world: World) -> None:
    """Another worker is free, but not allowed."""
    settled(world, w1=1)
    run = world.submit(job(task("a"), task("b", "a", affinity=("a",))), priority=P2)
    world.start("a")
    given(world, "x", P1)
    world.succeed("a", of=run)
    settled(world, w2=1)

    found = why(world, "b")
    assert (found.reason, blockers(found)) == (Reason.NO_WORKER_CAPACITY, [world.task("x").id])

    world.run_through("x")
    assert world.task("b").worker_id == "w1"


def test_a_refusal_does_not_mean_never(world: World) -> None:
    """The worker may reconnect and take it."""
    settled(world, w1=1)
    world.submit(wide(1))
    world.give_back("t0", refusal="no such interpreter")

    found = why(world, "t0")
    assert found.reason is Reason.NO_MATCHING_WORKER
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN
    assert "refused" in found.verdict
