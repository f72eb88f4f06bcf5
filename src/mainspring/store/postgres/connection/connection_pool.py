"""Connections to PostgreSQL: how they are set up, how long anything may take, what becomes of errors.

Time limits, from the inside out, all shorter than a lease (I-25), because a leader that is stuck in a transaction
holds
the row lock that its successor waits for:

    lock_timeout                          1 s   waiting for a lock
    idle_in_transaction_session_timeout   2 s   we fell asleep inside a transaction
    statement_timeout                     3 s   a statement that does not end
    deadline                              4 s   ours, around every call: the network swallowed something

When the deadline passes or anything else is unclear, the connection is thrown away, never used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import asyncpg
import msgspec
from asyncpg.connect_utils import SessionAttribute

from mainspring.protocol.errors import Broken, MainspringError, Rejected, StaleWrite, StoreUnusable, Unavailable

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

OLDEST_SERVER = 14


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take, in seconds."""

    lock: float = 1.0
    idle_in_transaction: float = 2.0
    statement: float = 3.0
    deadline: float = 4.0
    long_deadline: float = 60.0
    """For what nobody waits for with a lease in hand: loading a shard, migrations, sweeps."""

    def check(self, lease: timedelta) -> None:
        """Raises StoreUnusable unless they are ordered, and all of them are over before a lease is."""
        limits = [self.lock, self.idle_in_transaction, self.statement, self.deadline, lease.total_seconds()]
        if limits != sorted(set(limits)):
            raise StoreUnusable(
                "time rate_usage must grow: lock, idle in transaction, statement, deadline, lease; they are "
                + ", ".join(f"{limit:g} s" for limit in limits),
                reason="time_limits",
            )


# A plan that was made while a table was small must still be good when it is large. For those who only look up rows by
# their keys, statements are planned once, and every other way is closed; a bitmap scan is the one kind of scan that
# needs a condition on an index. For all others a plan is made each time: 0.3 ms, against minutes. Those who answer at
# once look things up and never read a table from end to end; those who may take their time do as the planner thinks.
_BY_KEY = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_READER = {"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "enable_bitmapscan": "off"}
_MAINTENANCE = {"plan_cache_mode": "force_custom_plan"}


async def open_connection(
    url: str, limits: Limits, *, writer: bool = False, by_key: bool = False, maintenance: bool = False
) -> Connection:
    """Connect. A `maintenance` connection may take as long as it needs, but never waits long for locks.

    One for a `writer` of batches, or for what finds its rows `by_key`, plans each statement once.
    """
    statement = limits.long_deadline if maintenance else limits.statement
    settings = {
        "application_name": "mainspring writer" if writer else "mainspring",
        "jit": "off",
        "default_transaction_isolation": "read committed",
        "lock_timeout": _milliseconds(limits.lock),
        "idle_in_transaction_session_timeout": _milliseconds(limits.idle_in_transaction),
        "statement_timeout": _milliseconds(statement),
        **(_BY_KEY if writer or by_key else _MAINTENANCE if maintenance else _READER),
    }
    connection = await asyncpg.connect(
        url, timeout=limits.deadline, command_timeout=limits.long_deadline if maintenance else limits.deadline,
        server_settings=settings, max_cached_statement_lifetime=0, target_session_attrs=SessionAttribute.read_write,
    )  # fmt: skip
    if writer:
        await connection.set_type_codec(
            "timestamptz", schema="pg_catalog", format="tuple", encoder=_since_2000, decoder=_from_2000
        )
    return connection


_YEAR_2000 = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=4096)  # most instants of a batch are the same one: 0.1 µs instead of the driver's 0.9
def _since_2000(instant: datetime) -> tuple[int]:
    return ((instant - _YEAR_2000) // _MICROSECOND,)


def _from_2000(parts: tuple[int]) -> datetime:
    return _YEAR_2000 + timedelta(microseconds=parts[0])


async def settings_of(connection: Connection, names: list[str]) -> Mapping[str, str]:
    """Settings as the server sees them in this session."""
    found = await connection.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])", names)
    return {row["name"]: row["setting"] for row in found}


class Pool:
    """Some connections, opened when needed, each used by one call at a time."""

    def __init__(self, open_one: Callable[[], Awaitable[Connection]], size: int, deadline: float) -> None:
        self._open_one = open_one
        self._deadline = deadline
        self._free = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False

    @asynccontextmanager
    async def connection(self, deadline: float | None = None) -> AsyncIterator[Connection]:
        """A connection for one call, which must be over before the deadline. Raises only what the port promises."""
        with foreign_errors():
            async with asyncio.timeout(deadline or self._deadline), self._free:
                if self._closed:
                    raise Unavailable("the store is closed")
                connection = self._idle.pop() if self._idle else await self._open_one()
                try:
                    yield connection
                except BaseException as error:
                    if not _leaves_connection_usable(error):
                        # What ended this one has most likely ended the others as well.
                        for lost in [connection, *self._idle]:
                            lost.terminate()
                        self._idle.clear()
                    raise
                finally:
                    self._take_back(connection)

    def _take_back(self, connection: Connection) -> None:
        if connection.is_closed():
            return
        if self._closed or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._closed = True
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=self._deadline)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()  # it was to go anyway, and the server notices that it has gone


@asynccontextmanager
async def transaction(connection: Connection, begin: str = "BEGIN") -> AsyncIterator[None]:
    """All of it or nothing. If it is refused, the connection can be used again; if it is lost, it can't."""
    await connection.execute(begin)
    try:
        yield
        await connection.execute("COMMIT")
    except (MainspringError, asyncpg.PostgresError, ValueError, OverflowError):
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK")
        raise


_LAST_WORDS = ("08", "57P", "25P03", "25006", "0A000")
"""What the server says before it hangs up, or when we should: it is a standby now, a statement no longer fits."""


def _leaves_connection_usable(error: BaseException) -> bool:
    """Whether the server has answered, or was not even asked. After anything else its state is not known."""
    if isinstance(error, asyncpg.PostgresError):
        return not (error.sqlstate or "").startswith(_LAST_WORDS)
    return isinstance(error, MainspringError | ValueError | OverflowError)


@contextmanager
def foreign_errors() -> Iterator[None]:
    """Turn what the driver raises into what the port promises."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _translated(error) from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise Rejected(f"PostgreSQL refuses the content: {error}") from error
    except asyncpg.InterfaceError as error:
        if isinstance(error, ValueError):  # a value that its column can't hold
            raise Rejected(f"PostgreSQL refuses the content: {error}") from error
        raise Unavailable(f"the connection to PostgreSQL is gone: {error}") from error
    except (OSError, TimeoutError, EOFError, asyncpg.InternalClientError) as error:
        raise Unavailable(f"PostgreSQL can't be reached, or not in time: {error!r}") from error


def _translated(error: asyncpg.PostgresError) -> MainspringError:
    """By SQLSTATE (PostgreSQL's appendix A), first whole codes, then classes."""
    code = error.sqlstate or "XX000"
    match code, code[:2]:
        case "23505", _:
            return StaleWrite(f"a row that should be new is there already: {error}")
        case "42501", _:
            return StoreUnusable(f"a privilege is missing: {error}")
        case _, "22" | "23" | "54":  # data, constraints, too large for an index
            return Rejected(f"PostgreSQL refuses the content: {error}")
        case _, "0A" | "42" | "XX" | "21":  # a statement that does not fit the schema, a damaged page
            if isinstance(error, asyncpg.InvalidCachedStatementError):
                return Unavailable(f"the schema has changed meanwhile: {error}")
            return Broken(f"PostgreSQL finds a fault of ours, or is damaged itself: {error}")
        case _:  # connections, resources, locks, deadlocks, shutdown, standby
            return Unavailable(f"PostgreSQL can't now: {error}")


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
