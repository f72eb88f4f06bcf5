"""Dramatiq. Its own command is the worker and imports this; run as a program, this is the driver."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

broker = RedisBroker(url=given.redis())
broker.add_middleware(GroupCallbacks(RedisBackend(url=given.redis())))
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop")
def noop(number: int) -> None:
    """Record the start."""
    mark(number)


def enqueue(first: int, count: int) -> None:
    """Send one message per task."""
    for number in range(first, first + count):
        noop.send(number)


def chain(first: int, count: int) -> None:
    """A pipeline: each message sends the next."""
    messages = [noop.message_with_options(args=(number,), pipe_ignore=True) for number in range(first, first + count)]
    dramatiq.pipeline(messages).run()


def fan_out(first: int, count: int) -> None:
    """A group with a callback."""
    group = dramatiq.group([noop.message(number) for number in range(first, first + count)])
    group.add_completion_callback(noop.message(first + count))
    group.run()


if __name__ == "__main__":
    answer_questions({"enqueue": enqueue, "chain": chain, "fan_out": fan_out})
