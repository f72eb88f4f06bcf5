"""Huey: its driver."""

from __future__ import annotations

from huey.api import group

from benchmarks.peers.programs.answering import answer_questions
from benchmarks.peers.programs.huey import huey, last, noop


def enqueue(first: int, count: int) -> None:
    """Send one message per task."""
    for number in range(first, first + count):
        noop(number)


def chain(first: int, count: int) -> None:
    """A pipeline."""
    pipeline = noop.s(first)
    for number in range(first + 1, first + count):
        pipeline = pipeline.then(noop, number)
    huey.enqueue(pipeline)


def fan_out(first: int, count: int) -> None:
    """A group, and a task after it."""
    huey.enqueue(group([noop.s(number) for number in range(first, first + count)]).then(last, first + count))


if __name__ == "__main__":
    answer_questions({"enqueue": enqueue, "chain": chain, "fan_out": fan_out})
