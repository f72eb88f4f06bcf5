"""Intake: a run is in it while it is not adopted, not held, and its start time has come."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.store.ports.store import IdempotencyKey, IntakeRequest, KeyedRun, Store, Waiting
from tests.store.builders import HOUR, NOW, Leader, a_run, adopted

P0, P1, P2 = Priority


async def ids(store: Store, *wants: IntakeRequest) -> list[str]:
    """The ids of the runs in intake."""
    return [run.id for run in await store.intake("main", wants)]


async def test_a_submitted_run_is_in_intake(store: Store) -> None:
    run = a_run(priority=P2, tenant="zoe", params='{"a": [1, {"b": null}]}')
    await store.insert_runs([run])

    assert await store.waiting("main", 10) == [Waiting(P2, "zoe")]
    assert await store.intake("main", [IntakeRequest(P2, "zoe", 10)]) == [run]


async def test_an_adopted_run_is_not_in_intake(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.adopt(a_run())

    assert await store.waiting("main", 10) == []
    assert await ids(store, IntakeRequest(P1, "acme", 10)) == []


async def test_a_held_run_is_not_in_intake(store: Store) -> None:
    leader = await Leader.of(store)
    held = a_run()
    await store.insert_runs([held])
    await leader.commit(runs=[adopted(held, adopted_at=None, held="its adoption failed")])

    assert await store.waiting("main", 10) == []
    assert await ids(store, IntakeRequest(P1, "acme", 10)) == []
    assert await store.next_start("main") is None


async def test_a_run_whose_start_time_has_not_come_is_not_in_intake(store: Store) -> None:
    start_at = await store.time() + HOUR
    await store.insert_runs([a_run(start_at=start_at)])

    assert await store.waiting("main", 10) == []
    assert await ids(store, IntakeRequest(P1, "acme", 10)) == []


async def test_runs_of_other_shards_are_not_in_intake(store: Store) -> None:
    await store.insert_runs([a_run(shard="other")])

    assert await store.waiting("main", 10) == []
    assert await ids(store, IntakeRequest(P1, "acme", 10)) == []
    assert await store.waiting("other", 10) == [Waiting(P1, "acme")]


async def test_waiting_lists_tenants_by_priority_and_name(store: Store) -> None:
    pairs = [(P2, "a"), (P0, "c"), (P1, "b"), (P0, "B"), (P0, "ä"), (P2, "c"), (P0, "c-")]
    await store.insert_runs([a_run(priority=priority, tenant=tenant) for priority, tenant in pairs * 3])

    found = [(waiting.priority, waiting.tenant) for waiting in await store.waiting("main", 10)]

    assert found == sorted(pairs)
    assert all(isinstance(waiting.priority, Priority) for waiting in await store.waiting("main", 10))


async def test_waiting_gives_at_most_so_many_tenants_of_each_priority(store: Store) -> None:
    await store.insert_runs([a_run(priority=priority, tenant=f"t{n}") for priority in Priority for n in range(5)])

    found = await store.waiting("main", 2)

    assert found == [Waiting(priority, tenant) for priority in Priority for tenant in ("t0", "t1")]


async def test_waiting_gives_tenants_whose_name_sorts_behind_after(store: Store) -> None:
    await store.insert_runs([a_run(tenant=f"t{n}") for n in range(5)])

    assert [waiting.tenant for waiting in await store.waiting("main", 2, after="t1")] == ["t2", "t3"]
    assert [waiting.tenant for waiting in await store.waiting("main", 2, after="t3")] == ["t4"]
    assert await store.waiting("main", 2, after="t4") == []


async def test_tenants_with_delayed_runs_only_do_not_use_up_the_limit(store: Store) -> None:
    start_at = await store.time() + HOUR
    await store.insert_runs([*(a_run(tenant=f"a{n}", start_at=start_at) for n in range(5)), a_run(tenant="z")])

    assert await store.waiting("main", 1) == [Waiting(P1, "z")]


async def test_intake_gives_for_each_want_at_most_so_many_runs_in_the_order_of_the_wants(store: Store) -> None:
    runs: dict[tuple[Priority, str], list[Run]] = {
        (priority, tenant): [a_run(priority=priority, tenant=tenant) for _ in range(4)]
        for priority in (P0, P2)
        for tenant in ("a", "b")
    }
    await store.insert_runs([run for some in runs.values() for run in some])

    found = await ids(
        store,
        IntakeRequest(P2, "b", 2),
        IntakeRequest(P0, "a", 1),
        IntakeRequest(P2, "a", 9),
        IntakeRequest(P1, "a", 5),
        IntakeRequest(P0, "b", 0),
    )

    assert found == [run.id for run in runs[P2, "b"][:2] + runs[P0, "a"][:1] + runs[P2, "a"]]


async def test_intake_gives_the_oldest_start_first(store: Store) -> None:
    starts = [3, 1, 2, 5, 4]
    runs = {minutes: a_run(start_at=NOW - timedelta(minutes=minutes)) for minutes in starts}
    await store.insert_runs(list(runs.values()))

    assert await ids(store, IntakeRequest(P1, "acme", 3)) == [runs[minutes].id for minutes in (5, 4, 3)]


async def test_intake_without_wants_is_empty(store: Store) -> None:
    await store.insert_runs([a_run()])

    assert await store.intake("main", []) == []


async def test_next_start_is_when_the_next_run_that_is_not_yet_in_intake_will_be(store: Store) -> None:
    now = await store.time()
    await store.insert_runs(
        [
            a_run(),
            a_run(start_at=now + 3 * HOUR),
            a_run(tenant="z", start_at=now + 2 * HOUR, priority=P2),
            a_run(shard="other", start_at=now + HOUR),
        ]
    )

    assert await store.next_start("main") == now + 2 * HOUR


async def test_next_start_is_none_if_there_is_none(store: Store) -> None:
    await store.insert_runs([a_run()])

    assert await store.next_start("main") is None


async def test_on_work_calls_soon_after_runs_were_inserted(store: Store) -> None:
    record_heartbeats: list[tuple[str, Sequence[Run]]] = []
    for _ in range(2):
        store.on_work(lambda shard, runs: record_heartbeats.append((shard, runs)))
    first, second, third = a_run(), a_run(), a_run(shard="other")

    await store.insert_runs([first, third, second])

    assert record_heartbeats == [("main", [first, second])] * 2 + [("other", [third])] * 2
    assert [await store.run(run.id) for run in (first, second, third)] == [first, second, third]


async def test_on_work_gives_no_runs_that_were_there_already(store: Store) -> None:
    """Not those of a repeated call or a reused key: they may be adopted already."""
    record_heartbeats: list[Sequence[Run]] = []
    key, run, keyed = IdempotencyKey(tenant="acme", key="k", body_hash="h"), a_run(), a_run()
    await store.insert_runs([run])
    await store.insert_runs([keyed], key)
    store.on_work(lambda _, runs: record_heartbeats.append(list(runs)))

    await store.insert_runs([run])
    await store.insert_runs([a_run()], key)
    await store.insert_runs([keyed], key)
    await store.insert_runs([run, a_run()])
    await store.insert_keyed([KeyedRun(run=keyed, key=key)])

    assert record_heartbeats == [[]] * 5
