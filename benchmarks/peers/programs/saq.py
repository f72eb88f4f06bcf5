"""SAQ, on Redis or PostgreSQL. Its own command is the worker and finds `settings`; as a program it is the driver."""

from __future__ import annotations

import asyncio

from saq import Queue

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

queue = Queue.from_url(given.redis() if given.VARIANT == "redis" else given.postgres())
_UNKEPT = -1


async def noop(_context: object, *, number: int) -> None:
    """Record the start."""
    mark(number)


settings = {"queue": queue, "functions": [noop], "concurrency": 20}


class Driver:
    """Enqueues."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.run_until_complete(queue.connect())

    def enqueue(self, first: int, count: int) -> None:
        """One job each."""
        self._loop.run_until_complete(self._singly(range(first, first + count)))

    def left(self) -> int:
        """Jobs that wait or run."""
        return int(self._loop.run_until_complete(queue.count("incomplete")))

    async def _singly(self, numbers: range) -> None:
        for number in numbers:
            await queue.enqueue("noop", number=number, ttl=_UNKEPT)


if __name__ == "__main__":
    event_loop = asyncio.new_event_loop()
    asyncio.set_event_loop(event_loop)
    driver = Driver(event_loop)
    answer_questions({"enqueue": driver.enqueue, "left": driver.left})
