"""The audit log: entries are written with their change, and listed. Chains are in `test_audit_chains.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from mainspring.core.model.audit_entry import AuditEntry, AuditRow, seal
from mainspring.core.model.schedule_rows import ScheduleDecision
from mainspring.protocol.errors import Conflict, Fenced, JobMissing, KeyReused, Rejected
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.store import IdempotencyKey, KeyedRun, Store
from tests.store.admin_builders import an_entry
from tests.store.builders import DAY, HOUR, Leader, a_job, a_run
from tests.store.schedule_builders import a_change_of, a_schedule, an_event, rule
from tests.store.test_tokens import a_token

EVERYTHING = AuditFilter()


async def told(store: Store, wanted: AuditFilter = EVERYTHING) -> list[str]:
    """The ids of all entries, oldest first."""
    return [row.id for row in reversed(await store.list_audit(wanted, None, 1000))]


async def seal_all(store: Store, limit: int = 1000) -> None:
    """Seal until nothing is left."""
    while await store.seal_audit(limit, seal):
        pass


# writing


async def test_an_entry_is_kept_as_it_was_given_with_the_stores_time_and_is_not_sealed(store: Store) -> None:
    entry = an_entry(before='{"state":"RUNNING"}', after=None, why="")
    before = await store.time()

    await store.record([entry])

    (row,) = await store.list_audit(EVERYTHING, None, 10)
    assert before <= row.at <= await store.time()
    fields = {name: getattr(entry, name) for name in AuditEntry.__struct_fields__} | {"at": row.at}
    assert row == AuditRow(**fields, seq=0, hash="")


async def test_an_entry_that_is_there_already_is_left_sealed_or_not(store: Store) -> None:
    entry, other = an_entry(), an_entry()
    await store.record([entry, entry])
    await store.record([entry, other])
    assert await told(store) == [entry.id, other.id]

    await seal_all(store)
    await store.record([entry])
    await seal_all(store)

    assert await told(store) == [entry.id, other.id]
    assert [row.seq for row in await store.audit_chain("acme", 0, 10)] == [1, 2]


async def test_an_entry_with_a_nul_is_rejected_and_the_others_with_it(store: Store) -> None:
    with pytest.raises(Rejected):
        await store.record([an_entry(), an_entry(why="a\0b")])

    assert await told(store) == []


async def test_runs_are_made_together_with_their_entries_once(store: Store) -> None:
    runs, entries = [a_run(), a_run()], [an_entry(), an_entry()]

    for _ in range(2):
        await store.insert_runs(runs, audit=entries)

    assert sorted(await told(store)) == [entry.id for entry in entries]


async def test_runs_that_are_not_made_have_no_entries(store: Store) -> None:
    with pytest.raises(JobMissing):
        await store.insert_runs([a_run(job_id="job_unknown")], audit=[an_entry()])
    key = IdempotencyKey(tenant="acme", key="k", body_hash="h")
    await store.insert_runs([a_run()], key)
    with pytest.raises(KeyReused):
        await store.insert_runs([a_run()], IdempotencyKey(tenant="acme", key="k", body_hash="x"), [an_entry()])

    assert await told(store) == []


async def test_a_repeated_request_with_a_key_has_an_entry_too(store: Store) -> None:
    key = IdempotencyKey(tenant="acme", key="k", body_hash="h")
    first, second = an_entry(), an_entry()

    await store.insert_runs([a_run()], key, [first])
    await store.insert_runs([a_run()], key, [second])

    assert await told(store) == [first.id, second.id]


async def test_of_keyed_runs_only_those_are_told_of_that_were_answered_with_a_run(store: Store) -> None:
    def request(key: str, body: str) -> KeyedRun:
        name = IdempotencyKey(tenant="acme", key=key, body_hash=body)
        return KeyedRun(run=a_run(), key=name, audit=an_entry())

    first = request("a", "1")
    await store.insert_keyed([first])
    again, reused, new = request("a", "1"), request("a", "2"), request("b", "1")

    answers = await store.insert_keyed([again, reused, new])

    assert [isinstance(answer, str) for answer in answers] == [True, False, True]
    assert sorted(await told(store)) == sorted(request.audit.id for request in (first, again, new) if request.audit)


async def test_the_entries_of_a_batch_are_written_once_however_often_it_is_sent(store: Store) -> None:
    leader = await Leader.of(store)
    entries = [an_entry(), an_entry()]

    at = await leader.commit(audit=entries)
    leader.number -= 1
    await leader.commit(audit=entries)

    rows = await store.list_audit(EVERYTHING, None, 10)
    assert sorted(row.id for row in rows) == [entry.id for entry in entries]
    assert all(at <= row.at <= at + HOUR for row in rows)


async def test_a_batch_that_is_refused_has_no_entries(store: Store) -> None:
    leader = await Leader.of(store)
    await store.release(leader.term)

    with pytest.raises(Fenced):
        await leader.commit(audit=[an_entry()])

    assert await told(store) == []


async def with_a_job(store: Store, entry: AuditEntry) -> None:
    job = a_job()
    await store.insert_job(job, entry)
    await store.insert_job(job, entry)


async def with_a_schedule(store: Store, entry: AuditEntry) -> None:
    schedule = a_schedule()
    await store.insert_schedule(schedule, a_change_of(schedule), entry)
    with pytest.raises(Conflict):
        await store.insert_schedule(a_schedule(name=schedule.name), a_change_of(schedule), an_entry())


async def with_an_evaluation(store: Store, entry: AuditEntry) -> None:
    schedule = a_schedule()
    await store.insert_schedule(schedule, a_change_of(schedule))
    decide = rule(lambda case: ScheduleDecision(schedule=case.schedule))
    await store.evaluate_schedules([schedule.id], decide, entry)
    await store.evaluate_schedules(["sched_unknown"], decide, an_entry())


async def with_events(store: Store, entry: AuditEntry) -> None:
    await store.receive_events("acme", [an_event()], lambda _: [], entry)


async def with_a_token(store: Store, entry: AuditEntry) -> None:
    token = a_token()
    await store.insert_token(token, entry)
    with pytest.raises(Conflict):
        await store.insert_token(a_token(id=token.id, hash="another"), an_entry())


async def with_the_end_of_a_token(store: Store, entry: AuditEntry) -> None:
    token = a_token()
    await store.insert_token(token)
    assert await store.revoke_token(token.id, entry)
    assert not await store.revoke_token("tok_unknown", an_entry())


@pytest.mark.parametrize(
    "action", [with_a_job, with_a_schedule, with_an_evaluation, with_events, with_a_token, with_the_end_of_a_token]
)
async def test_what_is_changed_is_told_of_and_what_is_refused_is_not(
    store: Store, action: Callable[[Store, AuditEntry], Awaitable[None]]
) -> None:
    entry = an_entry()

    await action(store, entry)

    assert await told(store) == [entry.id]


# lists


async def test_entries_are_listed_by_time_backwards_in_pages_sealed_or_not(store: Store) -> None:
    entries = [an_entry() for _ in range(5)]
    for place, entry in enumerate(entries):
        await store.record([entry])
        if place == 2:
            await seal_all(store)

    first = await store.list_audit(EVERYTHING, None, 3)
    second = await store.list_audit(EVERYTHING, (first[-1].at, first[-1].id), 3)

    assert [row.id for row in first + second] == [entry.id for entry in reversed(entries)]
    assert [row.seq for row in first + second] == [0, 0, 3, 2, 1]


async def test_entries_are_listed_by_tenant_actor_act_object_and_time(store: Store) -> None:
    same = an_entry()
    others = {name: an_entry(**{name: "another"}) for name in ("tenant", "actor", "action", "object")}
    await store.record([same])
    await store.record(list(others.values()))
    await store.seal_audit(2, seal)

    for name, entry in others.items():
        assert await told(store, replace(EVERYTHING, **{name: "another"})) == [entry.id]
    (row,) = [row for row in await store.list_audit(EVERYTHING, None, 10) if row.id == same.id]
    assert same.id in await told(store, AuditFilter(since=row.at))
    assert same.id not in await told(store, AuditFilter(before=row.at))
    assert await told(store, AuditFilter(tenant="acme", before=row.at + DAY, since=row.at + HOUR)) == []
