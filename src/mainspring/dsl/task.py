"""`@task`: a function that a worker can serve by name.

    @task
    def fetch(city: str) -> dict[str, float]: ...

    @task(name="send-report", retries=2, timeout="10m", memory="512Mi")
    async def report(rows: list[dict[str, float]]) -> str: ...

A decorated function is called as before, and `fetch.fn` is the function itself. In the body of a `@job` a call makes a
task of the job, and gives a stand-in for its output (`dsl/deferred.py`):

    rows = fetch.map(cities)                              a task for each city
    check.after(rows).named("last-look")()                in an order, under a name
    alarm.if_(check.bad > 0)(check.bad)                   only if that is so; otherwise it is skipped

`ms worker --handlers FILE` serves all tasks of a file, and a job names one as `{"handler": "fetch"}`;
`fetch.as_task(city="Oslo")` is that and all that the decorator says of retries, time and room, as a job's list of tasks
takes it.
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
from mainspring.definitions.quantities import bytes_of, millis_of, seconds_of
from mainspring.dsl.deferred import Later, condition_of
from mainspring.dsl.graph_builder import Recorder, Wishes, name_of, recorder
from mainspring.dsl.retry import Retry
from mainspring.protocol.errors import Refused
from mainspring.task_context.signatures import asks_for_context
from mainspring.task_context.task_context import TASK_ATTRIBUTE

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)


class TaskOptions(TypedDict, total=False):
    """What can be said of a task."""

    name: str
    """What it is served under; the function's name unless said."""
    retries: int | Retry
    timeout: str | float
    """An attempt is ended after so long."""
    soft_timeout: str | float
    """Its owner is told after so long."""
    stall: str | float
    """An attempt is ended that gets no further for so long."""
    expected: str | float
    """How long it usually takes."""
    cpu: str | float
    memory: str | int
    gpus: int
    disk: str | int
    labels: Mapping[str, str]
    """Labels that a worker must have."""
    zone: str
    prefer: Mapping[str, str]
    """Labels that a worker had better have."""
    prefer_zone: str
    near: Sequence[str]
    """Tasks of the job on whose worker it must run, once they have started."""
    apart: Sequence[str]
    """Tasks of the job on whose worker it must not run at the same time; its own name spreads a fan-out."""
    groups: Sequence[str]
    """Groups that count it while it runs."""
    fetch: Sequence[str]
    """Files of tasks upstream that it finds in `context.inputs`: `extract`, `extract/*.csv`."""


class _Callable(Generic[P, R]):
    """What a task and a task with wishes have in common: they can be called, mapped, and be given wishes."""

    def _parts(self) -> tuple[Task[P, R], Wishes]:
        raise NotImplementedError

    @overload
    def __call__(self: _Callable[P, Coroutine[Any, Any, Any]], *args: P.args, **kwargs: P.kwargs) -> Any: ...

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """In the body of a job: a task of the job, and its output. Elsewhere: call the function, here and now.

        What an async task gives is a coroutine here and an output there, which no type can say.
        """
        task, wishes = self._parts()
        recording = recorder()
        if recording is None:
            return task.fn(*args, **kwargs)
        return task.record(recording, wishes, args, kwargs)

    @overload
    def map(self: _Callable[P, Coroutine[Any, Any, Any]], items: Iterable[Any], /, **constants: Any) -> list[Any]: ...

    @overload
    def map(self, items: Iterable[Any], /, **constants: Any) -> list[R]: ...

    def map(self, items: Iterable[Any], /, **constants: Any) -> Any:
        """A task for each item, which becomes the first argument; the constants are the same for all.

        The result stands for the list of all outputs, in the order of the items.
        """
        task, wishes = self._parts()
        recording = recorder()
        if recording is None:
            return [task.fn(item, **constants) for item in items]
        return task.record_map(recording, wishes, items, constants)

    def named(self, name: str) -> Step[P, R]:
        """Under this name in the job."""
        return self._with(name=name)

    def labelled(self, template: str) -> Step[P, R]:
        """For `map`: what people call the task of each item, such as `{{ item.city }}`; the item itself unless said."""
        return self._with(label=template)

    def if_(self, condition: object) -> Step[P, R]:
        """Only if this is so. Otherwise it is skipped, and what needs it too."""
        _, wishes = self._parts()
        return self._with(conditions=(*wishes.conditions, condition_of(condition)))

    def after(self, *outputs: object) -> Step[P, R]:
        """Not before the tasks that these are the outputs of have ended."""
        _, wishes = self._parts()
        return self._with(after=(*wishes.after, *map(name_of, outputs)))

    def even_if_skipped(self) -> Step[P, R]:
        """Also if what it needs was skipped: then that is None."""
        return self._with(even_if_skipped=True)

    def _with(self, **changes: object) -> Step[P, R]:
        task, wishes = self._parts()
        return Step(task, msgspec.structs.replace(wishes, **changes))


class Step(_Callable[P, R]):
    """A task, and what a job wants of one call of it."""

    def __init__(self, task: Task[P, R], wishes: Wishes) -> None:
        self._task = task
        self._wishes = wishes

    def _parts(self) -> tuple[Task[P, R], Wishes]:
        return self._task, self._wishes


class Task(_Callable[P, R]):
    """A function with a name, and what it needs."""

    def __init__(self, fn: Callable[P, R], **options: Unpack[TaskOptions]) -> None:
        self.__name__ = fn.__name__
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = options.get("name") or fn.__name__
        if not _NAME.fullmatch(self.name):
            raise Refused(f"{self.name[:40]!r}: a task's name is 1 to 100 letters, digits, dots, hyphens, underscores")
        try:
            self.fields = _fields(options)
            """What a definition says of it, besides its name and work."""
            self.work = {"handler": self.name, **_of_work(options)}
        except ValueError as error:
            raise Refused(f"@task {self.name}: {error}") from None
        setattr(self, TASK_ATTRIBUTE, self.name)

    def _parts(self) -> tuple[Task[P, R], Wishes]:
        return self, Wishes()

    def as_task(
        self, *, name: str | None = None, needs: Sequence[str] = (), for_each: str | None = None, **args: object
    ) -> dict[str, object]:
        """The task as a job's definition has it: what to call, with which arguments, and what it needs.

        With `for_each`, an expression that gives a list, there is a task for each item: `city="{{ item.city }}"`.
        """
        work = dict(self.work)
        if args:
            work["args"] = args
        optional: dict[str, object] = {"needs": [{"task": upstream} for upstream in needs], "for_each": for_each}
        said = {field: value for field, value in optional.items() if value not in (None, [])}
        return {"name": name or self.name, "work": work, **self.fields, **said}

    def record(
        self, recording: Recorder, wishes: Wishes, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Later:
        """A call in the body of a job."""
        if wishes.label is not None:
            raise Refused(f"{self.name}: a label is for .map(..)")
        recording.note(self.name, self)
        return recording.add(self.work, self.fields, self._bound(args, kwargs), wishes)

    def record_map(self, recording: Recorder, wishes: Wishes, items: object, constants: Mapping[str, object]) -> Later:
        """A fan-out in the body of a job."""
        free = [one for one in self._parameters() if one.name not in constants and not asks_for_context(one)]
        if not free:
            raise Refused(f"{self.name}.map: the function has no parameter left for the item")
        arguments = self._bound((), {free[0].name: Later(Path("item", ())), **constants})
        recording.note(self.name, self)
        return recording.add(self.work, self.fields, arguments, wishes, items=items)

    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.fn).parameters.values())

    def _bound(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by their names. Raises Refused if they do not fit."""
        parameters = self._parameters()
        if any(one.kind in _VARIADIC for one in parameters):
            raise Refused(f"{self.name}: a task of a job has no *args and no positional-only parameters")
        signature = inspect.Signature([one for one in parameters if not asks_for_context(one)])
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Refused(f"{self.name}: the arguments do not fit: {error}") from None
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
    """Make a task of a function: `@task`, or `@task(name=.., timeout="10m", ..)`."""

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        return Task(function, **options)

    return decorate if fn is None else decorate(fn)


def _fields(options: TaskOptions) -> dict[str, object]:
    """The fields of a definition that say what was said. Raises ValueError."""
    fields: dict[str, object] = {}
    retries = options.get("retries")
    if retries is not None:
        fields |= (retries if isinstance(retries, Retry) else Retry(retries)).fields()
    for option in ("timeout", "soft_timeout", "stall", "expected"):
        length = options.get(option)
        if length is not None:
            fields[f"{option}_seconds"] = seconds_of(length)
    amounts = {
        "cpu_millis": _measured(millis_of, options.get("cpu")),
        "memory_bytes": _measured(bytes_of, options.get("memory")),
        "gpus": options.get("gpus"),
        "disk_bytes": _measured(bytes_of, options.get("disk")),
    }
    said = {resource: amount for resource, amount in amounts.items() if amount is not None}
    if said:
        # Who says only one of them does not mean nothing of the others.
        usual = msgspec.structs.asdict(DEFAULT_RESOURCES)
        fields["resources"] = {resource: amount for resource, amount in (usual | said).items() if amount}
    if labels := options.get("labels"):
        fields["labels"] = dict(labels)
    if prefer := options.get("prefer"):
        fields["prefer"] = dict(prefer)
    for option in ("zone", "prefer_zone"):
        if zone := options.get(option):
            fields[option] = zone
    for option in ("near", "apart", "groups"):
        if names := options.get(option):
            fields[option] = _names(option, names)
    return fields


def _of_work(options: TaskOptions) -> dict[str, object]:
    """What the work says besides what is called. Raises ValueError."""
    return {"fetch": _names("fetch", fetch)} if (fetch := options.get("fetch")) else {}


def _names(option: str, names: object) -> list[object]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ValueError(f"{option} is a list of names, not {names!r}")  # noqa: TRY004 - as for all that is said
    return list(names)


def _measured(read: Callable[[object], int], amount: object) -> int | None:
    return None if amount is None else read(amount)
