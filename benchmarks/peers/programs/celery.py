"""Celery. Its own command runs the worker with `app`; run as a program, this is the driver.

A task with dependents has to store its result, so fan-outs use a separate task.
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
    """Record the start."""
    mark(number)


@app.task(name="item", ignore_result=False)
def item(number: int) -> None:
    """The same, with a stored result."""
    mark(number)


def enqueue(first: int, count: int) -> None:
    """Send one message per task."""
    for number in range(first, first + count):
        noop.delay(number)


def chain(first: int, count: int) -> None:
    """A chain: each task sends the next."""
    chain_of(*(noop.si(number) for number in range(first, first + count))).delay()


def fan_out(first: int, count: int) -> None:
    """A chord."""
    chord([item.si(number) for number in range(first, first + count)])(noop.si(first + count))


if __name__ == "__main__":
    answer_questions({"enqueue": enqueue, "chain": chain, "fan_out": fan_out})
