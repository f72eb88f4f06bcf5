"""`@task`: a function that a worker can serve by name.

    @task
    def fetch(city: str) -> dict[str, float]: ...

    @task(name="send-report", retries=2, timeout="10m", memory="512Mi")
    async def report(rows: list[dict[str, float]]) -> str: ...

A decorated function is still callable, and `fetch.fn` is the function itself. In the body of a `@job`, a call adds a
task to the job and returns a deferred value for its output (`dsl/deferred.py`):

    rows = fetch.map(cities)                              one task per city
    check.after(rows).named("final-check")()              with a dependency and a name
    alarm.if_(check.bad > 0)(check.bad)                   with a condition; skipped if it is false

`mainspring worker --handlers FILE` serves all tasks of a file, and a job refers to one by `{"handler": "fetch"}`.
`fetch.as_task(city="Oslo")` returns a complete task definition, with the decorator's retries, timeouts and resources.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload

import msgspec

from mainspring.core.graph.references import Path
from mainspring.core.model.job import DEFAULT_RESOURCES
from mainspring.core.text.durations import parse_seconds
from mainspring.core.text.quantities import parse_bytes, parse_millis
from mainspring.dsl.deferred import Deferred, condition_of
from mainspring.dsl.graph_builder import CallOptions, Recorder, name_of, recorder
from mainspring.dsl.retry import Retry
from mainspring.protocol.errors import Refused
from mainspring.task_context.task_context import TASK_ATTRIBUTE, asks_for_context

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_RESOURCES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "cpu": ("cpu_millis", parse_millis),
    "memory": ("memory_bytes", parse_bytes),
    "gpus": ("gpus", lambda count: count),
    "disk": ("disk_bytes", parse_bytes),
}
"""Options for resources, with their fields and parsers."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)


class TaskOptions(TypedDict, total=False):
    """Options of a task."""

    name: str
    """Handler name (default: the function's name)."""
    retries: int | Retry
    timeout: str | float
    """Time limit of an attempt."""
    soft_timeout: str | float
    """Alert after this time; the attempt continues."""
    stall: str | float
    """Time limit without progress."""
    expected: str | float
    """Expected duration."""
    cpu: str | float
    memory: str | int
    gpus: int
    disk: str | int
    labels: Mapping[str, str]
    """Required worker labels."""
    zone: str
    prefer: Mapping[str, str]
    """Preferred worker labels."""
    prefer_zone: str
    affinity: Sequence[str]
    """Affinity: run on the same worker as these tasks of the job, once they have started."""
    anti_affinity: Sequence[str]
    """Anti-affinity: never run on the same worker at the same time as these tasks; its own name spreads a fan-out."""
    groups: Sequence[str]
    """Concurrency groups that it belongs to."""
    fetch: Sequence[str]
    """Artifacts of upstream tasks to fetch into `context.inputs`: `extract`, `extract/*.csv`."""


class _Callable(Generic[P, R]):
    """Base of a task and of a task with call options: can be called, mapped and configured."""

    _task: Task[P, R]
    _call_options: CallOptions

    @overload
    def __call__(self: _Callable[P, Coroutine[Any, Any, Any]], *args: P.args, **kwargs: P.kwargs) -> Any: ...

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Add a task in the body of a job, and return its deferred output. Elsewhere, call the function.

        An async task returns a coroutine in one case and an output in the other, which has no common type.
        """
        recording = recorder()
        if recording is None:
            return self._task.fn(*args, **kwargs)
        return self._task.record(recording, self._call_options, args, kwargs)

    @overload
    def map(self: _Callable[P, Coroutine[Any, Any, Any]], items: Iterable[Any], /, **constants: Any) -> list[Any]: ...

    @overload
    def map(self, items: Iterable[Any], /, **constants: Any) -> list[R]: ...

    def map(self, items: Iterable[Any], /, **constants: Any) -> Any:
        """Create a task per item, which becomes the first argument; the constants are the same for all.

        Return the deferred list of all outputs, in item order.
        """
        recording = recorder()
        if recording is None:
            return [self._task.fn(item, **constants) for item in items]
        return self._task.record_map(recording, self._call_options, items, constants)

    def named(self, name: str) -> ConfiguredTask[P, R]:
        """Set the name in the job."""
        return self._with(name=name)

    def labeled(self, template: str) -> ConfiguredTask[P, R]:
        """Set the display label of each task of a `map`, such as `{{ item.city }}` (default: the item)."""
        return self._with(label=template)

    def if_(self, condition: object) -> ConfiguredTask[P, R]:
        """Run only if the condition is true; otherwise skip it, and the tasks that depend on it."""
        return self._with(conditions=(*self._call_options.conditions, condition_of(condition)))

    def after(self, *outputs: object) -> ConfiguredTask[P, R]:
        """Run after the tasks that have these outputs."""
        return self._with(after=(*self._call_options.after, *map(name_of, outputs)))

    def even_if_skipped(self) -> ConfiguredTask[P, R]:
        """Run even if an upstream task was skipped; its output is None."""
        return self._with(even_if_skipped=True)

    def _with(self, **changes: object) -> ConfiguredTask[P, R]:
        return ConfiguredTask(self._task, msgspec.structs.replace(self._call_options, **changes))


class ConfiguredTask(_Callable[P, R]):
    """A task with options for one call."""

    def __init__(self, task: Task[P, R], call_options: CallOptions) -> None:
        self._task = task
        self._call_options = call_options


class Task(_Callable[P, R]):
    """A function that workers serve, with its requirements."""

    def __init__(self, fn: Callable[P, R], **options: Unpack[TaskOptions]) -> None:
        self.__name__ = fn.__name__
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = options.get("name") or fn.__name__
        if not _NAME.fullmatch(self.name):
            raise Refused(
                f"{self.name[:40]!r}: a task's name must have 1 to 100 letters, digits, dots, hyphens or underscores"
            )
        try:
            self.fields = _fields(options)
            """Fields of the definition besides name and work."""
            self.work: dict[str, object] = {"handler": self.name}
            if fetch := options.get("fetch"):
                self.work["fetch"] = _names("fetch", fetch)
        except ValueError as error:
            raise Refused(f"@task {self.name}: {error}") from None
        self._task, self._call_options = self, CallOptions()
        setattr(self, TASK_ATTRIBUTE, self.name)

    def as_task(
        self, *, name: str | None = None, needs: Sequence[str] = (), for_each: str | None = None, **args: object
    ) -> dict[str, object]:
        """Return the task's definition for a job, with arguments and dependencies.

        With `for_each`, an expression that evaluates to a list, it is a fan-out: `city="{{ item.city }}"`.
        """
        work = dict(self.work)
        if args:
            work["args"] = args
        optional: dict[str, object] = {"needs": [{"task": upstream} for upstream in needs], "for_each": for_each}
        given = {field: value for field, value in optional.items() if value not in (None, [])}
        return {"name": name or self.name, "work": work, **self.fields, **given}

    def record(
        self, recording: Recorder, call_options: CallOptions, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Deferred:
        """Record a call in the body of a job."""
        if call_options.label is not None:
            raise Refused(f"{self.name}: a label needs .map(..)")
        recording.register(self.name, self)
        return recording.add(self.work, self.fields, self._bound(args, kwargs), call_options)

    def record_map(
        self, recording: Recorder, call_options: CallOptions, items: object, constants: Mapping[str, object]
    ) -> Deferred:
        """Record a fan-out in the body of a job."""
        free = [one for one in self._parameters() if one.name not in constants and not asks_for_context(one)]
        if not free:
            raise Refused(f"{self.name}.map: the function has no free parameter for the item")
        arguments = self._bound((), {free[0].name: Deferred(Path("item", ())), **constants})
        recording.register(self.name, self)
        return recording.add(self.work, self.fields, arguments, call_options, items=items)

    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.fn).parameters.values())

    def _bound(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Bind the arguments of a call to parameter names. Raises Refused if they don't match."""
        parameters = self._parameters()
        if any(one.kind in _VARIADIC for one in parameters):
            raise Refused(f"{self.name}: a task of a job can't have *args or positional-only parameters")
        signature = inspect.Signature([one for one in parameters if not asks_for_context(one)])
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Refused(f"{self.name}: invalid arguments: {error}") from None
        arguments = dict(bound.arguments)
        for one in parameters:
            if one.kind is inspect.Parameter.VAR_KEYWORD:
                arguments |= arguments.pop(one.name, {})
        return arguments

    def __repr__(self) -> str:
        return f"<task {self.name}>"


@overload
def task(fn: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(
    fn: Callable[P, R] | None = None, /, **options: Unpack[TaskOptions]
) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
    """Turn a function into a task: `@task`, or `@task(name=.., timeout="10m", ..)`."""

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        return Task(function, **options)

    return decorate if fn is None else decorate(fn)


def _fields(options: TaskOptions) -> dict[str, object]:
    """Return the definition's fields for the options that are set. Raises ValueError."""
    fields: dict[str, object] = {}
    retries = options.get("retries")
    if retries is not None:
        fields |= (retries if isinstance(retries, Retry) else Retry(retries)).fields()
    for option in ("timeout", "soft_timeout", "stall", "expected"):
        length = options.get(option)
        if length is not None:
            fields[f"{option}_seconds"] = parse_seconds(length)
    given = {
        resource: parse(amount)
        for option, (resource, parse) in _RESOURCES.items()
        if (amount := options.get(option)) is not None
    }
    if given:
        # Resources that are not set keep their defaults.
        defaults = msgspec.structs.asdict(DEFAULT_RESOURCES)
        fields["resources"] = {resource: amount for resource, amount in (defaults | given).items() if amount}
    if labels := options.get("labels"):
        fields["labels"] = dict(labels)
    if prefer := options.get("prefer"):
        fields["prefer"] = dict(prefer)
    for option in ("zone", "prefer_zone"):
        if zone := options.get(option):
            fields[option] = zone
    for option in ("affinity", "anti_affinity", "groups"):
        if names := options.get(option):
            fields[option] = _names(option, names)
    return fields


def _names(option: str, names: object) -> list[object]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ValueError(f"{option} must be a list of names, not {names!r}")  # noqa: TRY004 - as for all options
    return list(names)
