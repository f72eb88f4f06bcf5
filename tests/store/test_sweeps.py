"""Moving ended runs to history, deleting old rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.model.batch import LateResult, RejectedEvent
from mainspring.core.model.run import FINAL_RUN, RunState
from mainspring.core.schedules.windows import Outcome
from mainspring.store.ports.schedules import FireFilter
from mainspring.store.ports.store import PRUNABLE, IdempotencyKey, Store
from tests.store.builders import (
    DAY,
    HOUR,
    Leader,
    a_decision,
    a_run,
    a_transition,
    adopted,
    an_artifact,
    an_attempt,
    an_outgoing,
    ended,
)
from tests.store.conftest import look
from tests.store.schedule_builders import a_change_of, a_fire, a_schedule, an_alert, an_event, given_fires

AGE = 30 * DAY
OLD = 40 * DAY


async def count(store: Store, table: str) -> int:
    """Number of rows of a table."""
    ((rows,),) = await look(store, f"SELECT count(*) FROM {table}")
    assert isinstance(rows, int)
    return rows


async def prune_all(store: Store, what: str) -> int:
    """Prune until nothing is left to prune."""
    calls = 1
    while (await store.prune(what, AGE)).more:
        calls += 1
        assert calls < 50
    return calls


async def test_ended_runs_are_final_runs_that_ended_at_least_so_long_ago_oldest_first(store: Store) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    runs = [a_run() for _ in range(4)]
    await leader.adopt(*runs)
    ages = [2 * HOUR, 5 * HOUR, HOUR / 2, 3 * HOUR]
    await leader.commit(runs=[ended(run, ended_at=now - age) for run, age in zip(runs, ages, strict=True)])

    assert await store.ended_runs("main", HOUR, 10) == [runs[1].id, runs[3].id, runs[0].id]
    assert await store.ended_runs("main", HOUR, 2) == [runs[1].id, runs[3].id]
    assert await store.ended_runs("other", HOUR, 10) == []


async def test_ended_runs_are_of_every_final_state_and_no_other(store: Store) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    runs = {state: a_run() for state in RunState}
    await leader.adopt(*runs.values())
    await leader.commit(runs=[adopted(run, state=state, ended_at=now - DAY) for state, run in runs.items()])

    assert set(await store.ended_runs("main", HOUR, 100)) == {runs[state].id for state in FINAL_RUN}


async def test_prepare_days_can_be_repeated(store: Store) -> None:
    await store.prepare_days(3)
    await store.prepare_days(3)
    await store.prepare_days(5)


async def test_rows_stay_readable_when_their_day_is_made_after_them(store: Store) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    run = a_run()
    (task,) = await leader.adopt(run)
    attempt = an_attempt(task, ended_at=now)
    await leader.commit(
        transitions=[a_transition(task, at=now)], attempts=[attempt], runs=[ended(run, ended_at=now)], archived=[run.id]
    )

    await store.prepare_days(2)

    assert await store.run(run.id) == ended(run, ended_at=now)
    assert await store.tasks(run.id) == [task]
    assert [found.id for found in await store.find_attempts([attempt.id])] == [attempt.id]
    assert await count(store, "transitions") == 2


async def test_prune_takes_away_what_is_older_than_age_and_nothing_else(store: Store) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    for age in (OLD, DAY):
        at = now - age
        run = a_run()
        (task,) = await leader.adopt(run)
        attempt = an_attempt(task, ended_at=at)
        await leader.commit(
            transitions=[a_transition(task, at=at)],
            decisions=[a_decision(task, at=at)],
            attempts=[attempt],
            artifacts=[an_artifact(task, stored_at=at)],
            late=[LateResult(attempt_id=attempt.id, outcome="failed", output=None, error=None, at=at)],
            rejected=[
                RejectedEvent(id=f"r{age}", shard="main", kind="k", subject=task.id, event="{}", fault="f", at=at)
            ],
            runs=[ended(run, ended_at=at)],
            archived=[run.id],
        )
    tables = (
        "transitions",
        "decisions",
        "attempts",
        "late_results",
        "runs_history",
        "tasks_history",
        "rejected_events",
        "artifacts",
    )
    # The transitions of the adoptions are older than everything here.
    assert [await count(store, table) for table in tables] == [4, 2, 2, 2, 2, 2, 2, 2]

    for what in PRUNABLE:
        await prune_all(store, what)

    assert [await count(store, table) for table in tables] == [1, 1, 1, 1, 1, 1, 1, 1]


async def test_prune_never_touches_what_belongs_to_a_run_that_is_not_final(store: Store) -> None:
    leader = await Leader.of(store)
    at = await store.time() - OLD
    run = a_run()
    (task,) = await leader.adopt(run)
    attempt = an_attempt(task, ended_at=at)
    await leader.commit(
        transitions=[a_transition(task, at=at)],
        decisions=[a_decision(task, at=at)],
        attempts=[attempt],
        late=[LateResult(attempt_id=attempt.id, outcome="failed", output=None, error=None, at=at)],
        rejected=[
            RejectedEvent(id=f"r{n}", shard="main", kind="k", subject=subject, event="{}", fault="f", at=at)
            for n, subject in enumerate((task.id, run.id, "a shape"))
        ],
    )

    for what in PRUNABLE:
        await prune_all(store, what)

    tables = ("transitions", "decisions", "attempts", "late_results")
    assert [await count(store, table) for table in tables] == [2, 1, 1, 1]
    assert await look(store, "SELECT id FROM rejected_events ORDER BY id") == [("r0",), ("r1",)]

    await leader.commit(runs=[ended(run)])
    for what in PRUNABLE:
        await prune_all(store, what)

    assert [await count(store, table) for table in tables] == [0, 0, 0, 0]
    assert await count(store, "rejected_events") == 0


async def test_prune_takes_away_at_most_1000_rows_at_a_time_where_it_does_not_drop_days(store: Store) -> None:
    leader = await Leader.of(store)
    at = await store.time() - OLD
    events = [
        RejectedEvent(id=f"r{n}", shard="main", kind="k", subject="s", event="{}", fault="f", at=at)
        for n in range(2300)
    ]
    await leader.commit(rejected=events)

    pruned = [await store.prune("rejected_events", AGE) for _ in range(3)]

    assert [(sweep.rows, sweep.more) for sweep in pruned] == [(1000, True), (1000, True), (300, False)]
    assert {sweep.what for sweep in pruned} == {"rejected_events"}


async def test_undelivered_rows_of_the_outbox_are_never_pruned(store: Store) -> None:
    leader = await Leader.of(store)
    at = await store.time() - OLD
    await leader.commit(outbox=[an_outgoing(created_at=at), an_outgoing(created_at=at)])

    await store.prune("outbox", timedelta(0))

    assert await count(store, "outbox") == 2


async def test_delivered_rows_of_the_outbox_are_pruned_by_the_time_of_their_delivery(store: Store) -> None:
    leader = await Leader.of(store)
    outgoing = an_outgoing(created_at=await store.time() - OLD)
    await leader.commit(outbox=[outgoing])
    await store.delivered([outgoing.id])

    await store.prune("outbox", HOUR)
    assert await count(store, "outbox") == 1
    await store.prune("outbox", -HOUR)
    assert await count(store, "outbox") == 0


async def test_a_key_is_kept_as_long_as_one_of_its_runs_is_not_final(store: Store) -> None:
    leader = await Leader.of(store)
    over, going_on = a_run(), a_run()
    await store.insert_runs([over, going_on], IdempotencyKey(tenant="acme", key="k", body_hash="h"))
    await leader.commit(runs=[ended(over)])

    await store.prune("idempotency", -HOUR)
    assert await count(store, "idempotency") == 1

    await leader.commit(runs=[ended(going_on)])
    await store.prune("idempotency", -HOUR)
    assert await count(store, "idempotency") == 0


async def test_fires_events_alerts_and_changes_are_pruned_by_their_age(store: Store) -> None:
    now = await store.time()
    old, new = now - OLD, now - DAY
    schedule = a_schedule()
    await store.insert_schedule(schedule, a_change_of(schedule, at=old))
    await given_fires(
        store,
        schedule,
        a_fire(schedule, window_at=old, decided_at=old),
        a_fire(schedule, window_at=new, decided_at=new),
        changes=(a_change_of(schedule, at=new),),
    )
    await store.receive_events(schedule.tenant, [an_event(at=old), an_event()], lambda _: [])
    for at in (old, new, None):
        alert = an_alert(opened_at=old, last_at=old)
        await store.open_alert(alert, [])
        if at is not None:
            await store.resolve_alert(alert.key, at, lambda _: [])

    for what in PRUNABLE:
        await prune_all(store, what)

    assert await store.fires(FireFilter(schedule_id=schedule.id), 10) == [
        a_fire(schedule, window_at=new, decided_at=new)
    ]
    assert [change.at for change in await store.schedule_changes(schedule.id, 10)] == [new]
    assert {alert.resolved_at for alert in await store.list_alerts(None, None, "", 10)} == {new, None}
    assert await count(store, "events") == 2
    await store.prune("events", -HOUR)
    assert await count(store, "events") == 0


async def test_fires_that_wait_or_whose_run_is_not_over_are_never_pruned(store: Store) -> None:
    leader = await Leader.of(store)
    at = await store.time() - OLD
    schedule, active, reopened, over = a_schedule(), a_run(), a_run(), a_run()
    await store.insert_schedule(schedule, a_change_of(schedule))
    ended_fire = {"outcome": Outcome.RAN, "run_state": RunState.FAILED, "run_ended_at": at, "decided_at": at}
    await given_fires(
        store,
        schedule,
        a_fire(schedule, window_at=at, outcome=Outcome.WAITING, decided_at=at),
        a_fire(schedule, window_at=at + HOUR, outcome=Outcome.RAN, run_id=active.id, decided_at=at),
        a_fire(schedule, window_at=at + 2 * HOUR, run_id=reopened.id, **ended_fire),
        a_fire(schedule, window_at=at + 3 * HOUR, run_id=over.id, **ended_fire),
        runs=(active, reopened, over),
    )
    await leader.commit(runs=[adopted(active), adopted(reopened), ended(over)])

    await store.prune("fires", AGE)

    left = await store.fires(FireFilter(schedule_id=schedule.id), 10)
    assert [fire.window_at for fire in left] == [at + 2 * HOUR, at + HOUR, at]


async def test_prune_knows_everything_that_is_prunable_and_nothing_else(store: Store) -> None:
    for what in PRUNABLE:
        assert (await store.prune(what, AGE)).rows == 0
    with pytest.raises(KeyError):
        await store.prune("runs", AGE)
