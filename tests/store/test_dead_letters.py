"""Permanently failed tasks (RTY-5), of active runs and in history."""

from __future__ import annotations

from datetime import datetime

import pytest
from msgspec.structs import replace

from mainspring.core.model.run import Run
from mainspring.core.model.task import Origin, RetryState, Task, TaskState
from mainspring.store.ports.store import Store
from mainspring.store.postgres.batch import SMALL_ROWS
from tests.store.builders import HOUR, NOW, Leader, a_change, a_job, a_run, a_task, ended


async def given_dead(leader: Leader, run: Run, *tasks: Task) -> None:
    """A run with tasks in this state."""
    await leader.store.insert_runs([run])
    await leader.commit(new_tasks=list(tasks))


def dead(run: Run, position: int, at: datetime, **changes: object) -> Task:
    """A failed task."""
    return a_task(run, position, **({"state": TaskState.FAILED, "ended_at": at} | changes))


async def test_what_failed_or_timed_out_is_listed_by_its_end_the_latest_first(store: Store) -> None:
    leader, run = await Leader.of(store), a_run()
    states = [state for state in TaskState if state not in {TaskState.FAILED, TaskState.TIMED_OUT}]
    others = [dead(run, 10 + n, NOW, state=state) for n, state in enumerate(states)]
    first, second = dead(run, 1, NOW + HOUR), dead(run, 0, NOW + 2 * HOUR, state=TaskState.TIMED_OUT)
    third, fourth = dead(run, 2, NOW + 3 * HOUR), dead(run, 3, NOW + 3 * HOUR)
    await given_dead(leader, run, first, second, third, fourth, *others)

    assert await store.list_dead_letters(None, None, None, 10) == [fourth, third, second, first]
    assert await store.list_dead_letters(None, None, None, 2) == [fourth, third]
    assert await store.list_dead_letters(None, None, (NOW + 3 * HOUR, fourth.id), 10) == [third, second, first]
    assert await store.list_dead_letters(None, None, (NOW + HOUR, first.id), 10) == []


async def test_what_is_in_history_is_listed_with_the_rest(store: Store) -> None:
    leader, old, new = await Leader.of(store), a_run(), a_run()
    first, second, third = dead(old, 0, NOW), dead(new, 0, NOW + HOUR), dead(old, 1, NOW + 2 * HOUR)
    await given_dead(leader, old, first, third)
    await given_dead(leader, new, second)
    await leader.commit(runs=[ended(old)], archived=[old.id])

    assert await store.list_dead_letters(None, None, None, 10) == [third, second, first]
    assert await store.list_dead_letters(None, None, (third.ended_at or NOW, third.id), 1) == [second]


@pytest.mark.parametrize("place", ["active", "history"])
async def test_a_tenant_or_a_job_can_be_asked_for(store: Store, place: str) -> None:
    leader = await Leader.of(store)
    job = await store.insert_job(a_job(tenant="acme", name="load"))
    ours, others = a_run(job_id=job.id), a_run(tenant="other")
    mine, other = dead(ours, 0, NOW), dead(others, 0, NOW + HOUR)
    await given_dead(leader, ours, mine)
    await given_dead(leader, others, other)

    if place == "history":
        await leader.commit(runs=[ended(ours)], archived=[ours.id])

    assert await store.list_dead_letters("acme", None, None, 10) == [mine]
    assert await store.list_dead_letters("other", None, None, 10) == [other]
    assert await store.list_dead_letters(None, "load", None, 10) == [mine]
    assert await store.list_dead_letters("other", "load", None, 10) == []
    assert await store.list_dead_letters(None, "unknown", None, 10) == []


async def test_what_was_replaced_is_left_out(store: Store) -> None:
    leader, run = await Leader.of(store), a_run()
    tricky = Origin(parent=0, generation=1, index=0, total=2, label='","replaced":true,"')
    stays = dead(run, 0, NOW, origin=tricky)
    gone = dead(run, 1, NOW, origin=replace(tricky, replaced=True))
    later = dead(run, 2, NOW, origin=tricky)
    await given_dead(leader, run, stays, gone, later)
    change = a_change(later, state=TaskState.FAILED, origin=replace(tricky, replaced=True))

    assert await store.list_dead_letters(None, None, None, 10) == [later, stays]
    await leader.commit(tasks=[change])
    assert await store.list_dead_letters(None, None, None, 10) == [stays]


async def test_birth_and_trail_come_back_however_they_were_written(store: Store) -> None:
    """By one statement or by COPY, as new rows and as changes, and through history."""
    leader, run = await Leader.of(store), a_run()
    origin = Origin(parent=3, generation=2, index=1, total=5, label="fetch[Oslo]")
    trail = RetryState(signature="é", workers=("w1", "w2"), lost_on=("w3",), memory_bytes=2**40, limit_seconds=1.5)
    many = range(1, SMALL_ROWS + 2)
    new = [dead(run, 0, NOW, origin=origin), *(dead(run, n, NOW, origin=origin) for n in many)]
    await given_dead(leader, run, new[0])
    await leader.commit(new_tasks=new[1:])
    assert await store.tasks(run.id) == new

    changes = [a_change(task, trail=trail, state=task.state) for task in new]
    await leader.commit(tasks=changes[:1])
    await leader.commit(tasks=changes[1:])
    assert await store.tasks(run.id) == [change.task for change in changes]

    await leader.commit(runs=[ended(run)], archived=[run.id])
    assert await store.tasks(run.id) == [change.task for change in changes]
