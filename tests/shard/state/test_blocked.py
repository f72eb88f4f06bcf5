"""Blocked tasks: release order, and no leftovers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.blocked import BlockedTasks

P0, P1, P2 = Priority
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SHAPE = Shape(resources=Resources(cpu_millis=1000))


def a_task(run: str, number: int = 0, *, priority: Priority = P1, minute: int = 0) -> Task:
    """A queued task of a run, ready since then."""
    return Task(
        id=f"{run}.{number}", run_id=run, shard="pool", tenant="acme", name="t", position=number, priority=priority,
        state=TaskState.QUEUED, since=NOON + timedelta(minutes=minute),
    )  # fmt: skip


def back(blocked: BlockedTasks, most: int = 100) -> list[str]:
    """Tasks that return to their queues now."""
    return [blocked_task.task.id for blocked_task in blocked.returned(most)]


def test_runs_are_released_by_priority_and_age_with_all_their_tasks() -> None:
    blocked = BlockedTasks()
    blocked.put("db", "full", a_task("young", minute=2), SHAPE)
    for number in range(2):
        blocked.put("db", "full", a_task("old", number, minute=1), SHAPE)
    blocked.put("db", "full", a_task("urgent", priority=P0, minute=3), SHAPE)

    blocked.release("db", 2)
    assert back(blocked) == ["urgent.0", "old.0", "old.1"]
    assert blocked.count_runs("db") == 1

    blocked.release("db")
    assert back(blocked) == ["young.0"]
    assert not blocked


def test_a_discarded_task_is_not_released() -> None:
    blocked = BlockedTasks()
    gone, still = a_task("run", 0), a_task("run", 1)
    for task in (gone, still):
        blocked.put("db", "full", task, SHAPE)

    blocked.discard(gone)
    assert (blocked.has(gone), blocked.has(still)) == (False, True)
    blocked.release("db")
    blocked.discard(still)

    assert back(blocked) == []
    assert not blocked
    assert blocked.subjects() == []


def test_a_run_whose_priority_was_raised_comes_first() -> None:
    blocked = BlockedTasks()
    blocked.put("db", "full", a_task("old", minute=1), SHAPE)
    first, second = (a_task("raised", number, minute=2) for number in range(2))
    for task in (first, second):
        blocked.put("db", "full", task, SHAPE)

    first.priority = P0
    blocked.put("db", "full", first, SHAPE)

    blocked.release("db", 1)
    assert sorted(back(blocked)) == ["raised.0", "raised.1"]


def test_a_task_is_blocked_on_one_subject_and_released_tasks_return_in_parts() -> None:
    blocked = BlockedTasks()
    tasks = [a_task("run", number) for number in range(3)]
    for task in tasks:
        blocked.put("db", "full", task, SHAPE)
        blocked.put("freeze", "frozen", task, SHAPE)
    assert blocked.subjects() == ["freeze"]
    assert [(line.length, line.why) for line in blocked.queues()] == [(3, "frozen")]

    blocked.release("db")
    blocked.release("freeze")
    assert back(blocked, 2) == ["run.0", "run.1"]
    assert blocked.has(tasks[2])
    assert blocked.shapes_returning() == [SHAPE]
