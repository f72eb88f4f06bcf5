"""Obstacles between a task and a worker; free and reserved capacity (PLC-1, PLC-3, PLC-6)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority
from mainspring.core.model.worker import Hold, Lease, Worker, WorkerStatus
from mainspring.core.placement.feasibility import NO_AFFINITY, PERMANENT, Affinity, ObstacleKind, is_feasible, obstacles
from mainspring.core.placement.task_shapes import Shape
from mainspring.core.placement.worker_index import OpenWorkers
from tests.core.builders import leased_resources

READY = WorkerStatus.READY
SHAPE = Shape(resources=Resources(2_000, 2**30), labels=(("disk", "ssd"),), zone="eu-1")


def a_worker(
    number: int = 0,
    *,
    total: Resources = Resources(4_000, 2**32, 0, 0),  # noqa: B008 - frozen
    used: Resources = ZERO_RESOURCES,
    status: WorkerStatus = READY,
    zone: str = "eu-1",
    disk: str = "ssd",
) -> Worker:
    """A worker that SHAPE fits on, but for what is given."""
    return Worker(id=f"w{number}", total=total, used=used, status=status, zone=zone, labels={"disk": disk})


def test_a_worker_with_everything_has_no_obstacle() -> None:
    """PLC-1."""
    assert obstacles(SHAPE, a_worker()) == []


@pytest.mark.parametrize(
    ("worker", "kind", "detail"),
    [
        (a_worker(status=WorkerStatus.SUSPECT), ObstacleKind.NOT_READY, "w0 is suspect"),
        (a_worker(disk="hdd"), ObstacleKind.LABEL, "w0 has no label disk=ssd"),
        (a_worker(zone="us-1"), ObstacleKind.ZONE, "w0 is in zone us-1, not eu-1"),
        (a_worker(zone=""), ObstacleKind.ZONE, "w0 is in zone none, not eu-1"),
        (a_worker(total=Resources(1_000, 2**32)), ObstacleKind.TOO_BIG, "1000 cpu_millis in total, 2000 needed"),
        (a_worker(used=Resources(3_000)), ObstacleKind.NO_CAPACITY, "1000 cpu_millis free, 2000 needed"),
    ],
)
def test_each_obstacle_is_named(worker: Worker, kind: ObstacleKind, detail: str) -> None:
    """PLC-1, PLC-3: diagnosis prints what placement asked."""
    [found] = obstacles(SHAPE, worker)
    assert found.kind is kind
    assert detail in found.detail


@pytest.mark.parametrize("hold", [Hold.CORDONED, Hold.DRAINING])
def test_a_worker_that_is_held_gets_nothing_new_and_says_why(hold: Hold) -> None:
    """WRK-9: placement and diagnosis know it from the same place."""
    worker = a_worker()
    worker.hold, worker.hold_why = hold, "new kernel (ann)"

    [found] = obstacles(SHAPE, worker)

    assert (found.kind, found.detail) == (ObstacleKind.CORDONED, f"w0 is {hold} (new kernel (ann))")
    assert OpenWorkers().update(worker) is False


def test_a_leaving_worker_takes_nothing_new() -> None:
    """WRK-9."""
    worker = a_worker()
    worker.leaving = True

    [found] = obstacles(SHAPE, worker)

    assert (found.kind, found.detail) == (ObstacleKind.CORDONED, "w0 is leaving")
    assert OpenWorkers().update(worker) is False


def test_a_label_without_a_value_matches_any() -> None:
    """WRK-3: a worker that serves a handler has its label, with any value."""
    shape = Shape(resources=ZERO_RESOURCES, labels=(("handler/load", ""),))
    worker = a_worker()
    [found] = obstacles(shape, worker)
    assert found.detail == "w0 has no label handler/load"

    worker.labels = {"handler/load": "v2"}
    assert obstacles(shape, worker) == []


def test_a_worker_that_has_refused_a_shape_is_not_asked_again() -> None:
    """PLC-7: a rejection places the task elsewhere."""
    worker = a_worker()
    worker.refused = {SHAPE}
    assert [found.kind for found in obstacles(SHAPE, worker)] == [ObstacleKind.REFUSED]


def test_all_obstacles_are_listed_not_just_the_first() -> None:
    """For diagnosis."""
    worker = a_worker(status=WorkerStatus.LOST, disk="hdd", zone="us-1", total=Resources(1))
    assert len(obstacles(SHAPE, worker)) == 5


def test_use_is_the_sum_over_leases_however_many_members_they_have() -> None:
    """I-60, PLC-10: a group takes the capacity of one task."""
    worker = a_worker()
    worker.leases = {
        name: Lease(id=name, worker_id="w0", tenant="acme", priority=Priority.P1, shape=SHAPE, members={})
        for name in ("l1", "l2")
    }
    assert leased_resources(worker) == SHAPE.resources + SHAPE.resources
    assert leased_resources(a_worker()) == ZERO_RESOURCES


@pytest.mark.parametrize(
    ("affinity", "kind", "detail"),
    [
        (Affinity(affinity=("w1", "w2")), ObstacleKind.AFFINITY, "w0 is not where extract ran"),
        (Affinity(anti_affinity=frozenset({"w0"})), ObstacleKind.ANTI_AFFINITY, "w0 runs load of the same run"),
    ],
)
def test_affinity_can_be_an_obstacle(affinity: Affinity, kind: ObstacleKind, detail: str) -> None:
    """PLC-3: affinity and anti-affinity."""
    shape = Shape(resources=Resources(1_000), affinity=("extract",), anti_affinity=("load",))
    [found] = obstacles(shape, a_worker(), affinity)
    assert (found.kind, found.detail) == (kind, detail)
    assert obstacles(shape, a_worker(1), Affinity(affinity=("w1",), anti_affinity=frozenset({"w0"}))) == []


def test_a_worker_outside_the_zones_of_the_pool_takes_nothing() -> None:
    """ADM-8: the zones of a pool apply to every worker that registers."""
    [found] = obstacles(SHAPE, a_worker(), zones=("eu-2", "eu-3"))
    assert found.kind is ObstacleKind.ZONE_NOT_ALLOWED
    assert obstacles(SHAPE, a_worker(), zones=("eu-2", "eu-1")) == []


def test_a_reservation_is_free_for_its_task_only() -> None:
    """PLC-6: capacity freed for one task is not given to another."""
    worker = a_worker()
    worker.reserve("task_1", Resources(3_000))

    [found] = obstacles(SHAPE, worker)
    assert (found.kind, "4000 cpu_millis free" in found.detail) == (ObstacleKind.RESERVED, True)
    assert [one.kind for one in obstacles(SHAPE, worker, task_id="task_2")] == [ObstacleKind.RESERVED]
    assert obstacles(SHAPE, worker, task_id="task_1") == []

    worker.release("task_1")
    worker.release("task_1")
    assert obstacles(SHAPE, worker) == []
    assert (worker.reserved, worker.reserved_total, worker.free) == ({}, ZERO_RESOURCES, worker.total)


def test_a_reservation_can_exceed_free_capacity_while_it_is_being_freed() -> None:
    """PLC-6: nothing fits until then, not even a task that requests none of it."""
    worker = a_worker(used=Resources(3_000))
    worker.reserve("task_1", Resources(2_000))

    assert worker.free.cpu_millis == -1_000
    assert [one.kind for one in obstacles(Shape(resources=ZERO_RESOURCES), worker)] == [ObstacleKind.RESERVED]
    assert [one.kind for one in obstacles(SHAPE, worker, task_id="task_1")] == [ObstacleKind.NO_CAPACITY]

    worker.used = Resources(2_000)
    assert obstacles(SHAPE, worker, task_id="task_1") == []


def test_a_new_reservation_of_a_task_replaces_the_old_one() -> None:
    """PLC-6: one reservation per task."""
    worker = a_worker()
    worker.reserve("task_1", Resources(3_000))
    worker.reserve("task_1", Resources(1_000))
    worker.reserve("task_2", Resources(500))
    assert worker.free.cpu_millis == 2_500
    assert worker.free_for("task_1").cpu_millis == 3_500


@given(st.randoms(use_true_random=False))
def test_a_feasible_worker_has_no_permanent_obstacle(random: Random) -> None:
    """`is_feasible` and `obstacles` implement one rule: they may never differ."""
    worker = a_worker(
        total=Resources(random.choice((1_000, 4_000)), 2**32, random.choice((0, 2))),
        used=random.choice((ZERO_RESOURCES, Resources(3_000))), status=random.choice(list(WorkerStatus)),
        zone=random.choice(("", "eu-1", "us-1")), disk=random.choice(("ssd", "hdd")),
    )  # fmt: skip
    shape = Shape(
        resources=Resources(random.choice((500, 2_000)), 2**30, random.choice((0, 1))), affinity=("a",), run="run_1",
        labels=random.choice(((), (("disk", ""),), (("disk", "ssd"), ("fast", "")))),
        zone=random.choice((None, "eu-1")),
    )  # fmt: skip
    worker.refused = random.choice((set(), {shape}))
    worker.hold = random.choice(list(Hold))
    affinity = random.choice(
        (NO_AFFINITY, Affinity(affinity=("w0",)), Affinity(affinity=("w1",)), Affinity(anti_affinity=frozenset({"w0"})))
    )
    zones = random.choice(((), ("eu-1",), ("us-1", "")))

    kinds = {one.kind for one in obstacles(shape, worker, affinity, zones=zones)}

    assert is_feasible(shape, worker, affinity, zones) is kinds.isdisjoint(PERMANENT)
