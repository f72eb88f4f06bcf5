"""taskiq, on a list of Redis or on a stream. Its own command is the worker; run as a program, this is the driver."""

from __future__ import annotations

import asyncio

from taskiq_redis import ListQueueBroker, RedisStreamBroker

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

broker = ListQueueBroker(given.redis()) if given.VARIANT == "list" else RedisStreamBroker(given.redis())


@broker.task(task_name="noop")
async def noop(number: int) -> None:
    """Record the start."""
    mark(number)


class Driver:
    """Sends tasks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.run_until_complete(broker.startup())

    def enqueue(self, first: int, count: int) -> None:
        """Send one message per task."""
        self._loop.run_until_complete(self._send(range(first, first + count)))

    async def _send(self, numbers: range) -> None:
        for number in numbers:
            await noop.kiq(number)


if __name__ == "__main__":
    answer_questions({"enqueue": Driver(asyncio.new_event_loop()).enqueue})
