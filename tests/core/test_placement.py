"""Which worker takes a task, and why another can't; a worker's room (PLC-1, PLC-2, PLC-3)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.placement import SAMPLE, Hindrance, choose, obstacles
from mainspring.core.resources import NOTHING, Resources
from mainspring.core.shapes import Shape
from mainspring.core.tasks import Priority
from mainspring.core.workers import Hold, Lease, OpenWorkers, Worker, WorkerStatus, use_of

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
        (a_worker(total=Resources(1_000, 2**32)), Hindrance.TOO_BIG, "1000 cpu_millis in all, 2000 are needed"),
        (a_worker(used=Resources(3_000)), Hindrance.NO_ROOM, "1000 cpu_millis left, 2000 are needed"),
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


def test_a_worker_that_leaves_gets_nothing_new() -> None:
    """WRK-9."""
    worker = a_worker()
    worker.leaving = True

    [found] = obstacles(SHAPE, worker)

    assert (found.kind, found.detail) == (Hindrance.HELD, "w0 is leaving")
    assert OpenWorkers().update(worker) is False


def test_a_label_without_a_value_is_there_with_any() -> None:
    """WRK-3: a worker that serves a handler has its label, whatever it says there."""
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


def test_all_obstacles_are_named_not_just_the_first() -> None:
    """Why is it not running: all of it."""
    worker = a_worker(status=WorkerStatus.LOST, disk="hdd", zone="us-1", total=Resources(1))
    assert len(obstacles(SHAPE, worker)) == 5


def test_the_tightest_fit_is_chosen() -> None:
    """PLC-2: large workers stay free for large tasks."""
    workers = [a_worker(0), a_worker(1, used=Resources(2_000)), a_worker(2, used=Resources(1_000))]
    assert choose(SHAPE, workers, Random(1)) is workers[1]


rooms = st.lists(st.integers(0, 4_000), max_size=3 * SAMPLE)


@given(rooms, st.integers(0, 2**32))
def test_a_task_is_never_placed_where_it_does_not_fit_and_always_where_it_does(used: list[int], seed: int) -> None:
    """PLC-1: whatever the sample, somebody takes it if anybody can."""
    workers = [a_worker(number, used=Resources(cpu)) for number, cpu in enumerate(used)]
    chosen = choose(SHAPE, workers, Random(seed))
    assert (chosen is not None) is any(not obstacles(SHAPE, worker) for worker in workers)
    assert chosen is None or obstacles(SHAPE, chosen) == []


@pytest.mark.parametrize("seed", range(20))
def test_the_only_worker_that_will_do_is_found_wherever_it_stands(seed: int) -> None:
    """PLC-2: where the sample has nobody, all are looked at."""
    workers = [a_worker(number, disk="hdd") for number in range(10 * SAMPLE)]
    workers[seed * 8].labels = {"disk": "ssd"}
    assert choose(SHAPE, workers, Random(seed)) is workers[seed * 8]


def test_every_worker_can_be_in_the_sample() -> None:
    """PLC-2: also the last one of the list."""
    workers = [a_worker(number) for number in range(SAMPLE + 1)]
    workers[-1].used = Resources(1_000)
    assert any(choose(SHAPE, workers, Random(seed)) is workers[-1] for seed in range(50))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(WorkerStatus), st.integers(0, 4_000)), max_size=30))
def test_open_workers_are_those_that_are_ready_and_have_room(changes: list[tuple[int, WorkerStatus, int]]) -> None:
    """A list that can be sampled from, and the sum of its room, kept through every change."""
    workers = {number: a_worker(number, status=WorkerStatus.EXPECTED) for number in range(6)}
    open_workers = OpenWorkers()
    for number, status, used in changes:
        worker = workers[number]
        worker.status, worker.used = status, Resources(used)
        is_open = status is READY and used < 4_000
        assert open_workers.update(worker) is is_open
    expected = {worker.id for worker in workers.values() if worker.status is READY and worker.free.cpu_millis > 0}
    assert {worker.id for worker in open_workers.all} == expected
    assert len(open_workers.all) == len(expected)
    assert open_workers.free_cpu_millis == sum(worker.free.cpu_millis for worker in open_workers.all)
    for worker in workers.values():
        open_workers.discard(worker.id)
    assert (open_workers.all, open_workers.free_cpu_millis) == ([], 0)


def test_use_is_the_sum_over_leases_however_many_members_they_have() -> None:
    """I-60, PLC-10: a group takes the room of one task."""
    worker = a_worker()
    worker.leases = {
        name: Lease(id=name, worker_id="w0", tenant="acme", priority=Priority.P1, shape=SHAPE, members={})
        for name in ("l1", "l2")
    }
    assert use_of(worker) == SHAPE.resources + SHAPE.resources
    assert use_of(a_worker()) == NOTHING
