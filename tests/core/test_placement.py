"""Why a worker can't take a task; a worker's room (PLC-1, PLC-3, PLC-6)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.resources import NOTHING, Resources
from mainspring.core.model.task import Priority
from mainspring.core.model.worker import Hold, Lease, Worker, WorkerStatus, use_of
from mainspring.core.placement.feasibility import LASTING, NO_KIN, Hindrance, Kin, obstacles, would_do
from mainspring.core.placement.task_shapes import Shape
from mainspring.core.placement.worker_index import OpenWorkers

READY = WorkerStatus.READY
SHAPE = Shape(resources=Resources(2_000, 2**30), labels=(("disk", "ssd"),), zone="eu-1")


def a_worker(
    number: int = 0,
    *,
    total: Resources = Resources(4_000, 2**32, 0, 0),  # noqa: B008 - frozen
    used: Resources = NOTHING,
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
        (a_worker(status=WorkerStatus.SUSPECT), Hindrance.NOT_READY, "w0 is suspect"),
        (a_worker(disk="hdd"), Hindrance.LABEL, "w0 has no label disk=ssd"),
        (a_worker(zone="us-1"), Hindrance.ZONE, "w0 is in zone us-1, not eu-1"),
        (a_worker(zone=""), Hindrance.ZONE, "w0 is in zone none, not eu-1"),
        (a_worker(total=Resources(1_000, 2**32)), Hindrance.TOO_BIG, "1000 cpu_millis in total, 2000 needed"),
        (a_worker(used=Resources(3_000)), Hindrance.NO_ROOM, "1000 cpu_millis free, 2000 needed"),
    ],
)
def test_each_obstacle_is_named(worker: Worker, kind: Hindrance, detail: str) -> None:
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

    assert (found.kind, found.detail) == (Hindrance.HELD, f"w0 is {hold} (new kernel (ann))")
    assert OpenWorkers().update(worker) is False


def test_a_leaving_worker_takes_nothing_new() -> None:
    """WRK-9."""
    worker = a_worker()
    worker.leaving = True

    [found] = obstacles(SHAPE, worker)

    assert (found.kind, found.detail) == (Hindrance.HELD, "w0 is leaving")
    assert OpenWorkers().update(worker) is False


def test_a_label_without_a_value_matches_any() -> None:
    """WRK-3: a worker that serves a handler has its label, with any value."""
    shape = Shape(resources=NOTHING, labels=(("handler/load", ""),))
    worker = a_worker()
    [found] = obstacles(shape, worker)
    assert found.detail == "w0 has no label handler/load"

    worker.labels = {"handler/load": "v2"}
    assert obstacles(shape, worker) == []


def test_a_worker_that_has_refused_a_shape_is_not_asked_again() -> None:
    """PLC-7: a rejection places the task elsewhere."""
    worker = a_worker()
    worker.refused = {SHAPE}
    assert [found.kind for found in obstacles(SHAPE, worker)] == [Hindrance.REFUSED]


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
    assert use_of(worker) == SHAPE.resources + SHAPE.resources
    assert use_of(a_worker()) == NOTHING


@pytest.mark.parametrize(
    ("kin", "kind", "detail"),
    [
        (Kin(near=("w1", "w2")), Hindrance.NEAR, "w0 is not where extract ran"),
        (Kin(apart=frozenset({"w0"})), Hindrance.APART, "w0 runs load of the same run"),
    ],
)
def test_affinity_can_be_an_obstacle(kin: Kin, kind: Hindrance, detail: str) -> None:
    """PLC-3: affinity and anti-affinity."""
    shape = Shape(resources=Resources(1_000), near=("extract",), apart=("load",))
    [found] = obstacles(shape, a_worker(), kin)
    assert (found.kind, found.detail) == (kind, detail)
    assert obstacles(shape, a_worker(1), Kin(near=("w1",), apart=frozenset({"w0"}))) == []


def test_a_worker_outside_the_zones_of_the_pool_takes_nothing() -> None:
    """ADM-8: the zones of a pool apply to every worker that registers."""
    [found] = obstacles(SHAPE, a_worker(), zones=("eu-2", "eu-3"))
    assert found.kind is Hindrance.OUTSIDE
    assert obstacles(SHAPE, a_worker(), zones=("eu-2", "eu-1")) == []


def test_a_reservation_is_free_for_its_task_only() -> None:
    """PLC-6: capacity freed for one task is not given to another."""
    worker = a_worker()
    worker.keep("task_1", Resources(3_000))

    [found] = obstacles(SHAPE, worker)
    assert (found.kind, "4000 cpu_millis free" in found.detail) == (Hindrance.KEPT, True)
    assert [one.kind for one in obstacles(SHAPE, worker, task_id="task_2")] == [Hindrance.KEPT]
    assert obstacles(SHAPE, worker, task_id="task_1") == []

    worker.give_back("task_1")
    worker.give_back("task_1")
    assert obstacles(SHAPE, worker) == []
    assert (worker.kept, worker.kept_total, worker.free) == ({}, NOTHING, worker.total)


def test_a_reservation_can_exceed_free_capacity_while_it_is_being_freed() -> None:
    """PLC-6: nothing fits until then, not even a task that requests none of it."""
    worker = a_worker(used=Resources(3_000))
    worker.keep("task_1", Resources(2_000))

    assert worker.free.cpu_millis == -1_000
    assert [one.kind for one in obstacles(Shape(resources=NOTHING), worker)] == [Hindrance.KEPT]
    assert [one.kind for one in obstacles(SHAPE, worker, task_id="task_1")] == [Hindrance.NO_ROOM]

    worker.used = Resources(2_000)
    assert obstacles(SHAPE, worker, task_id="task_1") == []


def test_a_new_reservation_of_a_task_replaces_the_old_one() -> None:
    """PLC-6: one reservation per task."""
    worker = a_worker()
    worker.keep("task_1", Resources(3_000))
    worker.keep("task_1", Resources(1_000))
    worker.keep("task_2", Resources(500))
    assert worker.free.cpu_millis == 2_500
    assert worker.free_for("task_1").cpu_millis == 3_500


@given(st.randoms(use_true_random=False))
def test_a_feasible_worker_has_no_permanent_obstacle(random: Random) -> None:
    """`would_do` and `obstacles` implement one rule: they may never differ."""
    worker = a_worker(
        total=Resources(random.choice((1_000, 4_000)), 2**32, random.choice((0, 2))),
        used=random.choice((NOTHING, Resources(3_000))), status=random.choice(list(WorkerStatus)),
        zone=random.choice(("", "eu-1", "us-1")), disk=random.choice(("ssd", "hdd")),
    )  # fmt: skip
    shape = Shape(
        resources=Resources(random.choice((500, 2_000)), 2**30, random.choice((0, 1))), near=("a",), run="run_1",
        labels=random.choice(((), (("disk", ""),), (("disk", "ssd"), ("fast", "")))),
        zone=random.choice((None, "eu-1")),
    )  # fmt: skip
    worker.refused = random.choice((set(), {shape}))
    worker.hold = random.choice(list(Hold))
    kin = random.choice((NO_KIN, Kin(near=("w0",)), Kin(near=("w1",)), Kin(apart=frozenset({"w0"}))))
    zones = random.choice(((), ("eu-1",), ("us-1", "")))

    kinds = {one.kind for one in obstacles(shape, worker, kin, zones=zones)}

    assert would_do(shape, worker, kin, zones) is kinds.isdisjoint(LASTING)
