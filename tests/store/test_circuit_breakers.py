"""Open circuit breakers (RTY-4) and usual durations: written by batches, loaded by a leader."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.core.model.batch import BreakerRow, DurationRow
from mainspring.protocol.errors import Rejected
from mainspring.store.ports.store import Store
from mainspring.store.sql import statements
from tests.store.builders import HOUR, NOW, Leader, a_run, adopted


def a_breaker(**changes: Any) -> BreakerRow:
    """An open circuit breaker."""
    values: dict[str, Any] = {
        "shard": "main", "kind": "signature", "subject": "abc", "because": "no route to host", "opened_at": NOW,
    }  # fmt: skip
    return BreakerRow(**(values | changes))


def a_duration(**changes: Any) -> DurationRow:
    """A row of durations."""
    values: dict[str, Any] = {
        "shard": "main", "tenant": "acme", "job": "report", "task": "extract", "count": 3, "p50_seconds": 1.5,
        "p90_seconds": 2.0, "p99_seconds": 1e-3, "samples": (1.5, 2.0, 0.25), "updated_at": NOW,
    }  # fmt: skip
    return DurationRow(**(values | changes))


async def test_a_breaker_is_kept_as_it_was_last_until_it_is_closed(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = a_breaker(), a_breaker(kind="job", subject="acme/report", probed_at=NOW)
    await leader.commit(breakers=[first, second])
    assert await store.breakers() == [second, first]

    probed = replace(first, probed_at=NOW + HOUR, because="still no route")
    await leader.commit(breakers=[probed, replace(second, closed_at=NOW)])
    assert await store.breakers() == [probed]

    await leader.commit(breakers=[replace(probed, closed_at=NOW), replace(second, closed_at=NOW)])
    assert await store.breakers() == []


async def test_a_breaker_that_a_batch_names_twice_is_as_it_was_last(store: Store) -> None:
    leader = await Leader.of(store)
    breaker = a_breaker()

    await leader.commit(breakers=[replace(breaker, closed_at=NOW), breaker])
    assert await store.breakers() == [breaker]
    await leader.commit(breakers=[breaker, replace(breaker, closed_at=NOW)])
    assert await store.breakers() == []


async def test_breakers_are_listed_by_shard_kind_and_subject(store: Store) -> None:
    leader = await Leader.of(store)
    rows = [a_breaker(shard=shard, kind=kind, subject=subject) for shard in "ab" for kind in "kl" for subject in "YZa"]

    await leader.commit(breakers=rows[::-1])

    assert await store.breakers() == rows


async def test_durations_are_kept_as_they_were_last(store: Store) -> None:
    leader = await Leader.of(store)
    first = a_duration()
    second = replace(first, count=4, samples=(2.0, 0.25, 9.0), p50_seconds=2.25, updated_at=NOW + HOUR)

    await leader.commit(durations=[first])
    assert await store.durations("acme", "report") == [first]
    await leader.commit(durations=[first, second])
    assert await store.durations("acme", "report") == [second]


async def test_durations_of_a_job_are_listed_by_task_that_of_the_run_first(store: Store) -> None:
    leader = await Leader.of(store)
    rows = [a_duration(task=task) for task in ("", "Load", "extract", "load")]

    await leader.commit(durations=[*rows[::-1], a_duration(job="other"), a_duration(tenant="other")])

    assert await store.durations("acme", "report") == rows


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
async def test_a_number_that_is_none_is_rejected(store: Store, number: float) -> None:
    leader = await Leader.of(store)

    with pytest.raises(Rejected):
        await leader.commit(durations=[a_duration(p50_seconds=number)])

    assert await store.durations("acme", "report") == []


async def test_a_leader_loads_the_breakers_and_durations_of_its_shard(store: Store) -> None:
    leader = await Leader.of(store)
    breaker, older, newer = a_breaker(), a_duration(), a_duration(task="load", updated_at=NOW + HOUR)
    run = a_run()
    await leader.adopt(run)
    await leader.commit(
        breakers=[breaker, a_breaker(shard="other")],
        durations=[older, newer, a_duration(shard="other")],
        runs=[adopted(run, task_count=9, retries=4)],
    )

    loaded = await store.load("main")

    assert loaded.breakers == [breaker]
    assert loaded.durations == [newer, older]
    assert [(run.task_count, run.retries) for run in loaded.runs] == [(9, 4)]
    alone = await store.load_run(run.id)
    assert (alone.breakers, alone.durations) == ([], [])


async def test_a_leader_loads_the_durations_that_were_updated_last(store: Store) -> None:
    leader = await Leader.of(store)
    most = statements.MAX_DURATIONS

    def rows(count: int, at: datetime) -> list[DurationRow]:
        return [a_duration(task=f"{at}-{n}", samples=(), updated_at=at) for n in range(count)]

    await leader.commit(durations=rows(2, NOW))
    await leader.commit(durations=rows(most - 1, NOW + HOUR))

    loaded = (await store.load("main")).durations

    assert len(loaded) == most
    assert [row.updated_at for row in loaded].count(NOW) == 1
