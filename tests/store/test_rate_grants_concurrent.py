"""Allowances taken by one statement on PostgreSQL: equivalent to those taken under locks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import asyncpg
import msgspec
import pytest

from mainspring.core.limits.rate_grants import RateGrant, RateRequest, Take
from mainspring.protocol.clock import Clock, SystemClock
from mainspring.store.postgres import limits as postgres_limits
from mainspring.store.postgres.limits import Allowances
from tests.store.sharing_builders import a_request

LIMIT = a_request().limit


class Server:
    """Takes allowances over a separate connection, and counts its round trips."""

    def __init__(self, connection: asyncpg.Connection, clock: Clock) -> None:
        self.statements = 0
        """Round trips of the latest call."""
        self._connection = connection
        self._allowances = Allowances(clock)

    async def take(self, *requests: RateRequest) -> list[RateGrant]:
        """Take, and count."""
        self.statements = 0
        with self._connection.query_logger(self._count):
            return await self._allowances.take(self._connection, requests)

    async def granted(self, **changes: object) -> int:
        """The granted allowance of one request."""
        (answer,) = await self.take(a_request(**changes))
        return answer.granted

    async def takes(self) -> Sequence[Take]:
        """The stored allowances that count."""
        found = await self._connection.fetchval('SELECT takes FROM rate_usage WHERE "limit" = $1', LIMIT)
        return msgspec.json.decode(found, type=list[Take])

    async def time(self) -> datetime:
        """The store's time."""
        now: datetime = await self._connection.fetchval("SELECT clock_timestamp()")
        return now

    def _count(self, _record: object) -> None:
        self.statements += 1


class StandingClock(SystemClock):
    """A clock that stands still."""

    def __init__(self, behind: float = 0.0) -> None:
        self._stands_at = super().monotonic() - behind

    def monotonic(self) -> float:
        """Always the same."""
        return self._stands_at


@pytest.fixture(autouse=True)
def _ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let statements arrive in time, even on a slow machine."""
    monkeypatch.setattr(postgres_limits, "AHEAD", timedelta(seconds=0.9))


@pytest.fixture
async def connections(postgres_url: str) -> AsyncIterator[list[asyncpg.Connection]]:
    """Two connections to a store."""
    opened = [await asyncpg.connect(postgres_url) for _ in range(2)]
    yield opened
    for connection in opened:
        await connection.close()


@pytest.fixture
def server(connections: list[asyncpg.Connection]) -> Server:
    return Server(connections[0], SystemClock())


@pytest.fixture
def other(connections: list[asyncpg.Connection]) -> Server:
    return Server(connections[1], SystemClock())


async def test_who_takes_again_says_one_thing_to_the_store(server: Server) -> None:
    assert await server.granted() == 1
    assert server.statements > 1
    assert [await server.granted() for _ in range(3)] == [1, 1, 1]
    assert server.statements == 1
    assert [take.amount for take in await server.takes()] == [1, 1, 1, 1]


async def test_what_another_server_took_meanwhile_is_noticed(server: Server, other: Server) -> None:
    await server.granted(wanted=2)
    assert await other.granted(wanted=2) == 2

    assert await server.granted(wanted=3) == 1
    assert server.statements > 1
    assert sum(take.amount for take in await server.takes()) == 5


async def test_of_several_limits_all_are_taken_from_or_none(server: Server, other: Server) -> None:
    """Another server has taken from one of them."""
    requests = [a_request(limit=limit, wanted=2) for limit in ("a", LIMIT, "z")]
    await server.take(*requests)
    await server.take(*requests)
    assert server.statements == 1
    await other.granted()

    assert [answer.granted for answer in await server.take(*requests)] == [1, 0, 1]
    assert sum(take.amount for take in await server.takes()) == 5


async def test_a_take_is_never_older_than_the_store(server: Server) -> None:
    """An allowance counts for at least a period, and at most for a little longer."""
    await server.granted()
    before = await server.time()
    await server.granted()
    after = await server.time()

    assert server.statements == 1
    assert before <= (await server.takes())[-1].at <= after + postgres_limits.AHEAD


async def test_when_the_next_can_be_had_is_true_of_what_was_taken_at_once(server: Server) -> None:
    await server.granted(wanted=1)
    (answer,) = await server.take(a_request(wanted=9))

    assert (answer.granted, server.statements) == (4, 1)
    assert answer.more_at == (await server.takes())[0].at + timedelta(hours=1)


async def test_who_is_refused_by_what_is_known_hears_it_from_the_store(server: Server) -> None:
    """Cached values may be old: the limit may have been created again."""
    await server.granted(wanted=5)
    await server._connection.execute("UPDATE rate_usage SET takes = '[]'")

    assert await server.granted() == 1


@pytest.mark.parametrize("seconds", [-3600, 3600])
async def test_who_has_another_time_than_the_store_takes_under_the_locks(server: Server, seconds: int) -> None:
    """The store's clock was changed, or this machine was suspended: an allowance still has the store's time."""
    await server.granted()
    server._allowances._time.heard(await server.time() + timedelta(seconds=max(0, seconds)))
    if seconds < 0:
        server._allowances._time._clock = StandingClock(behind=-seconds)

    before = await server.time()
    assert await server.granted() == 1
    assert server.statements > 1
    assert before <= (await server.takes())[-1].at <= await server.time()


async def test_a_period_that_is_too_short_for_it_is_taken_from_under_the_locks(server: Server) -> None:
    """Otherwise an allowance would count for much too long."""
    short = 10 * postgres_limits.AHEAD.total_seconds()
    for _ in range(2):
        await server.granted(per_seconds=short)
    assert server.statements > 1


async def test_a_limit_that_was_forgotten_is_made_again(server: Server) -> None:
    await server.granted()
    await server._connection.execute("DELETE FROM rate_usage")

    assert await server.granted(wanted=9) == 5


async def test_only_so_many_limits_are_remembered(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_limits, "MAX_SEEN", 2)
    for limit in "abcb":
        await server.take(a_request(limit=limit))
    assert server.statements == 1
    await server.take(a_request(limit="a"))
    assert server.statements > 1
