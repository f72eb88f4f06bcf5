"""Dagster: jobs that the driver executes in its own process, with an instance that keeps everything in PostgreSQL.

Dagster reads the annotations of ops when they are defined, so they are not deferred here.
"""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from dagster import DagsterInstance, DynamicOut, DynamicOutput, JobDefinition, OpExecutionContext, job, op

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

_STEPS = 10
_QUIET = {"console": {"config": {"log_level": "ERROR"}}}
_INSTANCE = """\
telemetry:
  enabled: false
storage:
  postgres:
    postgres_url: "{url}"
"""


@op(config_schema={"first": int})
def begin(context: OpExecutionContext) -> int:
    """The first step."""
    mark(context.op_config["first"])
    return int(context.op_config["first"])


@op
def step(_context: OpExecutionContext, before: int) -> int:
    """A step after another."""
    mark(before + 1)
    return before + 1


@op(config_schema={"first": int, "count": int}, out=DynamicOut(int))
def numbers(context: OpExecutionContext) -> Iterator[DynamicOutput[int]]:
    """The list."""
    first = context.op_config["first"]
    for number in range(first, first + context.op_config["count"]):
        yield DynamicOutput(number, mapping_key=f"n{number}")


@op
def noop(_context: OpExecutionContext, number: int) -> int:
    """Record the start."""
    mark(number)
    return number


@op
def last(_context: OpExecutionContext, before: list[int]) -> None:
    """The same, with dependencies."""
    mark(max(before) + 1)


@job
def one() -> None:
    """A job of one op."""
    begin()


@job
def steps() -> None:
    """One op after another."""
    reached = begin()
    for _ in range(_STEPS - 1):
        reached = step(reached)


@job
def many() -> None:
    """Parallel ops."""
    numbers().map(noop)


@job
def spread() -> None:
    """Parallel ops, and one after them."""
    last(numbers().map(noop).collect())


class Driver:
    """Executes jobs here."""

    def __init__(self) -> None:
        home = given.folder() / "dagster"
        home.mkdir()
        Path(home / "dagster.yaml").write_text(_INSTANCE.format(url=given.postgres_for("psycopg2")))
        os.environ["DAGSTER_HOME"] = str(home)
        self._instance = DagsterInstance.from_config(str(home))

    def run_many(self, first: int, count: int) -> None:
        """Parallel ops."""
        self._execute(many, "numbers", {"first": first, "count": count})

    def left(self) -> int:
        """Nothing: the client has waited for its job."""
        return 0

    def start(self, first: int, count: int) -> None:
        """Jobs of one op."""
        for number in range(first, first + count):
            self._execute(one, "begin", {"first": number})

    def chain(self, first: int, count: int) -> None:
        """A job of ten steps."""
        assert count == _STEPS, count
        self._execute(steps, "begin", {"first": first})

    def fan_out(self, first: int, count: int) -> None:
        """Parallel ops, and one after them."""
        self._execute(spread, "numbers", {"first": first, "count": count})

    def _execute(self, what: JobDefinition, first_op: str, config: Mapping[str, int]) -> None:
        settings = {"ops": {first_op: {"config": config}}, "loggers": _QUIET}
        assert what.execute_in_process(instance=self._instance, run_config=settings).success


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in ("dagster", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    driver = Driver()
    answer_questions(
        {
            "run_many": driver.run_many,
            "left": driver.left,
            "start": driver.start,
            "chain": driver.chain,
            "fan_out": driver.fan_out,
        }
    )
