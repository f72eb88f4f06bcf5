"""An unreadable row never stops a pass: it is logged, counted and skipped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple, cast

import pytest
from structlog.testing import capture_logs

from mainspring.core.model.audit_entry import seal
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import FireRow, ScheduleDecision
from mainspring.core.schedules.windows import Outcome
from mainspring.host.leader_client import LeaderClient
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.schedule_outbox import MISSED_AFTER, ScheduleOutbox
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Broken
from mainspring.store.ports.front import ServerRow
from mainspring.store.ports.store import Store
from mainspring.store.sql.unreadable_rows import MAX_REMEMBERED, UNREADABLE, UnreadableRows
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.admin_builders import a_measure, a_webhook, an_entry
from tests.store.builders import DAY, HOUR, NOW, Leader, a_run, a_transition, an_outgoing, ended
from tests.store.conftest import look
from tests.store.schedule_builders import MINUTE, a_fire, a_schedule, given, given_fires, rule
from tests.store.test_damage import write
from tests.store.test_liveness import a_worker

NEVER = 2**62
"""Microseconds beyond any date. SQLite stores it; PostgreSQL's types refuse it."""


class Found(NamedTuple):
    """The rows that a pass returned, and those that it should return."""

    good: list[str]
    found: list[str]
    kind: str
    """Id of the unreadable row."""


Case = Callable[[Store], Awaitable[Found]]


async def _unnoted_ends(store: Store) -> Found:
    schedule = a_schedule()
    await given(store, schedule)
    leader = await Leader.of(store)
    good, bad = a_run(watched=True), a_run(watched=True)
    await store.insert_runs([good, bad])
    fires = [
        a_fire(schedule, window_at=NOW + n * MINUTE, outcome=Outcome.RAN, run_id=run.id)
        for n, run in enumerate([good, bad])
    ]
    await given_fires(store, schedule, *fires)
    await leader.commit(runs=[ended(good), ended(bad)])
    await write(store, f"UPDATE runs SET state = 'HIBERNATED' WHERE id = '{bad.id}'")
    return Found([good.id], [end.run_id for end in await store.unprocessed_run_ends(NOW + MINUTE, 10)], "ended_run")


async def _transitions(store: Store) -> Found:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    await leader.commit(transitions=[a_transition(task, seq=2), a_transition(task, seq=3)])
    await write(store, "UPDATE transitions SET \"end\" = 'MELTED' WHERE seq = 2")
    told = await store.transitions_after("main", 0, -1, 10)
    return Found(["1", "3"], [str(one.transition.seq) for one in told], "transition")


async def _webhooks(store: Store) -> Found:
    good, bad = [await store.put_webhook(a_webhook(), None, an_entry()) for _ in range(2)]
    await write(store, f"UPDATE webhooks SET events = '{{}}' WHERE id = '{bad.id}'")
    return Found([good.id], [hook.id for hook in await store.list_webhooks("acme", "", 10)], "webhook")


async def _outbox(store: Store) -> Found:
    leader = await Leader.of(store)
    bad, good = an_outgoing(), an_outgoing()
    await leader.commit(outbox=[bad, good])
    await write(store, f"UPDATE outbox SET created_at = {NEVER} WHERE id = '{bad.id}'")
    taken = [one.id for one in await store.claim_outbox("h1", 10, HOUR)]
    (put_off,) = await look(store, f"SELECT tries, fault FROM outbox WHERE id = '{bad.id}'")
    assert put_off == (1, "it can't be read")
    return Found([good.id], taken, "outbox")


async def _audit(store: Store) -> Found:
    bad, good = an_entry(), an_entry()
    await store.record([bad, good])
    await write(store, f"UPDATE audit_unsealed SET at = {NEVER} WHERE id = '{bad.id}'")
    heads = await store.seal_audit(10, seal)
    assert [row[0] for row in await look(store, "SELECT id FROM audit")] == [good.id]
    assert [row[0] for row in await look(store, "SELECT id FROM audit_unsealed")] == [bad.id]
    return Found(["acme 1"], [f"{head.tenant} {head.seq}" for head in heads], "audit_entry")


async def _workers(store: Store) -> Found:
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("bad"), a_worker("good")])
    await write(store, f"UPDATE workers SET since = {NEVER} WHERE id = 'bad'")
    return Found(["good"], [row.id for row in await store.silent_workers("main", HOUR, 10, HOUR)], "worker")


async def _servers(store: Store) -> Found:
    for name in ("bad", "good"):
        await store.record_server_heartbeat(
            ServerRow(name=name, address="", version="", started_at=NOW, last_heartbeat_at=NOW)
        )
    await write(store, f"UPDATE servers SET started_at = {NEVER} WHERE name = 'bad'")
    return Found(["good"], [row.name for row in await store.servers(HOUR)], "server")


async def _shards(store: Store) -> Found:
    for name in ("bad", "good"):
        await store.ensure_shard(name)
    await write(store, f"UPDATE shards SET lease_until = {NEVER} WHERE id = 'bad'")
    return Found(["good"], [row.id for row in await store.shards()], "shard")


async def _settings(store: Store) -> Found:
    for name in ("bad", "good"):
        await store.put_setting_override(a_measure(name=name), None, an_entry())
    await write(store, f"UPDATE setting_overrides SET updated_at = {NEVER} WHERE name = 'bad'")
    return Found(["good"], [row.name for row in await store.setting_overrides()], "setting_override")


async def _next_schedules(store: Store) -> Found:
    bad, good = a_schedule(), a_schedule()
    await given(store, bad, good)
    await write(store, f"UPDATE schedules SET created_at = {NEVER} WHERE id = '{bad.id}'")
    return Found([good.id], [row.id for row in await store.next_schedules(None, NOW + DAY, 10)], "schedule")


ON_BOTH: dict[str, Case] = {"unnoted ends": _unnoted_ends, "live stream": _transitions, "webhooks": _webhooks}
ON_SQLITE: dict[str, Case] = {
    "outbox": _outbox, "sealing": _audit, "unheard workers": _workers, "servers": _servers, "shards": _shards,
    "settings": _settings, "schedule metrics": _next_schedules,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_logged_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UNREADABLE, "_logged", OrderedDict())


@pytest.mark.parametrize("name", ON_BOTH)
async def test_a_row_that_can_not_be_read_is_named_and_the_others_are_used(store: Store, name: str) -> None:
    await _check(store, ON_BOTH[name])


@pytest.mark.parametrize("name", ON_SQLITE)
async def test_the_same_of_rows_that_only_sqlite_can_have(name: str) -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
    await _check(store, ON_SQLITE[name])
    await store.close()


async def _check(store: Store, case: Case) -> None:
    before = UNREADABLE.counts.copy()

    with capture_logs() as logs:
        found = await case(store)

    assert found.found == found.good
    (logged,) = [entry for entry in logs if entry["event"] == "row.unreadable"]
    assert (logged["kind"], logged["log_level"]) == (found.kind, "error")
    assert UNREADABLE.counts[found.kind] > before[found.kind]


async def _end_of_a_run(store: Store, fire: FireRow) -> None:
    await write(
        store,
        f"UPDATE fires SET run_state = 'HIBERNATED' WHERE schedule_id = '{fire.schedule_id}' AND run_state IS NOT NULL",
    )


async def _open_fire(store: Store, fire: FireRow) -> None:
    await write(
        store,
        f"UPDATE fires SET run_state = 'HIBERNATED' WHERE schedule_id = '{fire.schedule_id}' AND run_state IS NULL",
    )


@pytest.mark.parametrize("spoil", [_end_of_a_run, _open_fire])
async def test_schedules_fire_though_one_has_a_fire_that_can_not_be_read(
    store: Store, spoil: Callable[[Store, FireRow], Awaitable[None]]
) -> None:
    """Only this schedule is postponed, and none of its windows is lost."""
    bad, good = a_schedule(has_waiting_windows=True), a_schedule(has_waiting_windows=True)
    await given(store, bad, good)
    for schedule in (bad, good):
        over = a_fire(schedule, outcome=Outcome.RAN, run_id=a_run().id, run_state=RunState.FAILED, run_ended_at=NOW)
        waits = a_fire(schedule, window_at=NOW + MINUTE, outcome=Outcome.WAITING)
        await given_fires(store, schedule, over, waits)
    await spoil(store, a_fire(bad))
    evaluated: list[str] = []

    def decide(case: object) -> ScheduleDecision:
        schedule = case.schedule  # type: ignore[attr-defined]
        evaluated.append(schedule.id)
        return ScheduleDecision(schedule=schedule)

    with capture_logs() as logs:
        await store.evaluate_waiting(10, 0.0, rule(decide))

    assert evaluated == [good.id]
    assert [one["schedule"] for one in logs if one["event"] == "schedule.unreadable"] == [bad.id]
    (row,) = await store.schedules_named(bad.tenant, [bad.name])
    assert row.planned_through == bad.planned_through


async def test_an_end_whose_fire_can_not_be_read_keeps_no_other_from_being_noted(store: Store) -> None:
    """Before, one such row stopped the sweeper permanently, even after restarts."""
    good, bad = a_schedule(next_at=None), a_schedule(next_at=None)
    await given(store, good, bad)
    leader = await Leader.of(store)
    runs = {schedule.id: a_run(watched=True, schedule_id=schedule.id) for schedule in (good, bad)}
    await store.insert_runs(list(runs.values()))
    for schedule in (good, bad):
        await given_fires(store, schedule, a_fire(schedule, outcome=Outcome.RAN, run_id=runs[schedule.id].id))
    await leader.commit(runs=[ended(run) for run in runs.values()])
    await write(store, f"UPDATE fires SET run_state = 'HIBERNATED' WHERE run_id = '{runs[bad.id].id}'")
    news = ScheduleOutbox(store, ScheduleEvaluator(store, make_context()), cast("LeaderClient", None))

    with capture_logs() as logs:
        await news.catch_up(NOW + 2 * MISSED_AFTER)

    (noted,) = await store.fires_of_runs([runs[good.id].id])
    assert noted.run_ended_at == NOW
    assert [one["run"] for one in logs if one["event"] == "schedule.end_unreadable"] == [runs[bad.id].id]
    with pytest.raises(Broken):
        await store.fires_of_runs([runs[bad.id].id])


def test_a_row_is_logged_once_for_as_long_as_the_same_is_wrong_with_it() -> None:
    rows = UnreadableRows()
    with capture_logs() as logs:
        for fault in ("a", "a", "b"):
            rows.log("fire", {"key": fault})
        rows.log("fire", {str(n): f"other {n}" for n in range(MAX_REMEMBERED)})
        rows.log("fire", {"key": "a"})
    assert [one["fault"] for one in logs if one["key"] == "key"] == ["a", "b", "a"]
