"""`@task`: a function that a worker can serve by name.

    @task
    def fetch(city: str) -> dict[str, float]: ...

    @task(name="send-report", retries=2, timeout="10m", memory="512Mi")
    async def report(rows: list[dict[str, float]]) -> str: ...

A decorated function is called as before, and `fetch.fn` is the function itself. `ms worker --handlers FILE` serves all
tasks of a file, and a job names one as `{"handler": "fetch"}`; `fetch.as_task(city="Oslo")` is that and all that the
decorator says of retries, time and room, as a job's list of tasks takes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, ParamSpec, TypeVar, overload

from mainspring.errors import Refused
from mainspring.sdk.context import TASK_ATTRIBUTE
from mainspring.sdk.quantities import bytes_of, millis_of, seconds_of

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Task(Generic[P, R]):
    """A function with a name, and what it needs."""

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        retries: int | None = None,
        timeout: str | float | None = None,
        cpu: str | float | None = None,
        memory: str | int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.__name__ = fn.__name__
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = name if name is not None else fn.__name__
        if not _NAME.fullmatch(self.name):
            raise Refused(f"{self.name[:40]!r}: a task's name is 1 to 100 letters, digits, dots, hyphens, underscores")
        self.retries = retries
        self.timeout_seconds = seconds_of(timeout) if timeout is not None else None
        self.cpu_millis = millis_of(cpu) if cpu is not None else None
        self.memory_bytes = bytes_of(memory) if memory is not None else None
        self.labels = dict(labels or {})
        setattr(self, TASK_ATTRIBUTE, self.name)

    def as_task(
        self, *, name: str | None = None, needs: Sequence[str] = (), for_each: str | None = None, **args: object
    ) -> dict[str, object]:
        """The task as a job's definition has it: what to call, with which arguments, and what it needs.

        With `for_each`, an expression that gives a list, there is a task for each item: `city="{{ item.city }}"`.
        """
        work: dict[str, object] = {"handler": self.name}
        if args:
            work["args"] = args
        resources = {"cpu_millis": self.cpu_millis, "memory_bytes": self.memory_bytes}
        optional: dict[str, object] = {
            "labels": self.labels,
            "needs": [{"task": upstream} for upstream in needs],
            "for_each": for_each,
            "max_attempts": self.retries + 1 if self.retries is not None else None,
            "timeout_seconds": self.timeout_seconds,
            "resources": {field: amount for field, amount in resources.items() if amount is not None},
        }
        said = {field: value for field, value in optional.items() if value not in (None, [], {})}
        return {"name": name or self.name, "work": work, **said}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"


@overload
def task(fn: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(
    *,
    name: str | None = None,
    retries: int | None = None,
    timeout: str | float | None = None,
    cpu: str | float | None = None,
    memory: str | int | None = None,
    labels: Mapping[str, str] | None = None,
) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(
    fn: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    retries: int | None = None,
    timeout: str | float | None = None,
    cpu: str | float | None = None,
    memory: str | int | None = None,
    labels: Mapping[str, str] | None = None,
) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
    """Make a task of a function: `@task`, or `@task(name=.., timeout="10m", ..)`."""

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        return Task(function, name=name, retries=retries, timeout=timeout, cpu=cpu, memory=memory, labels=labels)

    return decorate if fn is None else decorate(fn)
