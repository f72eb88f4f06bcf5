"""Short words for definitions of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainspring.core.model.job import Edge, JobSpec, TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import FailurePolicy

GIB = 1024**3
ONE_CORE = Resources(cpu_millis=1000, memory_bytes=GIB)


def cores(n: float) -> Resources:
    """This number of cores, with a GiB of memory for each."""
    return Resources(cpu_millis=int(n * 1000), memory_bytes=int(n * GIB))


def task(
    name: str, *needs: str, when: dict[str, str] | None = None, only_if: str | None = None, **fields: Any
) -> TaskSpec:
    """A task with dependencies, edge conditions by upstream, or a condition of its own; one core by default."""
    edges = tuple(Edge(upstream, (when or {}).get(upstream)) for upstream in needs)
    fields.setdefault("resources", ONE_CORE)
    return TaskSpec(name=name, needs=edges, when=only_if, **fields)


def short(name: str, *needs: str, **fields: Any) -> TaskSpec:
    """A task that usually takes 10 ms, so that ten of them may share one lease."""
    fields.setdefault("expected_seconds", 0.01)
    return task(name, *needs, **fields)


def job(*tasks: TaskSpec, on_failure: FailurePolicy = FailurePolicy.FAIL_FAST, **fields: Any) -> JobSpec:
    """A job of these tasks."""
    return JobSpec(name="job", tasks=tasks, on_failure=on_failure, **fields)


def chain(*names: str, on_failure: FailurePolicy = FailurePolicy.FAIL_FAST, **fields: Any) -> JobSpec:
    """A job whose tasks follow one another."""
    before: Iterable[tuple[str, ...]] = [(), *((name,) for name in names[:-1])]
    tasks = (task(name, *needs, **fields) for name, needs in zip(names, before, strict=True))
    return job(*tasks, on_failure=on_failure)


def wide(n: int, on_failure: FailurePolicy = FailurePolicy.FAIL_FAST, **fields: Any) -> JobSpec:
    """A job of n tasks `t0`, `t1`, .. that don't depend on one another."""
    return job(*(task(f"t{number}", **fields) for number in range(n)), on_failure=on_failure)


def fan(n: int, on_failure: FailurePolicy = FailurePolicy.FAIL_FAST, **fields: Any) -> JobSpec:
    """A job that opens from `first` to n tasks `t0`, `t1`, .. and closes in `last`."""
    middle = [task(f"t{number}", "first", **fields) for number in range(n)]
    return job(
        task("first", **fields), *middle, task("last", *(one.name for one in middle), **fields), on_failure=on_failure
    )
