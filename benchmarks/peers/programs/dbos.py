"""DBOS. `install` creates its tables, `work NAME` is a worker of the queue; without arguments it is the driver.

The variant `queue` enqueues workflows for workers; `direct` starts them inside the driver.
"""

from __future__ import annotations

import sys
import threading

import psycopg
from dbos import DBOS, DBOSClient

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

_QUEUE = "noops"
_AT_A_TIME = 100
_POLL_INTERVAL_SECONDS = 0.05
_VERSION = "1"
_LEFT = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"


@DBOS.step()
def step(number: int) -> int:
    """Record the start."""
    mark(number)
    return number


@DBOS.workflow()
def noop(number: int) -> int:
    """A workflow of one step."""
    return int(step(number))


@DBOS.workflow()
def steps(first: int, count: int) -> None:
    """One step after another."""
    for number in range(first, first + count):
        step(number)


@DBOS.workflow()
def spread(first: int, count: int) -> None:
    """A workflow for each, and a step after all of them."""
    handles = [DBOS.start_workflow(noop, number) for number in range(first, first + count)]
    for handle in handles:
        handle.get_result()
    step(first + count)


def launch(executor: str) -> None:
    """Launch DBOS in this process."""
    DBOS(
        config={
            "name": "peers",
            "system_database_url": given.postgres(),
            "application_version": _VERSION,
            "executor_id": executor,
            "log_level": "WARNING",
            "enable_otlp": False,
        }
    )
    DBOS.launch()


def listen() -> None:
    """Register the queue, and process it."""
    DBOS.register_queue(_QUEUE, worker_concurrency=_AT_A_TIME, polling_interval_sec=_POLL_INTERVAL_SECONDS)


class QueueDriver:
    """Enqueues workflows for workers."""

    def __init__(self) -> None:
        self._client = DBOSClient(system_database_url=given.postgres())
        self._connection = psycopg.connect(given.postgres(), autocommit=True)

    def enqueue(self, first: int, count: int) -> None:
        """One workflow each."""
        options = {
            "queue_name": _QUEUE,
            "workflow_name": noop.__qualname__,
            "app_version": _VERSION,
            "application_name": "peers",
        }
        for number in range(first, first + count):
            self._client.enqueue(options, number)

    def left(self) -> int:
        """Workflows that have not ended."""
        row = self._connection.execute(_LEFT).fetchone()
        return int(row[0]) if row else 0


class DirectDriver:
    """Starts workflows here."""

    def run_many(self, first: int, count: int) -> None:
        """Start all, then wait for all."""
        handles = [DBOS.start_workflow(noop, number) for number in range(first, first + count)]
        for handle in handles:
            handle.get_result()

    def left(self) -> int:
        """Nothing: the client has waited for its workflows."""
        return 0

    def start(self, first: int, count: int) -> None:
        """Start workflows without waiting."""
        for number in range(first, first + count):
            DBOS.start_workflow(noop, number)

    def chain(self, first: int, count: int) -> None:
        """A workflow of this number of steps."""
        steps(first, count)

    def fan_out(self, first: int, count: int) -> None:
        """A workflow that starts others."""
        spread(first, count)


def drive() -> None:
    """Run the driver of the variant."""
    if given.VARIANT == "queue":
        queue = QueueDriver()
        answer_questions({"enqueue": queue.enqueue, "left": queue.left})
        return
    launch("driver")
    direct = DirectDriver()
    answer_questions(
        {
            "run_many": direct.run_many,
            "left": direct.left,
            "start": direct.start,
            "chain": direct.chain,
            "fan_out": direct.fan_out,
        }
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["install"]:
            launch("install")
            listen()
            DBOS.destroy()
        case ["work", name]:
            launch(name)
            listen()
            threading.Event().wait()
        case _:
            drive()
