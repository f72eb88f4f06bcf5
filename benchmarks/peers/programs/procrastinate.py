"""Procrastinate. Its own command is the worker and finds `app` here; run as a program, this is the driver."""

from __future__ import annotations

import asyncio

from procrastinate import App, PsycopgConnector

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

_AT_ONCE = 1_000
_LEFT = "SELECT count(*) AS count FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"

app = App(connector=PsycopgConnector(conninfo=given.postgres(), min_size=4, max_size=20))


@app.task(name="noop")
async def noop(number: int) -> None:
    """Record the start."""
    mark(number)


class Driver:
    """Defers jobs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.run_until_complete(app.open_async())

    def enqueue(self, first: int, count: int) -> None:
        """One call each."""
        self._loop.run_until_complete(self._singly(range(first, first + count)))

    def enqueue_many(self, first: int, count: int) -> None:
        """A thousand per call."""
        self._loop.run_until_complete(self._together(range(first, first + count)))

    def left(self) -> int:
        """Unfinished jobs."""
        row = self._loop.run_until_complete(app.connector.execute_query_one_async(_LEFT))
        return int(row["count"])

    async def _singly(self, numbers: range) -> None:
        for number in numbers:
            await noop.defer_async(number=number)

    async def _together(self, numbers: range) -> None:
        for begin in range(0, len(numbers), _AT_ONCE):
            await noop.batch_defer_async(*({"number": number} for number in numbers[begin : begin + _AT_ONCE]))


if __name__ == "__main__":
    driver = Driver(asyncio.new_event_loop())
    answer_questions({"enqueue": driver.enqueue, "enqueue_many": driver.enqueue_many, "left": driver.left})
