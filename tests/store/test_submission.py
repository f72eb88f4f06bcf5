"""Creating jobs and runs, once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.protocol.errors import JobMissing, KeyReused, Rejected
from mainspring.store.ports.store import IdempotencyKey, KeyedRun, Store
from tests.store.admin_builders import an_entry
from tests.store.builders import NOW, Leader, a_job, a_run, adopted, ended
from tests.store.conftest import look


def a_key(key: str = "k1", *, tenant: str = "acme", body_hash: str = "h1") -> IdempotencyKey:
    return IdempotencyKey(tenant=tenant, key=key, body_hash=body_hash)


def a_request(key: str, *, tenant: str = "acme", body_hash: str = "h1", **changes: Any) -> KeyedRun:
    return KeyedRun(run=a_run(tenant=tenant, **changes), key=a_key(key, tenant=tenant, body_hash=body_hash))


async def test_insert_job_keeps_a_definition(store: Store) -> None:
    given = a_job(definition='{"name": "é", "tasks": []}')

    kept = await store.insert_job(given)

    assert (kept.id, kept.tenant, kept.name, kept.definition) == (given.id, "acme", "report", given.definition)
    assert await store.jobs([given.id]) == [kept]


async def test_the_version_is_given_by_the_store_one_more_than_the_latest_of_that_name(store: Store) -> None:
    versions = [(await store.insert_job(a_job(definition=f"[{n}]"))).version for n in range(3)]
    other_name = await store.insert_job(a_job(name="other"))
    other_tenant = await store.insert_job(a_job(tenant="zoe"))

    assert versions == [1, 2, 3]
    assert other_name.version == other_tenant.version == 1


async def test_a_job_with_the_definition_of_the_latest_version_is_that_version(store: Store) -> None:
    first = await store.insert_job(a_job())

    again = await store.insert_job(a_job())

    assert again == first
    assert await look(store, "SELECT count(*) FROM jobs WHERE name = 'report'") == [(1,)]


async def test_a_job_with_the_definition_of_an_older_version_is_a_new_version(store: Store) -> None:
    await store.insert_job(a_job(definition="[1]"))
    await store.insert_job(a_job(definition="[2]"))

    assert (await store.insert_job(a_job(definition="[1]"))).version == 3


async def test_a_job_inserted_again_with_its_id_is_the_one_that_is_there(store: Store) -> None:
    """The response was lost, and another client has created a version since."""
    mine = a_job(definition="[1]")
    first = await store.insert_job(mine)
    await store.insert_job(a_job(definition="[2]"))

    assert await store.insert_job(mine) == first


async def test_a_job_is_kept_with_who_made_it_its_labels_and_the_stores_time(store: Store) -> None:
    given = a_job(created_at=NOW, created_by="token:ann", labels='{"team":"ml"}', deleted_at=NOW)
    before = await store.time()

    kept = await store.insert_job(given)

    assert kept.created_at is not None
    assert before <= kept.created_at <= await store.time()
    assert kept == replace(given, version=1, created_at=kept.created_at, deleted_at=None)
    assert await store.jobs([given.id]) == [kept]


@pytest.mark.parametrize("id", ["job_same", "job_another"])
async def test_a_name_that_was_deleted_is_there_again_with_any_job_of_it(store: Store, id: str) -> None:
    job = a_job(id="job_same")
    older = await store.insert_job(a_job(definition="[0]"))
    first = await store.insert_job(job)
    await store.delete_job(job.tenant, job.name, an_entry())

    assert await store.insert_job(replace(job, id=id)) == first

    assert await store.jobs([older.id, first.id]) == sorted([older, first], key=lambda kept: kept.id)


async def test_jobs_inserted_at_once_get_different_versions(store: Store) -> None:
    jobs = await asyncio.gather(*(store.insert_job(a_job(definition=f"[{n}]")) for n in range(8)))

    assert sorted(job.version for job in jobs) == list(range(1, 9))


async def test_insert_runs_answers_with_their_ids(store: Store) -> None:
    runs = [a_run(), a_run(priority=Priority.P0, watched=True)]

    assert await store.insert_runs(runs) == [run.id for run in runs]
    assert [await store.run(run.id) for run in runs] == runs


async def test_insert_runs_of_nothing_does_nothing(store: Store) -> None:
    assert await store.insert_runs([]) == []


async def test_a_run_whose_id_is_there_already_is_not_made_again(store: Store) -> None:
    leader = await Leader.of(store)
    old, new = a_run(), a_run()
    await leader.adopt(old)

    assert await store.insert_runs([old, new]) == [old.id, new.id]

    assert await store.run(old.id) == adopted(old)
    assert await store.run(new.id) == new


async def test_with_a_key_that_was_used_before_the_ids_of_the_first_call_are_answered_and_nothing_is_made(
    store: Store,
) -> None:
    first, again = a_run(), a_run()
    await store.insert_runs([first], a_key())

    assert await store.insert_runs([again], a_key()) == [first.id]
    assert await store.run(again.id) is None


async def test_a_key_used_for_another_body_is_refused(store: Store) -> None:
    await store.insert_runs([a_run()], a_key())
    other = a_run()

    with pytest.raises(KeyReused):
        await store.insert_runs([other], a_key(body_hash="h2"))

    assert await store.run(other.id) is None


async def test_keys_are_a_tenants_own(store: Store) -> None:
    mine, yours = a_run(), a_run(tenant="zoe")
    await store.insert_runs([mine], a_key())

    assert await store.insert_runs([yours], a_key(tenant="zoe", body_hash="h2")) == [yours.id]


async def test_one_key_used_by_many_at_once_makes_the_runs_of_one(store: Store) -> None:
    runs = [a_run() for _ in range(8)]

    answers = await asyncio.gather(*(store.insert_runs([run], a_key()) for run in runs))

    assert len({tuple(answer) for answer in answers}) == 1
    assert await look(store, "SELECT id FROM runs") == [tuple(answers[0])]


async def test_no_run_is_made_of_a_job_that_is_not_in_the_store(store: Store) -> None:
    """The valid one beside it is not created either."""
    good, orphan = a_run(), a_run(job_id="job_lost")

    with pytest.raises(JobMissing) as missing:
        await store.insert_runs([good, orphan])

    assert missing.value.jobs == ("job_lost",)
    assert await look(store, "SELECT count(*) FROM runs") == [(0,)]


async def test_a_key_is_not_used_up_by_runs_that_were_not_made_for_want_of_their_job(store: Store) -> None:
    job = a_job()
    run = a_run(job_id=job.id)

    with pytest.raises(JobMissing):
        await store.insert_runs([run], a_key())
    with pytest.raises(JobMissing):
        await store.insert_keyed([a_request("k1", job_id=job.id)])
    await store.insert_job(job)

    assert await store.insert_runs([run], a_key()) == [run.id]


async def test_each_keyed_run_is_made_and_answered_with_its_id(store: Store) -> None:
    requests = [a_request(f"k{number}") for number in range(50)]

    assert await store.insert_keyed(requests) == [request.run.id for request in requests]
    assert [await store.run(request.run.id) for request in requests] == [request.run for request in requests]


async def test_insert_keyed_of_nothing_does_nothing(store: Store) -> None:
    assert await store.insert_keyed([]) == []


async def test_keyed_runs_that_come_again_are_answered_with_the_first_and_only_the_new_ones_are_made(
    store: Store,
) -> None:
    first = [a_request("k1"), a_request("k2")]
    await store.insert_keyed(first)
    again = [a_request("k3"), a_request("k1"), a_request("k2", body_hash="h2"), a_request("k1", tenant="zoe")]

    ends = await store.insert_keyed(again)

    assert [ends[0], ends[1], ends[3]] == [again[0].run.id, first[0].run.id, again[3].run.id]
    assert isinstance(ends[2], KeyReused)
    made = {run_id for (run_id,) in await look(store, "SELECT id FROM runs")}
    assert made == {request.run.id for request in (*first, again[0], again[3])}


async def test_of_keyed_runs_with_the_same_key_the_first_one_counts(store: Store) -> None:
    requests = [a_request("k1"), a_request("k1"), a_request("k1", body_hash="h2"), a_request("k2", body_hash="h2")]

    ends = await store.insert_keyed(requests)

    assert ends[:2] == [requests[0].run.id] * 2
    assert isinstance(ends[2], KeyReused)
    assert ends[3] == requests[3].run.id
    assert await store.run(requests[1].run.id) is None


async def test_a_key_is_the_same_for_one_run_and_for_many_calls(store: Store) -> None:
    alone, together = a_run(), a_request("k2")
    await store.insert_runs([alone], a_key("k1"))
    await store.insert_keyed([together])

    assert await store.insert_keyed([a_request("k1")]) == [alone.id]
    assert await store.insert_runs([a_run()], a_key("k2")) == [together.run.id]


async def test_insert_keyed_repeated_answers_like_the_first_time(store: Store) -> None:
    requests = [a_request("k1"), a_request("k2")]

    assert await store.insert_keyed(requests) == await store.insert_keyed(requests)


async def test_insert_keyed_writes_nothing_if_a_job_is_missing_or_the_content_is_refused(store: Store) -> None:
    with pytest.raises(JobMissing) as missing:
        await store.insert_keyed([a_request("k1"), a_request("k2", job_id="job_lost")])
    with pytest.raises(Rejected):
        await store.insert_keyed([a_request("k1"), a_request("k2", params="\0")])

    assert missing.value.jobs == ("job_lost",)
    assert await look(store, "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM idempotency)") == [(0,)]


async def test_a_replay_does_not_need_the_job(store: Store) -> None:
    first = a_request("k1")
    await store.insert_keyed([first])

    assert await store.insert_keyed([a_request("k1", job_id="job_lost")]) == [first.run.id]


async def test_the_same_keys_used_by_many_at_once_in_any_order_make_one_run_each(store: Store) -> None:
    names = [f"k{number}" for number in range(20)]
    calls = [[a_request(name) for name in (names if number % 2 else reversed(names))] for number in range(6)]

    answers = await asyncio.gather(*(store.insert_keyed(requests) for requests in calls))

    by_key = [
        {request.key.key: end for request, end in zip(requests, ends, strict=True)}
        for requests, ends in zip(calls, answers, strict=True)
    ]
    assert all(one == by_key[0] for one in by_key)
    assert {run_id for (run_id,) in await look(store, "SELECT id FROM runs")} == set(by_key[0].values())


async def test_keyed_runs_are_work_for_their_shards(store: Store) -> None:
    told: dict[str, Sequence[Run]] = {}
    store.on_work(told.__setitem__)
    used, new, elsewhere = a_request("k1"), a_request("k2"), a_request("k3", shard="second")
    await store.insert_keyed([used])
    told.clear()

    await store.insert_keyed([a_request("k1"), new, elsewhere])

    assert told == {"main": [new.run], "second": [elsewhere.run]}


async def test_run_and_tasks_of_an_unknown_run_are_nothing(store: Store) -> None:
    assert await store.run("run_nowhere") is None
    assert await store.tasks("run_nowhere") == []


async def test_run_and_tasks_also_come_from_history(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    tasks = await leader.adopt(run, tasks=12)
    await leader.commit(runs=[ended(run)], archived=[run.id])

    assert await store.run(run.id) == ended(run)
    assert await store.tasks(run.id) == tasks


async def test_tasks_come_by_position(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    await leader.adopt(run, tasks=12)

    assert [task.position for task in await store.tasks(run.id)] == list(range(12))
