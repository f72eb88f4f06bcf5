"""Airflow's DAGs. This file is copied to its folder of DAGs."""

from __future__ import annotations

from airflow.sdk import dag, get_current_context, task

from benchmarks.peers.marks import mark

_STEPS = 10


def _conf(name: str) -> int:
    """Parameters of the run."""
    return int(get_current_context()["dag_run"].conf[name])


@task
def noop(offset: int) -> None:
    """Record the start."""
    mark(_conf("first") + offset)


@task
def numbers() -> list[int]:
    """The list."""
    return list(range(_conf("count")))


@task
def last() -> None:
    """Record the start, after other tasks."""
    mark(_conf("first") + _conf("count"))


@dag(schedule=None)
def one() -> None:
    """A DAG of one task."""
    noop(0)


@dag(schedule=None)
def steps() -> None:
    """One task after another."""
    before = None
    for number in range(_STEPS):
        now = noop.override(task_id=f"step_{number}")(number)
        if before is not None:
            before >> now
        before = now


@dag(schedule=None)
def spread() -> None:
    """Parallel tasks, and one after them."""
    noop.expand(offset=numbers()) >> last()


one()
steps()
spread()
