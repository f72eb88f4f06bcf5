"""Prefect. `server` is its server, `serve` serves a deployment; without any it is the driver, in which flows run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from prefect import flow, task
from prefect.deployments import run_deployment
from prefect.task_runners import ThreadPoolTaskRunner

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

_THREADS = 10


@task
def noop(number: int) -> int:
    """Record the start."""
    mark(number)
    return number


@task
def last(number: int, _before: list[int]) -> None:
    """The same, with dependencies."""
    mark(number)


@flow(task_runner=ThreadPoolTaskRunner(max_workers=_THREADS))
def many(first: int, count: int) -> None:
    """Parallel tasks."""
    for future in [noop.submit(number) for number in range(first, first + count)]:
        future.result()


@flow
def steps(first: int, count: int) -> None:
    """One task after another, called directly, which is faster than submitting them."""
    for number in range(first, first + count):
        noop(number)


@flow(task_runner=ThreadPoolTaskRunner(max_workers=_THREADS))
def spread(first: int, count: int) -> None:
    """Parallel tasks, and one after them."""
    last.submit(first + count, [noop.submit(number) for number in range(first, first + count)]).result()


@flow
def served(number: int) -> None:
    """The flow of the deployment."""
    mark(number)


def start(first: int, count: int) -> None:
    """Request runs of the deployment."""
    for number in range(first, first + count):
        run_deployment("served/peers", parameters={"number": number}, timeout=0)


def become_server() -> None:
    """Replace this process by its server."""
    os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = given.postgres_for("asyncpg")
    program = str(Path(sys.executable).with_name("prefect"))
    where = ["--host", "127.0.0.1", "--port", str(given.port())]
    os.execv(program, [program, "server", "start", *where, "--no-ui"])  # noqa: S606 - a program of its environment


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server"]:
            become_server()
        case ["serve"]:
            served.serve(name="peers", limit=10)
        case _:
            answer_questions({"run_many": many, "start": start, "chain": steps, "fan_out": spread})
