"""Intake: how much waiting work comes into memory, and of which tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission import intake
from mainspring.core.admission.intake import IntakeRequest, TaskCounts, Waiting, choose, tasks_in_transit
from mainspring.core.model.task import Priority
from tests.core.builders import a_run

P0, P1, P2 = Priority
Memory = dict[tuple[Priority, str], int]

tenants = st.sampled_from("abcdefgh")
waiting_lists = st.lists(st.builds(Waiting, st.sampled_from(Priority), tenants), max_size=24, unique=True)
memories = st.dictionaries(st.tuples(st.sampled_from(Priority), tenants), st.integers(0, 400), max_size=24)
marks = st.integers(0, 1_000)
chunks = st.integers(1, 300)


def filled(memory: Memory) -> TaskCounts:
    """So much is in memory."""
    found = TaskCounts()
    for (priority, tenant), tasks in memory.items():
        found.count(priority, tenant, tasks)
    return found


def plan_intake(waiting: list[Waiting], memory: Memory, mark: int, chunk: int) -> list[IntakeRequest]:
    """Plan the intake, with no runs in transit."""
    return intake.plan_intake(waiting, filled(memory), TaskCounts(), mark, chunk)


def part_of(priority: Priority, waiting: list[Waiting], memory: Memory, mark: int) -> int:
    """Return the share of one tenant at a priority, computed independently."""
    there = {one.tenant for one in waiting if one.priority is priority}
    there |= {tenant for (level, tenant), tasks in memory.items() if level is priority and tasks > 0}
    return max(1, mark // len(there))


def test_a_lone_tenant_may_fill_the_mark() -> None:
    """A part of one is the whole."""
    assert plan_intake([Waiting(P1, "a")], {}, mark=100, chunk=500) == [IntakeRequest(P1, "a", 100)]
    assert plan_intake([Waiting(P1, "a")], {(P1, "a"): 60}, mark=100, chunk=500) == [IntakeRequest(P1, "a", 40)]
    assert plan_intake([Waiting(P1, "a")], {(P1, "a"): 100}, mark=100, chunk=500) == []


def test_work_that_can_not_run_crowds_out_no_other_tenant() -> None:
    """`a` filled the memory before `b` came: `b` still gets its share."""
    wants = plan_intake([Waiting(P2, "a"), Waiting(P2, "b")], {(P2, "a"): 100}, mark=100, chunk=500)
    assert wants == [IntakeRequest(P2, "b", 50)]


def test_a_tenant_with_tasks_in_memory_and_no_intake_keeps_its_share() -> None:
    """The mark is divided by those that have intake or work in memory."""
    assert plan_intake([Waiting(P2, "a")], {(P2, "b"): 1}, mark=100, chunk=500) == [IntakeRequest(P2, "a", 50)]


@given(waiting_lists, memories, memories, marks, chunks)
def test_runs_in_transit_count_as_in_memory(
    waiting: list[Waiting], memory: Memory, coming: Memory, mark: int, chunk: int
) -> None:
    """Otherwise it would be read twice."""
    both = {key: memory.get(key, 0) + coming.get(key, 0) for key in memory | coming}
    wants = intake.plan_intake(waiting, filled(memory), filled(coming), mark, chunk)
    assert wants == plan_intake(waiting, both, mark, chunk)


def test_adopted_runs_are_not_in_transit() -> None:
    """It is in memory."""
    runs = [a_run(tenant="a", tasks=3, number=1), a_run(tenant="a", tasks=4, number=2), a_run(tenant="b", number=3)]
    coming = tasks_in_transit(runs, {runs[0].id})
    assert {tenant: coming.of(P1, tenant) for tenant in coming.tenants(P1)} == {"a": 4, "b": 1}


def test_p0_is_unbounded_and_comes_first() -> None:
    """P0 overtakes a backlog of any size."""
    wants = plan_intake([Waiting(P1, "a"), Waiting(P0, "a")], {(P0, "a"): 10**9, (P1, "b"): 5}, mark=10, chunk=7)
    assert wants == [IntakeRequest(P0, "a", 7), IntakeRequest(P1, "a", 5)]


def test_a_trickle_of_p0_does_not_stop_the_intake_of_others() -> None:
    """Each priority has a chunk of its own."""
    wants = plan_intake([Waiting(P0, "a"), Waiting(P1, "b"), Waiting(P2, "c")], {}, mark=1_000, chunk=100)
    assert [(want.priority, want.runs) for want in wants] == [(P0, 100), (P1, 100), (P2, 100)]


@given(waiting_lists, memories, marks, chunks)
def test_a_read_is_bounded_and_no_tenant_exceeds_its_share(
    waiting: list[Waiting], memory: Memory, mark: int, chunk: int
) -> None:
    """The mark is respected: what is wanted fits into the tenant's part, and one read of a priority into the chunk."""
    wants = plan_intake(waiting, memory, mark, chunk)
    assert [want.priority for want in wants] == sorted(want.priority for want in wants)
    assert len({(want.priority, want.tenant) for want in wants}) == len(wants)
    assert {(want.priority, want.tenant) for want in wants} <= {(one.priority, one.tenant) for one in waiting}
    read: Counter[Priority] = Counter()
    for want in wants:
        assert want.runs >= 1
        read[want.priority] += want.runs
        if want.priority is not P0:
            part = part_of(want.priority, waiting, memory, mark)
            assert memory.get((want.priority, want.tenant), 0) + want.runs <= part
    assert all(runs <= chunk for runs in read.values())


@given(waiting_lists, memories, marks, chunks)
def test_a_tenant_below_its_share_is_read_or_comes_after_tenants_with_less(
    waiting: list[Waiting], memory: Memory, mark: int, chunk: int
) -> None:
    """No tenant is starved, and all of P0 is taken."""
    wants = {(want.priority, want.tenant) for want in plan_intake(waiting, memory, mark, chunk)}
    for one in waiting:
        key = (one.priority, one.tenant)
        has = memory.get(key, 0)
        if key in wants or (one.priority is not P0 and has >= part_of(one.priority, waiting, memory, mark)):
            continue
        ahead = [tenant for priority, tenant in wants if priority is one.priority]
        assert len(ahead) == chunk
        assert all(memory.get((one.priority, tenant), 0) <= has for tenant in ahead)


def drain(backlog: Mapping[str, list[int]], mark: int, chunk: int) -> tuple[list[str], int]:
    """Read intake again and again with nothing ever ending; who came in, and how much was in memory at most."""
    waiting = {tenant: [a_run(tenant=tenant, tasks=size) for size in sizes] for tenant, sizes in backlog.items()}
    memory: Memory = {}
    order: list[str] = []
    for _ in range(1_000):
        wants = plan_intake([Waiting(P1, tenant) for tenant, runs in waiting.items() if runs], memory, mark, chunk)
        if not wants:
            break
        read = [run for want in wants for run in waiting[want.tenant][: want.runs]]
        chosen = choose(read, wants)
        assert chosen, "a read that was wanted brings something in"
        for run in chosen:
            waiting[run.tenant].remove(run)
            memory[P1, run.tenant] = memory.get((P1, run.tenant), 0) + run.task_count
            order.append(run.tenant)
    return order, sum(memory.values())


@given(st.dictionaries(tenants, st.lists(st.integers(1, 50), min_size=1, max_size=30), min_size=1), marks, chunks)
def test_no_tenant_starves_behind_a_flood_and_memory_is_bounded(
    backlog: dict[str, list[int]], mark: int, chunk: int
) -> None:
    """Every tenant gets something in; each fills its part and at most one run beyond it."""
    order, in_memory = drain(backlog, mark, chunk)
    assert set(order) == set(backlog)
    assert in_memory <= max(mark, len(backlog)) + len(backlog) * 49


def test_a_flood_of_100_000_runs_leaves_capacity_for_another_tenants_run() -> None:
    """In the first read already."""
    order, _ = drain({"flood": [1] * 5_000, "small": [1]}, mark=1_000, chunk=200)
    assert "small" in order[:200]


def test_a_run_is_taken_whole_and_the_next_one_waits() -> None:
    """A tenant's first run is taken however large it is."""
    wants = [IntakeRequest(P1, "a", 10), IntakeRequest(P1, "b", 10)]
    large, small, other = a_run(tasks=100_000), a_run(number=1), a_run(tenant="b", tasks=3, number=2)
    assert choose([large, small], [IntakeRequest(P1, "acme", 10), *wants]) == [large]
    assert choose([small, large, small], [IntakeRequest(P1, "acme", 10)]) == [small, large]
    assert choose([other, small], wants) == [other]


def test_only_requested_runs_are_taken() -> None:
    """A store that answers more than it was asked changes nothing."""
    assert choose([a_run(tenant="zed")], [IntakeRequest(P1, "acme", 5)]) == []
    assert choose([a_run(priority=P2)], [IntakeRequest(P1, "acme", 5)]) == []
