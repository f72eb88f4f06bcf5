"""How a call to the store on SQLite is carried out: as one transaction, sent whole to the thread of its lane.

What the driver raises becomes what the port promises.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar

import msgspec

from mainspring.core.model.run import Run
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Broken, Rejected, StaleWrite, StoreDamaged, Unavailable
from mainspring.store.ports.store import OnWork
from mainspring.store.sql.lists import Listing
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.rows import micros

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
P = ParamSpec("P")
Lane = Literal["write", "read"]


class Runner(Protocol):
    """Carries out work that blocks; work of one lane never overlaps."""

    async def __call__(self, lane: Lane, work: Callable[[], T], /) -> T:
        """Do the work, and come back with what it returned or raised."""
        ...


async def inline(_lane: Lane, work: Callable[[], T]) -> T:
    """Do the work here and now."""
    return work()


class Threads:
    """Does the work of each lane on a thread of its own."""

    def __init__(self) -> None:
        self._lanes = {lane: ThreadPoolExecutor(1, f"sqlite-{lane}") for lane in ("write", "read")}

    async def __call__(self, lane: Lane, work: Callable[[], T], /) -> T:
        """Do the work on the thread of its lane."""
        return await asyncio.get_running_loop().run_in_executor(self._lanes[lane], work)

    def close(self) -> None:
        """Let the threads go. They have nothing left to do."""
        for lane in self._lanes.values():
            lane.shutdown()


class Calls:
    """Reads and writes as transactions of two connections."""

    def __init__(self, writer: sqlite3.Connection, reader: sqlite3.Connection, clock: Clock, run: Runner) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._run = run
        self._callbacks: list[OnWork] = []
        self._closed = False
        self._pid = os.getpid()
        self._path: str = writer.execute("PRAGMA database_list").fetchone()[2]

    def _now(self) -> int:
        now = micros(self._clock.wall())
        assert now is not None
        return now

    async def _write(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._check_usable()
        return await self._run("write", partial(self._transaction, "BEGIN IMMEDIATE", self._writer, work, args, kwargs))

    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._check_usable()
        # In memory there is one connection, and so one lane.
        lane: Lane = "write" if self._reader is self._writer else "read"
        return await self._run(lane, partial(self._transaction, "BEGIN", self._reader, work, args, kwargs))

    def _transaction(
        self,
        begin: str,
        db: sqlite3.Connection,
        work: Callable[..., T],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> T:
        with foreign_errors(self._path):
            db.execute(begin)
            try:
                result = work(db, *args, **kwargs)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return result

    async def _listed(self, struct: type[S], wanted: Listing) -> list[S]:
        return await self._read(lambda db: rows.BY_STRUCT[struct].structs(find(db, wanted.sql, wanted.parameters)))

    async def _listed_readable(self, struct: type[S], wanted: Listing) -> list[S]:
        def read(db: sqlite3.Connection) -> list[S]:
            return rows.BY_STRUCT[struct].readable_structs(find(db, wanted.sql, wanted.parameters))

        return await self._read(read)

    def _tell(self, shards: Mapping[str, Sequence[Run]]) -> None:
        """There is work in these shards, with the runs that are at hand."""
        for shard, runs in shards.items():
            for call in self._callbacks:
                call(shard, runs)

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise Broken("a SQLite store was used in a child of the process that opened it")
        if self._closed:
            raise Unavailable("the store is closed")


_DUPLICATE = {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_ROWID}


@contextmanager
def foreign_errors(path: str) -> Iterator[None]:
    """Turn what the driver raises of the database at `path` into what the port promises."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode in _DUPLICATE:
            raise StaleWrite(f"a row that should be new is there already: {error}") from error
        raise Rejected(f"SQLite refuses the content: {error}") from error
    except (UnicodeEncodeError, OverflowError, sqlite3.DataError, sqlite3.InterfaceError) as error:
        raise Rejected(f"SQLite refuses the content: {error}") from error
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        # A full disk, a failing one, a connection that was closed.
        raise Unavailable(f"SQLite can't now: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"the database at {path} is damaged: {error}") from error
