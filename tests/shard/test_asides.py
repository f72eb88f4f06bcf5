"""Blocked tasks: release order, and no leftovers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.placement.blocked import Asides

P0, P1, P2 = Priority
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SHAPE = Shape(resources=Resources(cpu_millis=1000))


def a_task(run: str, number: int = 0, *, priority: Priority = P1, minute: int = 0) -> Task:
    """A queued task of a run, ready since then."""
    return Task(
        id=f"{run}.{number}", run_id=run, shard="pool", tenant="acme", name="t", position=number, priority=priority,
        state=TaskState.QUEUED, since=NOON + timedelta(minutes=minute),
    )  # fmt: skip


def back(asides: Asides, most: int = 100) -> list[str]:
    """Tasks that return to their queues now."""
    return [aside.task.id for aside in asides.returned(most)]


def test_runs_are_released_by_priority_and_age_with_all_their_tasks() -> None:
    asides = Asides()
    asides.put("db", "full", a_task("young", minute=2), SHAPE)
    for number in range(2):
        asides.put("db", "full", a_task("old", number, minute=1), SHAPE)
    asides.put("db", "full", a_task("urgent", priority=P0, minute=3), SHAPE)

    asides.call_back("db", 2)
    assert back(asides) == ["urgent.0", "old.0", "old.1"]
    assert asides.count_runs("db") == 1

    asides.call_back("db")
    assert back(asides) == ["young.0"]
    assert not asides


def test_a_discarded_task_is_not_released() -> None:
    asides = Asides()
    gone, still = a_task("run", 0), a_task("run", 1)
    for task in (gone, still):
        asides.put("db", "full", task, SHAPE)

    asides.discard(gone)
    assert (asides.has(gone), asides.has(still)) == (False, True)
    asides.call_back("db")
    asides.discard(still)

    assert back(asides) == []
    assert not asides
    assert asides.subjects() == []


def test_a_run_whose_priority_was_raised_comes_first() -> None:
    asides = Asides()
    asides.put("db", "full", a_task("old", minute=1), SHAPE)
    first, second = (a_task("raised", number, minute=2) for number in range(2))
    for task in (first, second):
        asides.put("db", "full", task, SHAPE)

    first.priority = P0
    asides.put("db", "full", first, SHAPE)

    asides.call_back("db", 1)
    assert sorted(back(asides)) == ["raised.0", "raised.1"]


def test_a_task_is_blocked_on_one_subject_and_released_tasks_return_in_parts() -> None:
    asides = Asides()
    tasks = [a_task("run", number) for number in range(3)]
    for task in tasks:
        asides.put("db", "full", task, SHAPE)
        asides.put("freeze", "frozen", task, SHAPE)
    assert asides.subjects() == ["freeze"]
    assert [(line.length, line.why) for line in asides.lines()] == [(3, "frozen")]

    asides.call_back("db")
    asides.call_back("freeze")
    assert back(asides, 2) == ["run.0", "run.1"]
    assert asides.has(tasks[2])
    assert asides.shapes_returning() == [SHAPE]
