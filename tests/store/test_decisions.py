"""The decision log (PLC-8): written by batches, and listed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainspring.core.model.decisions import Decision, DecisionKind, PreemptedTask
from mainspring.core.model.task import Priority
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.errors import Fenced
from mainspring.store.ports.front import DecisionFilter
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, NOW, Leader, a_decision, a_run, ended

ALL = DecisionFilter()
SECOND = timedelta(seconds=1)


async def found(store: Store, wanted: DecisionFilter = ALL, limit: int = 100) -> list[Decision]:
    return await store.list_decisions(wanted, None, limit)


async def test_a_decision_is_kept_as_it_was(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    victim = PreemptedTask(task_id="task_x", tenant="other", priority=Priority.P2, lost_seconds=1.5)
    shape = Shape(
        resources=a_decision(task).request.resources, labels=(("arch", "arm"), ("ssd", "")), affinity=("first",)
    )
    rows = [
        a_decision(
            task, at=NOW + SECOND, kind=DecisionKind.PREEMPTS, request=shape, victims=(victim,), victim_count=7,
            score=None,
        ),
        a_decision(task, kind=DecisionKind.NO_CAPACITY, worker_id=None, free=None, score=None, workers_examined=None),
    ]  # fmt: skip

    await leader.commit(decisions=rows)

    assert await found(store) == rows


async def test_a_batch_that_is_written_twice_has_its_decisions_once(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    row = a_decision(task)

    await leader.commit(decisions=[row])
    leader.number -= 1
    await leader.commit(decisions=[row])
    await leader.commit(decisions=[row])

    assert await found(store) == [row]


async def test_those_of_a_term_that_is_over_are_not_written(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    await store.release(leader.term)

    with pytest.raises(Fenced):
        await leader.commit(decisions=[a_decision(task)])

    assert await found(store) == []


async def test_they_are_found_by_what_they_are_about_the_latest_first(store: Store) -> None:
    leader = await Leader.of(store)
    run, other = a_run(), a_run(tenant="other")
    first, second, third = [*await leader.adopt(run, tasks=2), *await leader.adopt(other)]
    rows = [
        a_decision(first, at=NOW + 3 * SECOND),
        a_decision(second, at=NOW + 2 * SECOND, worker_id="w2"),
        a_decision(first, at=NOW + SECOND, kind=DecisionKind.NO_CAPACITY, worker_id=None),
        a_decision(third, at=NOW, worker_id="w2"),
    ]
    await leader.commit(decisions=rows[::-1])

    async def places(**wanted: object) -> list[int]:
        return [rows.index(row) for row in await found(store, replace(ALL, **wanted))]

    assert await places() == [0, 1, 2, 3]
    assert await places(task_id=first.id) == [0, 2]
    assert await places(run_id=run.id) == [0, 1, 2]
    assert await places(tenant="other") == [3]
    assert await places(worker="w2") == [1, 3]
    assert await places(kind=DecisionKind.NO_CAPACITY) == [2]
    assert await places(since=NOW + SECOND, before=NOW + 3 * SECOND) == [1, 2]
    assert await places(task_id="unknown") == []


async def test_pages_lose_and_repeat_nothing_of_those_of_one_time(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    rows = [a_decision(task, at=NOW + number // 4 * SECOND) for number in range(10)]
    await leader.commit(decisions=rows)

    seen: list[Decision] = []
    while page := await store.list_decisions(
        DecisionFilter(task_id=task.id), (seen[-1].at, seen[-1].id) if seen else None, 3
    ):
        seen += page

    assert seen == sorted(rows, key=lambda row: (row.at, row.id), reverse=True)


async def test_they_are_there_when_the_run_is_in_history(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    row = a_decision(task, at=NOW + HOUR)

    await leader.commit(decisions=[row], runs=[ended(run)])
    await leader.commit(archived=[run.id])

    assert await found(store, DecisionFilter(task_id=task.id)) == [row]
