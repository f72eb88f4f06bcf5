"""How a call to the store on PostgreSQL is carried out: on one of a few connections, within a deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from mainspring.protocol.clock import Clock
from mainspring.protocol.ids import entropy
from mainspring.store.postgres import rows
from mainspring.store.postgres.connection.connection_pool import Connection, Limits, Pool, open_connection
from mainspring.store.postgres.connection.wakeups import CHANNEL, Wakeups
from mainspring.store.postgres.limits import Allowances
from mainspring.store.sql.lists import Listing

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
P = ParamSpec("P")


class PostgresCalls:
    """The connections that all calls share, and the way to tell others of work."""

    def __init__(self, url: str, *, clock: Clock, limits: Limits, connections: int) -> None:
        self._url = url
        self._limits = limits
        self._pool = Pool(partial(open_connection, url, limits), connections, limits.deadline)
        self._by_key = Pool(partial(open_connection, url, limits, by_key=True), connections, limits.deadline)
        self._maintenance = Pool(partial(open_connection, url, limits, maintenance=True), 2, limits.long_deadline)
        self._allowances = Allowances(clock)
        self._wakeups = Wakeups(
            sender=f"{entropy():016x}",
            clock=clock,
            send=self._notify,
            open_listener=partial(open_connection, url, limits),
        )

    async def _notify(self, payload: str) -> None:
        async with self._pool.connection() as connection:
            await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)

    async def _call(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        async with self._pool.connection() as connection:
            return await work(connection, *args, **kwargs)

    async def _call_by_key(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same for what only looks up rows by their keys, and somebody waits for: its plans are made once."""
        async with self._by_key.connection() as connection:
            return await work(connection, *args, **kwargs)

    async def _call_maintenance(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        async with self._maintenance.connection() as connection:
            return await work(connection, *args, **kwargs)

    async def _listed(self, struct: type[S], wanted: Listing) -> list[S]:
        found = await self._call(Connection.fetch, wanted.sql, *wanted.parameters)
        return rows.BY_STRUCT[struct].structs(found)

    async def _listed_readable(self, struct: type[S], wanted: Listing) -> list[S]:
        found = await self._call(Connection.fetch, wanted.sql, *wanted.parameters)
        return rows.BY_STRUCT[struct].readable_structs(found)
