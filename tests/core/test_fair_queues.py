"""Fair queues: the dispatch order (PLC-4)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness.fair_queues import FairQueues
from mainspring.core.fairness.queue_heads import QueueHeads
from mainspring.core.lifecycle.states import move
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.placement.task_shapes import Shape
from tests.core.builders import NOON, a_task

P0, P1, P2 = Priority
SMALL, LARGE = (Shape(resources=Resources(cpu_millis=cores)) for cores in (1, 2))


def a_queued(name: str, *, tenant: str = "acme", priority: Priority = P1) -> Task:
    """A queued task."""
    task = a_task(name=name, tenant=tenant, priority=priority, state=TaskState.QUEUED)
    task.id = f"task_{name}"
    return task


def leave(queues: FairQueues, task: Task, to: TaskState = TaskState.CANCELLED) -> None:
    """Move a task to another state and tell its queue."""
    move(task, to, now=NOON, by="shard", because="gone")
    queues.left(task)


def head_of(queues: FairQueues, priority: Priority, tenant: str) -> Shape | None:
    """The shape of the tenant's oldest task that can be tried."""
    return QueueHeads(queues, priority).first(tenant)


def test_peeking_at_a_queue_returns_the_next_tasks_and_changes_nothing() -> None:
    """Also where the oldest was blocked, and rejoins the queue."""
    queues = FairQueues()
    gone, old, young = (a_queued(name) for name in ("gone", "old", "young"))
    for task, minutes in ((gone, 0), (old, 1), (young, 2)):
        task.since = NOON + timedelta(minutes=minutes)
    for task in (gone, young):
        queues.push(task, SMALL)
    queues.push(old, SMALL)
    assert queues.take(P1, "acme", SMALL, 3) == [gone, young, old]
    for task in (gone, young, old):
        queues.put_back(task, SMALL)
    leave(queues, gone)

    seen = queues.front(P1, "acme", SMALL)
    assert seen is not None
    assert seen[2] is old
    assert queues.front(P1, "acme", SMALL) == seen
    assert queues.first(P1, "acme", SMALL) is old
    assert queues.front(P1, "nobody", SMALL) is None


def test_a_reinserted_task_does_not_overtake_those_behind_stale_entries() -> None:
    queues = FairQueues()
    gone, old, back = (a_queued(name) for name in ("gone", "old", "back"))
    old.since, back.since = NOON + timedelta(minutes=1), NOON + timedelta(minutes=2)
    for task in (gone, old):
        queues.push(task, SMALL)
    leave(queues, gone)
    gone.since = NOON + timedelta(minutes=9)
    queues.push(back, LARGE)
    assert queues.take(P1, "acme", LARGE, 1) == [back]
    queues.put_back(back, SMALL)

    assert queues.take(P1, "acme", SMALL, 2) == [old, back]


def test_a_queue_whose_last_entry_is_taken_still_has_its_reinserted_tasks() -> None:
    """It is removed once it is empty."""
    queues = FairQueues()
    old, back = a_queued("old"), a_queued("back")
    back.since = NOON + timedelta(minutes=1)
    queues.push(old, SMALL)
    queues.push(back, LARGE)
    assert queues.take(P1, "acme", LARGE, 1) == [back]
    assert queues.shapes_of(P1, "acme") == [SMALL]
    queues.put_back(back, SMALL)

    assert queues.take(P1, "acme", SMALL, 1) == [old]
    assert queues.tenants(P1) == {"acme"}
    assert queues.take(P1, "acme", SMALL, 1) == [back]
    assert queues.tenants(P1) == set()


def test_within_a_tenant_the_shape_of_the_oldest_task_is_next() -> None:
    """PLC-4: FIFO inside a tenant, over shapes."""
    queues = FairQueues()
    first, second = a_queued("first"), a_queued("second")
    queues.push(first, LARGE)
    queues.push(second, SMALL)
    assert head_of(queues, P1, "acme") is LARGE
    assert queues.take(P1, "acme", LARGE, 5) == [first]
    leave(queues, first, TaskState.ASSIGNED)
    assert head_of(queues, P1, "acme") is SMALL


def test_priorities_and_tenants_do_not_mix() -> None:
    """PLC-4."""
    queues = FairQueues()
    queues.push(a_queued("a", priority=P2), SMALL)
    queues.push(a_queued("b", tenant="zed"), SMALL)
    assert queues.tenants(P0) == set()
    assert queues.tenants(P1) == {"zed"}
    assert queues.tenants(P2) == {"acme"}
    assert head_of(queues, P1, "acme") is None


def test_a_parked_shape_hides_no_task_until_it_is_woken() -> None:
    """PLC-4: no tenant hides behind a blocked head."""
    queues = FairQueues()
    queues.push(a_queued("big"), LARGE)
    queues.push(a_queued("small"), SMALL)
    queues.park(LARGE, "no worker is large enough")
    assert head_of(queues, P1, "acme") is SMALL
    assert queues.shapes() == [SMALL]
    queues.park(SMALL, "no room")
    assert head_of(queues, P1, "acme") is None
    assert queues.tenants(P1) == set()
    queues.wake(lambda shape: shape is LARGE)
    assert head_of(queues, P1, "acme") is LARGE
    assert queues.parked == {SMALL: "no room"}


@pytest.mark.parametrize(
    "again",
    [
        lambda queues, _: queues.retry_tenant("acme"),
        lambda queues, _: queues.retry_tenants(),
        lambda queues, _: queues.push(a_queued("newer"), LARGE),
        lambda queues, _: queues.put_back(a_queued("older"), LARGE),
        leave,
        lambda queues, _: queues.unpark([LARGE]),
    ],
    ids=["more is allowed", "rules change", "one comes", "one comes back", "one leaves", "a shape is woken"],
)
def test_a_tenant_that_may_have_no_more_is_skipped_until_that_may_change(
    again: Callable[[FairQueues, Task], None],
) -> None:
    """PLC-4, ADM-5: at one priority, and no other tenant."""
    queues = FairQueues()
    first = a_queued("first")
    for task, shape in ((first, SMALL), (a_queued("second"), SMALL), (a_queued("parked"), LARGE)):
        queues.push(task, shape)
    queues.push(a_queued("of another priority", priority=P2), SMALL)
    queues.push(a_queued("of another tenant", tenant="zed"), SMALL)
    queues.park(LARGE, "no room")

    queues.skip(P1, "acme")
    assert (queues.tenants(P1), queues.tenants(P2)) == ({"zed"}, {"acme"})
    queues.retry_tenant("zed")
    assert queues.tenants(P1) == {"zed"}

    again(queues, first)
    assert queues.tenants(P1) == {"acme", "zed"}


@pytest.mark.parametrize("to", [TaskState.CANCELLED, TaskState.PENDING, TaskState.QUARANTINED])
def test_the_entry_of_a_task_that_has_moved_on_is_stale(to: TaskState) -> None:
    """An entry is stale when its task has moved since."""
    queues = FairQueues()
    gone, still = a_queued("gone"), a_queued("still")
    queues.push(gone, SMALL)
    queues.push(still, SMALL)
    leave(queues, gone, to)
    assert not queues.has(gone, SMALL)
    assert queues.take(P1, "acme", SMALL, 5) == [still]


def test_a_requeued_task_is_last() -> None:
    """Its older entry is stale, its new one is valid."""
    queues = FairQueues()
    back, other = a_queued("back"), a_queued("other")
    queues.push(back, SMALL)
    leave(queues, back, TaskState.PENDING)
    queues.push(other, SMALL)
    move(back, TaskState.QUEUED, now=NOON, by="shard", because="again")
    queues.push(back, SMALL)
    assert queues.take(P1, "acme", SMALL, 5) == [other, back]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(Priority), st.booleans(), st.booleans()), max_size=40)
)
def test_depth_counts_queued_tasks_and_each_is_taken_once_in_order(
    arrivals: list[tuple[str, Priority, bool, bool]],
) -> None:
    """Nothing is lost or doubled; each tenant's tasks come oldest first."""
    queues = FairQueues()
    waiting: dict[tuple[Priority, str], list[Task]] = {}
    for number, (tenant, priority, large, leaves) in enumerate(arrivals):
        task = a_queued(f"t{number}", tenant=tenant, priority=priority)
        queues.push(task, LARGE if large else SMALL)
        if leaves:
            leave(queues, task)
        else:
            waiting.setdefault((priority, tenant), []).append(task)
    assert queues.depth == {key: len(tasks) for key, tasks in waiting.items()}
    for tenant, priority, _, _ in arrivals:
        tasks = waiting.pop((priority, tenant), [])
        taken: list[Task] = []
        while (shape := head_of(queues, priority, tenant)) is not None:
            [task] = queues.take(priority, tenant, shape, 1)
            leave(queues, task)
            taken.append(task)
        assert taken == tasks
    assert queues.depth == {}
    assert queues.shapes() == []


@given(
    came=st.lists(st.tuples(st.sampled_from((P1, P2)), st.sampled_from((SMALL, LARGE))), min_size=1, max_size=30),
    changes=st.lists(st.tuples(st.integers(0, 29), st.sampled_from((P1, P2))), max_size=30),
    most=st.integers(1, 3),
)
def test_a_task_with_another_priority_keeps_its_age(
    came: list[tuple[Priority, Shape]], changes: list[tuple[int, Priority]], most: int
) -> None:
    """OPS-1: however often it changes, each is taken once, in order of arrival, over shapes."""
    queues, tasks, shapes = FairQueues(), [], {}
    for number, (priority, shape) in enumerate(came):
        task = a_queued(f"t{number}", priority=priority)
        task.since = NOON + timedelta(seconds=number)
        tasks.append(task)
        shapes[task.id] = shape
        queues.push(task, shape)
    for number, priority in changes:
        task = tasks[number % len(tasks)]
        if task.priority is not priority:
            was, task.priority = task.priority, priority
            queues.change(task, shapes[task.id], was)
    assert all(queues.has(task, shapes[task.id]) for task in tasks)
    for priority in (P1, P2):
        mine = [task for task in tasks if task.priority is priority]
        assert queues.depth.get((priority, "acme"), 0) == len(mine)
        taken: list[Task] = []
        while (head := head_of(queues, priority, "acme")) is not None:
            assert head is shapes[next(task.id for task in mine if task not in taken)]
            found = queues.take(priority, "acme", head, most)
            assert found == [task for task in mine if task not in taken and shapes[task.id] is head][:most]
            taken += found
            for task in found:
                leave(queues, task)
        assert len(taken) == len(mine)
    assert (queues.depth, list(queues.queues())) == ({}, [])


def test_a_blocked_task_returns_to_its_position() -> None:
    """It is the first of its queue again, and is counted all the time."""
    queues = FairQueues()
    tasks = [a_queued(name) for name in ("a", "b", "c")]
    for minute, task in enumerate(tasks):
        task.since += timedelta(minutes=minute)
        queues.push(task, SMALL)
    assert queues.take(P1, "acme", SMALL, 2) == tasks[:2]

    for task in reversed(tasks[:2]):
        queues.put_back(task, SMALL)

    assert (queues.length("acme", SMALL), queues.depth) == (3, {(P1, "acme"): 3})
    assert queues.first(P1, "acme", SMALL) is tasks[0]
    assert queues.take(P1, "acme", SMALL, 5) == tasks


def test_queues_are_tried_by_their_oldest_tasks_without_skipped_ones() -> None:
    queues = FairQueues()
    for name, shape in (("a", LARGE), ("b", SMALL), ("c", LARGE)):
        queues.push(a_queued(name), shape)
    heads = QueueHeads(queues, P1)
    assert heads.first("acme") is LARGE
    queues.take(P1, "acme", LARGE, 1)
    assert heads.first("acme") is SMALL
    heads.skip("acme", SMALL)
    assert heads.first("acme") is LARGE
    queues.park(LARGE, "no room")
    assert heads.first("acme") is None
    assert heads.any_left(), "others may have a line of the shape that one is passed over with"


def test_nothing_is_left_to_try_once_every_shape_is_parked_until_one_is_woken() -> None:
    queues = FairQueues()
    for tenant in ("acme", "zed"):
        queues.push(a_queued(tenant, tenant=tenant), SMALL)
    heads = QueueHeads(queues, P1)
    assert heads.first("acme") is SMALL
    queues.park(SMALL, "no room")
    assert heads.first("acme") is None
    assert not heads.any_left()
    queues.unpark([SMALL])
    assert heads.any_left()
    assert heads.first("zed") is SMALL


def test_shapes_that_differ_in_their_run_are_woken_with_one_check() -> None:
    """PLC-3: there is one for each run that keeps its tasks apart."""
    queues, looks = FairQueues(), list[Shape]()
    shapes = [Shape(resources=SMALL.resources, anti_affinity=("other",), run=f"run_{number}") for number in range(20)]
    for number, shape in enumerate(shapes):
        queues.push(a_queued(str(number)), shape)
    queues.mark_full(shapes[0])
    assert set(queues.also_full(P1, shapes[0])) == set(shapes)
    for shape in shapes:
        queues.park(shape, "no room")

    def could_help(shape: Shape) -> bool:
        looks.append(shape)
        return True

    queues.wake(could_help, may_try=lambda shape: shape is not shapes[3])
    assert looks == [SMALL]
    assert list(queues.parked) == [shapes[3]]
    assert not queues.is_full(shapes[0]), "there is room for some of them now"
