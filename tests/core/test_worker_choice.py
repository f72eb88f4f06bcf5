"""Worker choice: always a feasible one if there is any, and the best by the score (PLC-2, PLC-3)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority
from mainspring.core.model.worker import Hold, Lease, Worker, WorkerStatus
from mainspring.core.placement import feasibility
from mainspring.core.placement.capacity_cells import GUARDS, SAMPLE, size_code
from mainspring.core.placement.feasibility import MAX_USES, NO_AFFINITY, Affinity, Shortlist, choose, obstacles, score
from mainspring.core.placement.task_shapes import Shape
from mainspring.core.placement.worker_index import OpenWorkers

GIB = 2**30
ROOM = Resources(8_000, 8 * GIB, 2, 8 * GIB)
SMALL = Shape(resources=Resources(1_000, GIB))
P0, P1, P2 = Priority


def a_worker(
    number: int, *, used: Resources = ZERO_RESOURCES, zone: str = "a", labels: dict[str, str] | None = None
) -> Worker:
    """A worker that is ready."""
    return Worker(id=f"w{number}", total=ROOM, used=used, zone=zone, labels=labels or {}, status=WorkerStatus.READY)


def opened(workers: Sequence[Worker], rare: int = 1_000) -> OpenWorkers:
    """An index of these workers."""
    found = OpenWorkers(rare)
    for worker in workers:
        found.update(worker)
    return found


resources = st.builds(
    Resources, st.integers(0, 8_500), st.sampled_from((0, 1, GIB, 3 * GIB + 7, 8 * GIB, 9 * GIB)), st.integers(0, 3),
    st.sampled_from((0, GIB, 8 * GIB)),
)  # fmt: skip
parts = st.builds(
    Resources, st.integers(0, 8_000), st.sampled_from((0, GIB, 5 * GIB, 8 * GIB)), st.integers(0, 2),
    st.sampled_from((0, 7 * GIB, 8 * GIB)),
)  # fmt: skip
labels = st.dictionaries(st.sampled_from(("disk", "arch", "host")), st.sampled_from(("x", "y", "")), max_size=3)
ids = st.integers(0, 60).map(lambda number: f"w{number}")
shapes = st.builds(
    Shape, resources=resources, labels=labels.map(lambda found: tuple(sorted(found.items()))),
    zone=st.sampled_from((None, None, "a", "b")), prefer=labels.map(lambda found: tuple(sorted(found.items()))),
    prefer_zone=st.sampled_from((None, "b")),
)  # fmt: skip
kins = st.builds(
    Affinity, affinity=st.none() | st.lists(ids, max_size=4).map(tuple), anti_affinity=st.frozensets(ids, max_size=20),
    local=st.lists(ids, max_size=3).map(tuple), zones=st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)),
)  # fmt: skip


@st.composite
def fleets(draw: st.DrawFn) -> list[Worker]:
    """All kinds of workers: cordoned, silent, with reservations, with refusals."""
    kinds = draw(st.lists(st.tuples(parts, st.sampled_from("abc"), labels), min_size=1, max_size=8))
    random = Random(draw(st.integers(0, 2**32)))
    found = []
    for number in range(draw(st.integers(0, 60))):
        used, zone, has = random.choice(kinds)
        worker = a_worker(number, used=used, zone=zone, labels=dict(has))
        worker.status = random.choice((WorkerStatus.READY,) * 5 + (WorkerStatus.SUSPECT,))
        worker.hold = random.choice((Hold.NONE,) * 5 + (Hold.CORDONED,))
        if random.random() < 0.3:
            worker.reserve(f"task_{number % 3}", Resources(random.randrange(9_000)))
        found.append(worker)
    return found


@given(fleets(), shapes, st.none() | kins, st.sampled_from(Priority), st.integers(0, 2**32), st.data())
def test_a_worker_is_chosen_exactly_if_one_has_no_obstacle(
    workers: list[Worker], shape: Shape, affinity: Affinity | None, priority: Priority, seed: int, data: st.DataObject
) -> None:
    """PLC-1: choice and diagnosis agree on any request; labels may be common or rare."""
    if workers and seed % 2:
        workers[seed % len(workers)].refused = {shape}
    zones = data.draw(st.sampled_from(((), ("a",), ("b", "c"))))
    task_id = data.draw(st.sampled_from(("", "task_1")))
    affinity = affinity or NO_AFFINITY

    chosen = choose(
        shape, opened(workers, data.draw(st.sampled_from((0, 3, 1_000)))), Random(seed), priority=priority,
        affinity=affinity,
        task_id=task_id, zones=zones,
    )  # fmt: skip

    can_take = [worker.id for worker in workers if not obstacles(shape, worker, affinity, task_id, zones)]
    assert (chosen is not None) is bool(can_take)
    assert chosen is None or chosen.id in can_take


@given(fleets(), shapes, kins, st.integers(0, 2**32))
def test_the_same_history_and_seed_choose_the_same_worker(
    workers: list[Worker], shape: Shape, affinity: Affinity, seed: int
) -> None:
    """Turns are repeatable: decisions depend on inputs only."""
    chosen = {
        getattr(choose(shape, opened(workers, 3), Random(seed), priority=priority, affinity=affinity), "id", None)
        for priority in (P2, P2)
    }
    assert len(chosen) == 1


changes = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(WorkerStatus), parts, st.integers(0, 3), st.booleans()), max_size=60
)


@given(changes, st.sampled_from((0, 2, 1_000)))
def test_the_index_does_not_depend_on_its_history(
    changes: list[tuple[int, WorkerStatus, Resources, int, bool]], rare: int
) -> None:
    """After any changes of status, capacity, labels and reservations, it equals a new one."""
    workers = {number: a_worker(number) for number in range(10)}
    index = OpenWorkers(rare)
    for number, status, used, sort, is_gone in changes:
        worker = workers[number]
        worker.status, worker.used = status, used
        if sort:
            worker.labels, worker.zone = {"disk": "ssd"} if sort == 1 else {"host": worker.id}, "ab"[sort % 2]
            worker.reserve(f"task_{sort}", Resources(500))
        else:
            worker.release("task_1")
        assert index.update(worker) is (status is WorkerStatus.READY)
        if is_gone:
            index.discard(worker.id)
            worker.status = WorkerStatus.LOST
    ready = [worker for worker in workers.values() if index.get(worker.id) is worker]
    assert {worker.id for worker in index.all} == {worker.id for worker in ready}
    assert index.free_cpu_millis == sum(max(0, worker.free.cpu_millis) for worker in ready)
    for labels in ((), (("disk", "ssd"),), (("host", ""),)):
        for wanted in (ZERO_RESOURCES, Resources(3_000), Resources(4_000, GIB, 1, GIB)):
            groups = index.groups(labels, None, (), None)
            found = [worker.id for group in groups for worker in group.walk(wanted, Random(1))]
            having = [one for one in ready if all(key in one.labels for key, _ in labels) and wanted.fits(one.free)]
            assert sorted(found) == sorted(one.id for one in having)
    for worker in workers.values():
        index.discard(worker.id)
    assert (index.all, index.free_cpu_millis, index.groups((), None, (), None)) == ([], 0, [])
    assert all(index.reserving_worker(f"task_{number}") is None for number in range(4))


@given(resources, resources)
def test_a_size_code_never_hides_capacity(one: Resources, other: Resources) -> None:
    """PLC-1: a request that fits by amounts fits by sizes."""
    if one.fits(other):
        assert ((size_code(other) | GUARDS) - size_code(one)) & GUARDS == GUARDS


@pytest.mark.parametrize("seed", range(5))
def test_a_walk_yields_each_worker_with_capacity_once(seed: int) -> None:
    """PLC-2: also where many have the same capacity, and after a walk without a result."""
    workers = [a_worker(number, used=Resources(3_500 - number % 2)) for number in range(10 * SAMPLE)]
    [group] = opened(workers).groups((), None, (), None)

    assert list(group.walk(Resources(4_502), Random(seed))) == []
    assert sorted(worker.id for worker in group.walk(Resources(4_501), Random(seed))) == sorted(
        worker.id for worker in workers[1::2]
    )
    assert len(list(group.walk(Resources(4_500), Random(seed)))) == len(workers)


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("seed", range(5))
def test_the_only_feasible_worker_is_found_anywhere(seed: int, priority: Priority) -> None:
    """PLC-2: if the sample has none, all with the capacity are examined."""
    workers = [a_worker(number, used=Resources(7_500)) for number in range(20 * SAMPLE)]
    workers[seed * 50].used = Resources(7_000)
    assert choose(SMALL, opened(workers), Random(seed), priority=priority) is workers[seed * 50]


def test_every_worker_can_be_in_the_sample() -> None:
    """PLC-2: also the last one."""
    workers = [a_worker(number) for number in range(SAMPLE + 1)]
    workers[-1].used = Resources(4_000, 4 * GIB)
    index = opened(workers)
    assert any(choose(SMALL, index, Random(seed), priority=P1) is workers[-1] for seed in range(50))


@pytest.mark.parametrize("priority", Priority)
def test_a_search_without_result_is_forgotten_when_capacity_grows(priority: Priority) -> None:
    """PLC-1: also when free capacity grows within its size."""
    workers = [a_worker(number, used=Resources(3_500)) for number in range(20 * SAMPLE)]
    index, shape = opened(workers), Shape(resources=Resources(5_000))
    assert choose(shape, index, Random(1), priority=priority) is None

    workers[200].used = Resources(3_000)
    index.update(workers[200])
    assert choose(shape, index, Random(1), priority=priority) is workers[200]

    workers[200].used = Resources(3_500)
    index.update(workers[200])
    assert choose(shape, index, Random(1), priority=priority) is None


@pytest.mark.parametrize("priority", Priority)
def test_the_tightest_fit_is_chosen(priority: Priority) -> None:
    """PLC-2: large gaps stay for large tasks."""
    used = (Resources(), Resources(6_000, 6 * GIB), Resources(3_000, 3 * GIB))
    workers = [a_worker(number, used=one) for number, one in enumerate(used)]
    assert choose(SMALL, opened(workers), Random(1), priority=priority) is workers[1]


def test_p2_finds_the_tightest_fit_among_many() -> None:
    """PLC-2: it examines more than a sample."""
    workers = [a_worker(number) for number in range(50 * SAMPLE)]
    workers[333].used = Resources(6_000, 6 * GIB)
    assert choose(SMALL, opened(workers), Random(1), priority=P2) is workers[333]


def test_where_all_are_alike_p2_compares_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """If they differ, some of every size are compared."""
    compared: list[str] = []

    def watched(shape: Shape, worker: Worker, *rest: Any) -> float:
        compared.append(worker.id)
        return score(shape, worker, *rest)

    monkeypatch.setattr(feasibility, "score", watched)
    alike = [a_worker(number) for number in range(100)]
    assert choose(SMALL, opened(alike), Random(1), priority=P2) is not None
    assert len(compared) == 5

    compared.clear()
    fuller = [a_worker(100 + number, used=Resources(4_000, 4 * GIB)) for number in range(2)]
    assert choose(SMALL, opened([*alike, *fuller]), Random(1), priority=P2) in fuller
    assert {"w100", "w101"} < set(compared)


placings = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(("", "task_1")), st.sampled_from((Hold.NONE, *Hold))), max_size=30
)
sorts = st.lists(st.tuples(shapes, st.none() | kins, st.sampled_from(Priority)), min_size=3, max_size=3)


@given(fleets(), sorts, placings)
def test_one_search_for_several_tasks_places_exactly_those_that_fit(
    workers: list[Worker], sorts: list[tuple[Shape, Affinity | None, Priority]], placings: list[tuple[int, str, Hold]]
) -> None:
    """PLC-1, PLC-2: changes of a worker since the search count."""
    for worker in [worker for worker in workers if "task_1" in worker.reserved][1:]:
        worker.release("task_1")  # a task has at most one room
    index, lists, random = opened(workers), dict[Shape, Shortlist](), Random(1)
    for sort, task_id, hold in placings:
        shape, affinity, priority = sorts[sort]
        affinity = affinity or NO_AFFINITY

        chosen = choose(shape, index, random, priority=priority, affinity=affinity, task_id=task_id, shortlists=lists)

        can_take = [worker for worker in workers if not obstacles(shape, worker, affinity, task_id)]
        assert chosen in can_take if can_take else chosen is None
        if chosen is not None:
            chosen.used += shape.resources
            chosen.hold = hold
            index.update(chosen)


def test_found_workers_are_compared_in_their_current_state() -> None:
    """PLC-2: one that has become fuller meanwhile is the tightest, and a full one is excluded."""
    workers = [a_worker(number, used=Resources(1_000, GIB)) for number in range(3)]
    index, lists = opened(workers), dict[Shape, Shortlist]()

    def chosen() -> Worker | None:
        return choose(SMALL, index, Random(1), priority=P2, shortlists=lists)

    assert chosen() is workers[0]
    workers[2].used = Resources(6_000, 6 * GIB)
    assert chosen() is workers[2]
    workers[2].used = ROOM
    assert chosen() is workers[0]


def test_the_search_is_repeated_after_some_tasks() -> None:
    """Others may fit better by then."""
    workers = [a_worker(number) for number in range(50)]
    index, lists = opened(workers), dict[Shape, Shortlist]()
    assert choose(SMALL, index, Random(1), priority=P2, shortlists=lists) is not None
    for worker in workers:
        if worker is not workers[40]:
            worker.used = Resources(1_000, GIB)
    workers[40].used = Resources(7_000, 7 * GIB)
    for worker in workers:
        index.update(worker)

    chosen = [choose(SMALL, index, Random(1), priority=P2, shortlists=lists) for _ in range(MAX_USES)]

    assert chosen[-1] is workers[40]


def test_cores_and_memory_are_used_evenly() -> None:
    """PLC-2: a task with much memory goes where much memory is left for the cores."""
    heavy = Shape(resources=Resources(1_000, 4 * GIB))
    workers = [a_worker(0, used=Resources(3_000, 4 * GIB)), a_worker(1, used=Resources(6_000, 3 * GIB))]
    assert choose(heavy, opened(workers), Random(1), priority=P2) is workers[1]


@pytest.mark.parametrize("priority", Priority)
def test_a_task_goes_where_its_upstream_ran_or_into_its_zone(priority: Priority) -> None:
    """PLC-2: locality outweighs the rest."""
    workers = [a_worker(number, used=Resources(6_000, 6 * GIB), zone="abc"[number % 3]) for number in range(300)]
    workers[100].used = ZERO_RESOURCES
    index, affinity = opened(workers), Affinity(local=("w100", "gone"))

    assert choose(SMALL, index, Random(1), priority=priority, affinity=affinity) is workers[100]

    workers[100].used = ROOM
    index.update(workers[100])
    chosen = choose(SMALL, index, Random(1), priority=priority, affinity=affinity)
    assert chosen is not None
    assert chosen.zone == workers[100].zone


@pytest.mark.parametrize("priority", Priority)
def test_the_tasks_of_a_run_are_spread_over_zones(priority: Priority) -> None:
    """PLC-2: a failing zone affects only a part of a run."""
    index = opened([a_worker(number, zone="abc"[number % 3]) for number in range(300)])
    chosen = choose(SMALL, index, Random(1), priority=priority, affinity=Affinity(zones={"a": 3, "b": 1, "c": 2}))
    assert chosen is not None
    assert chosen.zone == "b"


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("rare", [3, 1_000])
def test_preferred_labels_and_zone_are_given_if_they_can_be(priority: Priority, rare: int) -> None:
    """PLC-3: rare or common; and no task waits for them."""
    workers = [a_worker(number, zone="ab"[number % 2]) for number in range(300)]
    for number in (10, 11, 100, 101, 200, 201):
        workers[number].labels = {"disk": "ssd"}
    index = opened(workers, rare)

    both = choose(
        Shape(resources=SMALL.resources, prefer=(("disk", "ssd"),), prefer_zone="b"), index, Random(1),
        priority=priority,
    )  # fmt: skip
    assert both in (workers[11], workers[101], workers[201])

    none = Shape(resources=SMALL.resources, prefer=(("disk", "tape"),), prefer_zone="c")
    assert choose(none, index, Random(1), priority=priority) is not None


def test_among_equals_the_one_with_fewer_leases_is_better() -> None:
    """PLC-2: load."""
    one, other = a_worker(0, used=Resources(2_000)), a_worker(1, used=Resources(2_000))
    one.leases = {
        name: Lease(id=name, worker_id="w0", tenant="acme", priority=P1, shape=SMALL, members={}) for name in "ab"
    }
    assert score(SMALL, one) < score(SMALL, other)


def test_a_task_gets_its_reservation() -> None:
    """PLC-6: even if a tighter fit exists; and it takes another worker while its own is not free yet."""
    workers = [a_worker(0), a_worker(1, used=Resources(7_000, 7 * GIB))]
    workers[0].reserve("task_1", Resources(8_000))
    index = opened(workers)

    assert choose(SMALL, index, Random(1), priority=P0, task_id="task_1") is workers[0]
    assert choose(SMALL, index, Random(1), priority=P0, task_id="task_2") is workers[1]

    workers[0].used = ROOM
    index.update(workers[0])
    assert choose(SMALL, index, Random(1), priority=P0, task_id="task_1") is workers[1]
