"""Concurrent evaluations, and servers lost in the middle: no window is fired twice, and none is left out (I-30)."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import asyncpg
import pytest
from msgspec.structs import replace

from mainspring.core.model.schedule_rows import EvaluationBatch, ScheduleDecision, ScheduleRow, ScheduleSnapshot
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.schedules import FireFilter
from mainspring.store.postgres.connection.connection_pool import Connection
from mainspring.store.postgres.store import PostgresStore
from tests.store.builders import HOUR, JOB, NOW, UNHURRIED, a_run
from tests.store.conftest import look
from tests.store.proxy import Proxy, proxied
from tests.store.schedule_builders import MINUTE, a_fire, a_schedule, an_alert, an_event, fire_once, given, rule


@pytest.fixture
async def stores(postgres_url: str) -> AsyncIterator[Sequence[PostgresStore]]:
    """Two servers on one database."""
    opened = [await PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR) for _ in range(2)]
    yield opened
    for store in opened:
        await store.close()


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[Connection]:
    """A separate connection to the stores' database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def behind_proxy(postgres_url: str) -> AsyncIterator[tuple[PostgresStore, Proxy]]:
    """A server that reaches its database through a proxy."""
    with tempfile.TemporaryDirectory(prefix="ms-") as directory:
        async with proxied(postgres_url, Path(directory)) as (url, proxy):
            opened = await PostgresStore.connect(url)
            yield opened, proxy
            await opened.close()


async def until_a_lock_is_awaited(connection: Connection) -> None:
    """Wait until a session waits for a lock."""
    async with asyncio.timeout(10):
        while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await connection.fetchval("SELECT pg_sleep(0.01)")


def fire_next(case: ScheduleSnapshot) -> ScheduleDecision:
    """Run the window after the last covered one, at any time: with an outdated context it would run twice."""
    window_at = case.schedule.planned_through + MINUTE
    run = a_run(job_id=JOB.id, schedule_id=case.schedule.id, window_at=window_at)
    fire = a_fire(case.schedule, window_at=window_at, outcome=Outcome.RAN, run_id=run.id)
    planned = replace(case.schedule, planned_through=window_at, next_at=window_at + MINUTE)
    return ScheduleDecision(schedule=planned, fires=(fire,), runs=(run,))


async def windows_of(store: PostgresStore, schedule: ScheduleRow) -> list[object]:
    """The windows of the runs of a schedule, in order."""
    found = await look(store, f"SELECT window_at FROM runs WHERE schedule_id = '{schedule.id}' ORDER BY window_at")
    return [window_at for (window_at,) in found]


async def test_servers_that_evaluate_due_schedules_concurrently_fire_each_window_once(
    stores: Sequence[PostgresStore],
) -> None:
    schedules = [a_schedule() for _ in range(40)]
    await given(stores[0], *schedules)

    async def evaluate_schedules(store: PostgresStore) -> int:
        taken = 0
        while (evaluated := await store.evaluate_due(3, rule(fire_once))).schedules:
            taken += evaluated.schedules
        return taken

    taken = await asyncio.gather(*(evaluate_schedules(store) for store in stores for _ in range(3)))

    assert sum(taken) == len(schedules)
    assert await look(stores[0], "SELECT count(*), count(DISTINCT schedule_id) FROM runs") == [(40, 40)]
    assert await look(stores[0], "SELECT count(*) FROM fires") == [(40,)]
    assert await stores[0].next_due() is None


async def test_servers_that_name_the_same_schedule_at_once_see_what_the_others_did(
    stores: Sequence[PostgresStore],
) -> None:
    schedule = a_schedule()
    await given(stores[0], schedule)

    await asyncio.gather(
        *(store.evaluate_schedules([schedule.id], rule(fire_next)) for store in stores for _ in range(4))
    )

    assert await windows_of(stores[0], schedule) == [NOW + n * MINUTE for n in range(1, 9)]
    assert len(await stores[0].fires(FireFilter(schedule_id=schedule.id), 100)) == 8


async def test_schedules_locked_by_another_server_are_not_due(
    stores: Sequence[PostgresStore], other: Connection
) -> None:
    held, free = a_schedule(next_at=NOW, has_waiting_windows=True), a_schedule(has_waiting_windows=True)
    await given(stores[0], held, free)
    async with other.transaction():
        await other.execute("SELECT 1 FROM schedules WHERE id = $1 FOR UPDATE", held.id)

        waiting = await stores[0].evaluate_waiting(10, 0.0, rule(lambda case: ScheduleDecision(schedule=case.schedule)))
        due = await stores[0].evaluate_due(10, rule(fire_once))

    for evaluated in (waiting, due):
        assert [decision.schedule.id for decision in evaluated.decisions] == [free.id]


@pytest.mark.parametrize("mode", ["evaluate_schedules", "receive_events"])
async def test_a_named_schedule_waits_for_its_lock_and_sees_the_change(
    stores: Sequence[PostgresStore], other: Connection, mode: str
) -> None:
    store = stores[0]
    schedule = a_schedule(event_type="file.arrived")
    await given(store, schedule)
    seen: list[ScheduleSnapshot] = []

    def watch(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
        seen.extend(evaluation_batch.cases)
        return [ScheduleDecision(schedule=case.schedule) for case in evaluation_batch.cases]

    async def ask() -> None:
        if mode == "evaluate_schedules":
            await store.evaluate_schedules([schedule.id], watch)
        else:
            await store.receive_events(JOB.tenant, [an_event()], watch)

    async with other.transaction():
        await other.execute("UPDATE schedules SET paused = true WHERE id = $1", schedule.id)
        asked = asyncio.create_task(ask())
        await until_a_lock_is_awaited(other)
    await asked

    assert [case.schedule.paused for case in seen] == [True]


async def test_who_waits_for_too_long_is_told_so_and_nothing_is_written(
    stores: Sequence[PostgresStore], other: Connection
) -> None:
    schedule = a_schedule()
    await given(stores[0], schedule)
    waits_shortly = await PostgresStore.connect(stores[0]._url, limits=replace(UNHURRIED, lock=0.1), lease=HOUR)
    async with other.transaction():
        await other.execute("SELECT 1 FROM schedules FOR UPDATE")

        with pytest.raises(Unavailable):
            await waits_shortly.evaluate_schedules([schedule.id], rule(fire_next))

    await waits_shortly.close()
    assert await windows_of(stores[0], schedule) == []


async def test_a_window_is_evaluated_once_although_the_answer_was_lost(
    behind_proxy: tuple[PostgresStore, Proxy],
) -> None:
    store, proxy = behind_proxy
    schedule = a_schedule()
    await given(store, schedule)
    proxy.lose_answer_to = b"COMMIT"

    with pytest.raises(Unavailable):
        await store.evaluate_due(10, rule(fire_once))
    again = await store.evaluate_due(10, rule(fire_once))

    assert proxy.answers_lost == 1
    assert again.schedules == 0
    assert await windows_of(store, schedule) == [NOW + MINUTE]


async def test_schedules_of_an_evaluator_that_dies_before_its_commit_are_taken_by_others(
    stores: Sequence[PostgresStore], other: Connection
) -> None:
    """Its connection is ended while it decides; another server takes the same schedules then."""
    schedule = a_schedule()
    await given(stores[0], schedule)

    def die(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
        threading.Thread(target=asyncio.run, args=(end_evaluators(),)).start()
        assert ended.wait(10)
        return [fire_once(case) for case in evaluation_batch.cases]

    ended = threading.Event()
    url = stores[0]._url

    async def end_evaluators() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        )
        await connection.close()
        ended.set()

    with pytest.raises(Unavailable):
        await stores[0].evaluate_due(10, die)
    assert await windows_of(stores[1], schedule) == []

    assert (await stores[1].evaluate_due(10, rule(fire_once))).schedules == 1
    assert await windows_of(stores[1], schedule) == [NOW + MINUTE]


async def test_the_same_event_that_comes_to_two_servers_at_once_is_new_to_one(stores: Sequence[PostgresStore]) -> None:
    schedule = a_schedule(event_type="file.arrived")
    await given(stores[0], schedule)
    events = [an_event() for _ in range(5)]

    answers = await asyncio.gather(
        stores[0].receive_events(JOB.tenant, events, rule(fire_next)),
        stores[1].receive_events(JOB.tenant, events[::-1], rule(fire_next)),
    )

    assert sum(answer.count(True) for answer in answers) == 5
    assert await windows_of(stores[0], schedule) == [NOW + MINUTE]


async def test_two_servers_that_open_the_same_alert_at_once_open_one(stores: Sequence[PostgresStore]) -> None:
    alerts = [an_alert(key="stuck") for _ in range(8)]

    opened = await asyncio.gather(*(stores[n % 2].open_alert(alert, []) for n, alert in enumerate(alerts)))

    assert opened.count(True) == 1
    (episode,) = await stores[0].list_alerts(None, True, "", 10)
    assert episode.count == 8
