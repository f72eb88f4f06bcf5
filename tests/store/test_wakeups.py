"""Wake-ups: notify other servers of new work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import asyncpg
import pytest

from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import Store
from mainspring.store.postgres.connection.connection_pool import Connection
from mainspring.store.postgres.connection.wakeups import SECONDS_BETWEEN, Wakeups
from mainspring.store.postgres.store import PostgresStore
from tests.store.builders import a_run


class HandClock:
    """Time passes when the test requests it."""

    def __init__(self) -> None:
        self.now = 100.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        raise AssertionError("nobody asks this clock for the time of day")

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            sleeper = asyncio.get_running_loop().create_future()
            self._sleepers.append((self.now + seconds, sleeper))
            await sleeper

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for until, sleeper in self._sleepers:
            if until <= self.now and not sleeper.done():
                sleeper.set_result(None)
        await evaluate_schedules()


async def evaluate_schedules() -> None:
    """Run all tasks that are ready."""
    for _ in range(10):
        await asyncio.sleep(0)


class Wire:
    """Records messages in place of a database; can be disconnected."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_cut = False

    async def send(self, payload: str) -> None:
        if self.is_cut:
            raise Unavailable("cut")
        self.sent.append(payload)

    async def open_listener(self) -> Connection:
        raise Unavailable("nobody listens here")


@pytest.fixture
async def parts() -> AsyncIterator[tuple[Wakeups, HandClock, Wire]]:
    """Wake-ups with the test's clock and connection."""
    clock, wire = HandClock(), Wire()
    wakeups = Wakeups(sender="me", clock=clock, send=wire.send, open_listener=wire.open_listener)
    yield wakeups, clock, wire
    await wakeups.close()


async def test_the_first_notification_is_sent_at_once(parts: tuple[Wakeups, HandClock, Wire]) -> None:
    wakeups, _, wire = parts

    wakeups.work({"main": ()})
    await evaluate_schedules()

    assert wire.sent == ["me main"]


async def test_at_most_four_a_second_are_sent_for_a_shard_and_the_last_one_is_never_left_out(
    parts: tuple[Wakeups, HandClock, Wire],
) -> None:
    wakeups, clock, wire = parts
    for _ in range(100):
        wakeups.work({"main": ()})
        await clock.advance(0.01)

    assert 3 <= len(wire.sent) <= 5
    before = len(wire.sent)
    wakeups.work({"main": ()})
    await clock.advance(SECONDS_BETWEEN)
    assert len(wire.sent) == before + 1
    await clock.advance(10)
    assert len(wire.sent) == before + 1


async def test_shards_do_not_wait_for_each_other(parts: tuple[Wakeups, HandClock, Wire]) -> None:
    wakeups, _, wire = parts

    wakeups.work({"a": (), "b": ()})
    await evaluate_schedules()

    assert sorted(wire.sent) == ["me a", "me b"]


async def test_a_notification_that_cant_be_sent_does_not_stop_the_next_ones(
    parts: tuple[Wakeups, HandClock, Wire],
) -> None:
    wakeups, clock, wire = parts
    wire.is_cut = True
    wakeups.work({"main": ()})
    await evaluate_schedules()
    wire.is_cut = False

    wakeups.work({"main": ()})
    await clock.advance(SECONDS_BETWEEN)

    assert wire.sent == ["me main"]


async def test_who_is_in_the_same_process_is_called_at_once_each_time(parts: tuple[Wakeups, HandClock, Wire]) -> None:
    wakeups, _, _ = parts
    record_heartbeats: list[str] = []
    wakeups.on_work(lambda shard, _: record_heartbeats.append(shard))

    wakeups.work({"main": ()})
    wakeups.work({"main": ()})

    assert record_heartbeats == ["main", "main"]


class Ear:
    """Receives wake-ups, and can be waited on."""

    def __init__(self, store: Store) -> None:
        self.record_heartbeats: asyncio.Queue[str] = asyncio.Queue()
        store.on_work(lambda shard, _: self.record_heartbeats.put_nowait(shard))


LISTENERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1') AND state = 'idle'
"""


async def listening(connection: Connection, listeners: int) -> None:
    """Wait for this number of listening sessions: their last statement was LISTEN or the keep-alive check."""
    async with asyncio.timeout(30):
        while await connection.fetchval(LISTENERS) < listeners:
            pass


async def test_other_processes_hear_of_work(postgres_url: str) -> None:
    """Two stores are equivalent to two processes: they share only the database."""
    mine, theirs = await PostgresStore.connect(postgres_url), await PostgresStore.connect(postgres_url)
    my_ear, their_ear = Ear(mine), Ear(theirs)
    watcher = await asyncpg.connect(postgres_url)
    await listening(watcher, 2)

    await mine.insert_runs([a_run()])

    async with asyncio.timeout(10):
        assert await their_ear.record_heartbeats.get() == "main"
        assert await my_ear.record_heartbeats.get() == "main"
    await mine.insert_runs([a_run(shard="second")])
    async with asyncio.timeout(10):
        assert await their_ear.record_heartbeats.get() == "second"
        assert await my_ear.record_heartbeats.get() == "second"
    assert my_ear.record_heartbeats.empty(), "what comes back from the database was heard before"
    for closing in (mine.close(), theirs.close(), watcher.close()):
        await closing


async def test_a_listener_that_lost_its_connection_comes_back(postgres_url: str) -> None:
    mine, theirs = await PostgresStore.connect(postgres_url), await PostgresStore.connect(postgres_url)
    ear = Ear(theirs)
    watcher = await asyncpg.connect(postgres_url)
    await listening(watcher, 1)
    await watcher.execute(
        """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
           WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()"""
    )

    await listening(watcher, 1)
    await mine.insert_runs([a_run()])

    async with asyncio.timeout(30):
        assert await ear.record_heartbeats.get() == "main"
    for closing in (mine.close(), theirs.close(), watcher.close()):
        await closing
