"""Preemption policy: only allowed victims, as few as possible, none without a gain (PLC-5, PLC-6, PLC-9)."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness.quotas import Quota, is_guaranteed
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority, StopKind, StopRequest, TaskState
from mainspring.core.model.worker import Lease, Worker, WorkerStatus
from mainspring.core.placement.preemption_policy import (
    CapacityRequest,
    ClusterView,
    Mode,
    Plan,
    SearchBudget,
    decide_victims,
    is_ending,
    keeps_guarantee,
)
from mainspring.core.placement.task_shapes import Shape
from tests.core.builders import NOON, a_task

P0, P1, P2 = Priority
_STOP = StopRequest(StopKind.PREEMPT, "shard", "", NOON)


class Held(NamedTuple):
    """A lease, as a test needs it."""

    tenant: str
    priority: Priority
    cores: int
    ran_seconds: int = 0
    going: bool = False
    labels: tuple[tuple[str, str], ...] = ()


def a_worker(name: str, cores: int, *held: Held, reserved: int = 0) -> Worker:
    """A worker with these leases, and perhaps a reservation for a task called `reserved on` it."""
    worker = Worker(id=name, total=Resources(cores), status=WorkerStatus.READY)
    for number, one in enumerate(held):
        member = a_task(name=f"{name}.{number}", state=TaskState.RUNNING, tenant=one.tenant, priority=one.priority)
        member.started_at = NOON - timedelta(seconds=one.ran_seconds)
        member.stop = _STOP if one.going else None
        shape = Shape(resources=Resources(one.cores), labels=one.labels)
        lease = Lease(
            id=f"{name}.{number}", worker_id=name, tenant=one.tenant, priority=one.priority, shape=shape,
            members={f"{name}.{number}": member},
        )  # fmt: skip
        worker.leases[lease.id] = lease
        worker.used += shape.resources
    if reserved:
        worker.reserve(f"kept on {name}", Resources(reserved))
    return worker


def decide(
    mode: Mode, cores: int, *workers: Worker, tenant: str = "mine", promised: dict[str, int] | None = None,
    over: frozenset[str] = frozenset(), seed: int = 0,
) -> Plan | None:  # fmt: skip
    """The plan for a task with this many cores."""
    quotas = {name: Quota(guaranteed=Resources(amount)) for name, amount in (promised or {}).items()}
    cluster = ClusterView(
        now=NOON,
        holders=lambda levels: workers,
        budget=SearchBudget(),
        use=use(*workers),
        quota=lambda name: quotas.get(name, Quota()),
        lost=lambda lease: max((NOON - (task.started_at or NOON)).total_seconds() for task in lease.members.values()),
        others=workers,
    )
    wanted = CapacityRequest(
        mode=mode, tenant=tenant, resources=Resources(cores), over=over, may_take=lambda worker: worker.accepts_work()
    )
    return decide_victims(wanted, cluster, Random(seed))


def use(*workers: Worker) -> dict[str, Resources]:
    """The usage of each tenant, without ending leases."""
    found: dict[str, Resources] = {}
    for worker in workers:
        for lease in worker.leases.values():
            if not is_ending(lease, NOON):
                found[lease.tenant] = found.get(lease.tenant, ZERO_RESOURCES) + lease.shape.resources
    return found


def ids(plan: Plan | None) -> list[str]:
    """The victims of a plan."""
    assert plan is not None
    return sorted(lease.id for lease in plan.victims)


def test_p2_is_preempted_before_p1_on_any_worker() -> None:
    one = a_worker("one", 1, Held("a", P1, 1))
    two = a_worker("two", 4, *[Held("b", P2, 1, ran_seconds=900)] * 4)

    assert ids(decide(Mode.PREEMPT, 1, one, two)) == ["two.0"]
    assert ids(decide(Mode.PREEMPT, 1, one)) == ["one.0"]


def test_p0_is_never_preempted() -> None:
    worker = a_worker("one", 2, Held("a", P0, 2))

    assert decide(Mode.PREEMPT, 1, worker) is None
    assert decide(Mode.RECLAIM, 1, worker, promised={"mine": 8}) is None


def test_burst_is_preempted_before_guarantees_and_then_the_fewest() -> None:
    safe = a_worker("safe", 2, Held("safe", P2, 2))
    burst = a_worker("burst", 2, Held("free", P2, 1), Held("free", P2, 1))

    assert ids(decide(Mode.PREEMPT, 2, safe, burst, promised={"safe": 2})) == ["burst.0", "burst.1"]
    assert ids(decide(Mode.PREEMPT, 2, safe, burst)) == ["safe.0"]


def test_of_equally_many_those_that_lose_least() -> None:
    worker = a_worker("one", 3, *(Held("a", P2, 1, ran_seconds=seconds) for seconds in (30, 10, 20)))

    assert ids(decide(Mode.PREEMPT, 1, worker)) == ["one.1"]
    assert ids(decide(Mode.PREEMPT, 2, worker)) == ["one.1", "one.2"]


def test_ending_leases_are_waited_for_and_count_once() -> None:
    worker = a_worker("one", 2, Held("a", P2, 1, going=True), Held("a", P2, 1))

    waits = decide(Mode.PREEMPT, 1, worker)
    assert waits is not None
    assert (waits.victims, waits.reservations) == ((), ())

    worker.reserve("another", Resources(1))
    assert ids(decide(Mode.PREEMPT, 1, worker)) == ["one.1"]


def test_reservations_of_less_important_tasks_are_taken_over_before_preemption() -> None:
    worker = a_worker("one", 2, Held("a", P2, 1), reserved=1)

    plan = decide(Mode.PREEMPT, 1, worker, over=frozenset({"kept on one"}))
    assert plan is not None
    assert (plan.victims, plan.reservations) == ((), ("kept on one",))

    assert ids(decide(Mode.PREEMPT, 1, worker)) == ["one.0"]
    assert decide(Mode.TAKE_OVER, 1, worker) is None


@pytest.mark.parametrize(("promised", "goes"), [(0, 2), (1, 1), (2, 0)])
def test_reclaiming_leaves_others_their_guarantee(promised: int, goes: int) -> None:
    worker = a_worker("one", 2, Held("other", P2, 1), Held("other", P2, 1))
    promises = {"mine": 9, "other": promised} if promised else {"mine": 9}

    for cores in (1, 2):
        plan = decide(Mode.RECLAIM, cores, worker, promised=promises)
        assert (plan is not None) is (cores <= goes)


def test_reclaiming_takes_nothing_from_its_own_tenant() -> None:
    worker = a_worker("one", 2, Held("mine", P2, 2))

    assert decide(Mode.RECLAIM, 1, worker, promised={"mine": 1}) is None


def test_only_leases_that_fit_elsewhere_are_moved() -> None:
    one = a_worker("one", 2, Held("a", P2, 1))
    two = a_worker("two", 2, Held("a", P1, 1))
    assert ids(decide(Mode.DEFRAGMENT, 2, one, two)) == ["one.0"]

    set_spool_full = a_worker("crowd", 4, Held("a", P2, 1), Held("a", P2, 1), Held("a", P1, 1))
    assert decide(Mode.DEFRAGMENT, 3, set_spool_full, two) is None, "each finds a place, but not both"

    bound = a_worker("bound", 2, Held("a", P2, 1, labels=(("disk", "ssd"),)))
    assert decide(Mode.DEFRAGMENT, 2, bound, two) is None


def test_the_rest_of_a_recalled_group_is_waited_for_unless_it_is_late() -> None:
    for seconds, waits in ((1, True), (10, False)):
        worker = a_worker("one", 1, Held("a", P2, 1, ran_seconds=seconds))
        (lease,) = worker.leases.values()
        lease.recalled = True
        assert is_ending(lease, NOON) is waits


# of any fleet

tenants = st.sampled_from(["mine", "a", "b", "c"])
held = st.builds(
    Held, tenants, st.sampled_from(Priority), st.integers(1, 3), st.integers(0, 99), st.booleans()
)  # fmt: skip
promises = st.dictionaries(tenants, st.integers(1, 8))
modes = st.sampled_from(Mode)


@st.composite
def fleets(draw: st.DrawFn) -> list[Worker]:
    """A few workers that are full or nearly so."""
    workers = []
    for number in range(draw(st.integers(1, 3))):
        leases = draw(st.lists(held, max_size=5))
        spare = draw(st.integers(0, 2))
        reserved = draw(st.integers(0, 2))
        workers.append(a_worker(f"w{number}", sum(one.cores for one in leases) + spare, *leases, reserved=reserved))
    return workers


def room_left(plan: Plan, without: Lease | str | None = None) -> Resources:
    """Free capacity of a plan's worker after its execution, without one part."""
    room = plan.worker.total
    for lease in plan.worker.leases.values():
        goes = is_ending(lease, NOON) or (lease in plan.victims and lease is not without)
        room -= ZERO_RESOURCES if goes else lease.shape.resources
    for task_id, reserved in plan.worker.reserved.items():
        room -= ZERO_RESOURCES if task_id in plan.reservations and task_id != without else reserved
    return room


@given(modes, fleets(), st.integers(1, 6), promises, st.booleans(), st.integers(0, 9))
def test_in_any_fleet_the_task_fits_and_no_victim_is_unnecessary(
    mode: Mode, workers: list[Worker], cores: int, promised: dict[str, int], may_take_over: bool, seed: int
) -> None:
    over = frozenset(f"kept on {worker.id}" for worker in workers) if may_take_over else frozenset()
    plan = decide(mode, cores, *workers, promised=promised, over=over, seed=seed)
    if plan is None:
        return
    needs = Resources(cores)
    assert needs.fits(room_left(plan))
    parts: list[Lease | str] = [*plan.victims, *plan.reservations]
    for part in parts:
        assert not needs.fits(room_left(plan, without=part)), f"{part} was not needed"
    assert not any(is_ending(lease, NOON) for lease in plan.victims)
    assert set(plan.reservations) <= over


@given(modes, fleets(), st.integers(1, 6), promises, st.integers(0, 9))
def test_in_any_fleet_only_allowed_leases_are_victims(
    mode: Mode, workers: list[Worker], cores: int, promised: dict[str, int], seed: int
) -> None:
    plan = decide(mode, cores, *workers, promised=promised, seed=seed)
    levels = {lease.priority for lease in plan.victims} if plan is not None else set()
    allowed = {Mode.TAKE_OVER: set(), Mode.DEFRAGMENT: {P2}}.get(mode, {P1, P2})
    assert levels <= allowed
    if P1 in levels:
        low = [a_worker_without(worker, P1) for worker in workers]
        assert decide(mode, cores, *low, promised=promised, seed=seed) is None, "P2 alone would have done"


def a_worker_without(worker: Worker, level: Priority) -> Worker:
    """The same worker, with leases of a priority made non-preemptible."""
    held = []
    for lease in worker.leases.values():
        (task,) = lease.members.values()
        priority = P0 if lease.priority is level else lease.priority
        held.append(Held(lease.tenant, priority, lease.shape.resources.cpu_millis, going=task.stop is not None))
    reserved = sum(room.cpu_millis for room in worker.reserved.values())
    return a_worker(worker.id, worker.total.cpu_millis, *held, reserved=reserved)


@given(fleets(), st.integers(1, 6), promises, st.integers(0, 9))
def test_in_any_fleet_reclaiming_leaves_every_guarantee(
    workers: list[Worker], cores: int, promised: dict[str, int], seed: int
) -> None:
    plan = decide(Mode.RECLAIM, cores, *workers, promised=promised, seed=seed)
    if plan is None:
        return
    left = use(*workers)
    for lease in plan.victims:
        assert lease.tenant != "mine"
        left[lease.tenant] -= lease.shape.resources
    for lease in plan.victims:
        quota = Quota(guaranteed=Resources(promised.get(lease.tenant, 0)))
        assert keeps_guarantee(quota, left[lease.tenant])
        assert not is_guaranteed(quota, left[lease.tenant] + lease.shape.resources), "it could take it back"


@given(fleets(), st.integers(1, 6), promises, st.integers(0, 9))
def test_in_any_fleet_no_guaranteed_lease_is_a_victim_where_burst_is_enough(
    workers: list[Worker], cores: int, promised: dict[str, int], seed: int
) -> None:
    """On the worker that was chosen, all that is on burst would not have been enough."""
    plan = decide(Mode.PREEMPT, cores, *workers, promised=promised, seed=seed)
    if plan is None or not plan.cost[1]:
        return
    spare: dict[str, int] = {
        name: total.cpu_millis - promised.get(name, 0) for name, total in use(*workers).items()
    }  # fmt: skip
    room = room_left(Plan(worker=plan.worker)).cpu_millis
    for lease in plan.worker.leases.values():
        if lease.priority is P2 and not is_ending(lease, NOON) and spare[lease.tenant] > 0:
            spare[lease.tenant] -= lease.shape.resources.cpu_millis
            room += lease.shape.resources.cpu_millis
    assert room < cores or P1 in {lease.priority for lease in plan.victims}
