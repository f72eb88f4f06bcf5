"""Celery. Its own command is the worker and finds `app` here; run as a program it is the driver.

A task that others wait for has to keep its result, so fan-outs have one of their own.
"""

from __future__ import annotations

from celery import Celery, chord
from celery import chain as chain_of

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

app = Celery("peers", broker=given.redis(), backend=given.redis())
app.conf.update(
    worker_prefetch_multiplier=128,
    task_acks_late=given.VARIANT == "late",
    result_expires=600,
    broker_connection_retry_on_startup=True,
    imports=["benchmarks.peers.programs.celery"],
)


@app.task(name="noop", ignore_result=True)
def noop(number: int) -> None:
    """Says that it has begun."""
    mark(number)


@app.task(name="item", ignore_result=False)
def item(number: int) -> None:
    """The same, and somebody waits for it."""
    mark(number)


def enqueue(first: int, count: int) -> None:
    """One message each."""
    for number in range(first, first + count):
        noop.delay(number)


def chain(first: int, count: int) -> None:
    """Tasks of which each is sent by the one before it."""
    chain_of(*(noop.si(number) for number in range(first, first + count))).delay()


def fan_out(first: int, count: int) -> None:
    """A chord."""
    chord([item.si(number) for number in range(first, first + count)])(noop.si(first + count))


if __name__ == "__main__":
    answer_questions({"enqueue": enqueue, "chain": chain, "fan_out": fan_out})
