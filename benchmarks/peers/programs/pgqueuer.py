"""pgqueuer. `install` creates its tables, `work` is a worker; without arguments it is the driver."""

from __future__ import annotations

import asyncio
import sys

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

_AT_ONCE = 1_000
_TAKEN_AT_ONCE = 100


async def work() -> None:
    """A worker. It is run from here because its own command takes no size of a batch in some versions."""
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(given.postgres())))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        mark(int(job.payload or b"0"))

    await queuer.run(batch_size=_TAKEN_AT_ONCE)


async def install() -> None:
    """Create its tables."""
    connection = await asyncpg.connect(given.postgres())
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


class Driver:
    """Enqueues."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connection = loop.run_until_complete(asyncpg.connect(given.postgres()))
        self._queries = Queries(AsyncpgDriver(self._connection))

    def enqueue(self, first: int, count: int) -> None:
        """One insert each."""
        self._loop.run_until_complete(self._singly(range(first, first + count)))

    def enqueue_many(self, first: int, count: int) -> None:
        """A thousand per insert."""
        self._loop.run_until_complete(self._together(range(first, first + count)))

    def left(self) -> int:
        """Tasks in its queue: completed ones are moved to its log."""
        return int(self._loop.run_until_complete(self._connection.fetchval("SELECT count(*) FROM pgqueuer")))

    async def _singly(self, numbers: range) -> None:
        for number in numbers:
            await self._queries.enqueue("noop", str(number).encode())

    async def _together(self, numbers: range) -> None:
        for begin in range(0, len(numbers), _AT_ONCE):
            some = numbers[begin : begin + _AT_ONCE]
            await self._queries.enqueue(
                ["noop"] * len(some), [str(number).encode() for number in some], [0] * len(some)
            )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["install"]:
            asyncio.run(install())
        case ["work"]:
            uvloop.run(work())
        case _:
            driver = Driver(asyncio.new_event_loop())
            answer_questions({"enqueue": driver.enqueue, "enqueue_many": driver.enqueue_many, "left": driver.left})
