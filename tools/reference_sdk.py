"""Generate the page of the SDK."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import mainspring
from mainspring import Context, testing
from mainspring.client.handles import RunHandle
from mainspring.client.results import RunResult, TaskResult
from mainspring.client.streams import EventStream
from mainspring.definitions.plan import Plan, PlannedTask
from mainspring.dsl.job import JobOptions
from mainspring.dsl.task import TaskOptions
from mainspring.dsl.triggers import ScheduleOptions
from tools.markdown import code, first_sentence

_BEGINNING = """\
# The SDK

The exports of `mainspring` and `mainspring.testing`, with the first sentence of each docstring; `help()` shows the
rest. [A job in Python](../guides/python-jobs.md) is the guide.
"""
_CLIENTS = "`AsyncClient` has the same constructor and methods; they are awaited, and iterators are for `async for`."
_ABOUT_ERRORS = """\
Errors of clients, and of the scheduler of a folder. Catch a family (`Refused`, `Conflict`, `Unavailable`, `Broken`) or
one error of it. Each has a `code` ([Errors](errors.md)), a `hint`, and `problem`, the response of the server.
"""
_EXPORTED: Sequence[tuple[str, Sequence[str]]] = (
    ("Jobs and tasks", ("task", "Task", "job", "Job", "Retry", "serve")),
    ("Schedules", ("every", "cron", "once", "on_event", "after")),
    ("Inside a task", ("current", "Context", "TaskError")),
    ("A folder of pipelines", ("PipelineScheduler",)),
    ("Clients", ("Client",)),
)
_DOCUMENTED_BY_CLIENT = "AsyncClient"
_OPTIONS = (TaskOptions, JobOptions, ScheduleOptions)
_RESULTS = (RunResult, TaskResult, RunHandle, Plan, PlannedTask, EventStream)
_TESTING = ("run", "context", "RecordedContext", "World", "FrozenClock")
_GIVEN = {"Task", "Job", "Context", "RecordedContext", *(kind.__name__ for kind in (*_RESULTS, *_OPTIONS))}
"""Classes that users don't instantiate."""
_OUR_OWN = frozenset({"record", "record_map", "recorded", "bind", "fields"})
"""Internal methods."""


def sdk_page() -> str:
    """Return the text of the page. Raises ValueError if an export is missing on it."""
    errors = [name for name in mainspring.__all__ if _is_error(getattr(mainspring, name))]
    documented = {name for _, names in _EXPORTED for name in names} | {_DOCUMENTED_BY_CLIENT, *errors}
    undocumented = {name for name in mainspring.__all__ if not name.startswith("_")} ^ documented
    if undocumented:
        raise ValueError(f"tools/reference_sdk.py has no section for {sorted(undocumented)}")
    lines = [_BEGINNING]
    for heading, names in _EXPORTED:
        lines += _section(heading, [getattr(mainspring, name) for name in names])
    lines += [_CLIENTS, "", "## Errors", "", _ABOUT_ERRORS]
    lines += _errors([getattr(mainspring, name) for name in errors])
    lines += _section("Options", _OPTIONS)
    lines += _section("Results", _RESULTS)
    lines += _section("mainspring.testing", [getattr(testing, name) for name in _TESTING])
    return "\n".join(lines)


def _is_error(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, mainspring.MainspringError)


def _errors(kinds: Sequence[type[mainspring.MainspringError]]) -> Iterator[str]:
    """Return a table of the errors."""
    yield "| Error | Is a | When |"
    yield "|---|---|---|"
    for kind in kinds:
        parent = kind.__base__
        assert parent is not None, "an error has a base"
        yield f"| `{kind.__name__}` | `{parent.__name__}` | {first_sentence(kind)} |"
    yield ""


def _section(heading: str, things: Sequence[object]) -> Iterator[str]:
    """Return the lines of a section."""
    yield f"## {heading}"
    yield ""
    for thing in things:
        if inspect.isclass(thing):
            yield from _of_class(thing)
        elif inspect.isfunction(thing):
            yield f"### {thing.__name__}"
            yield ""
            yield f"{code(_signature(thing))}: {first_sentence(thing)}"
            yield ""


def _of_class(kind: type) -> Iterator[str]:
    """Return the lines about a class: constructor, fields, methods."""
    is_given = kind.__name__ in _GIVEN
    yield f"### {kind.__name__}"
    yield ""
    yield first_sentence(kind) if is_given else f"{code(_signature(kind))}: {first_sentence(kind)}"
    yield ""
    members = [*(_fields(kind) if is_given else ()), *_attributes(kind), *_members(kind)]
    for name, words in members:
        yield f"- {code(name)}{': ' if words else ''}{words}"
    if members:
        yield ""


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """Return the properties and methods of a class, sorted; those of a context are documented once."""
    documented = dir(Context) if issubclass(kind, Context) and kind is not Context else ()
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or name in _OUR_OWN or name in documented:
            continue
        if isinstance(member, property | cached_property):
            yield name, first_sentence(member)
        elif inspect.isfunction(member):
            yield _signature(member), first_sentence(member)


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """Return the declared fields of a class, with their docstrings."""
    for statement, after in _pairs(_source(kind).body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield f"{statement.target.id}: {ast.unparse(statement.annotation)}", _text(after)


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    """Return the attributes that the constructor assigns."""
    for making in _source(kind).body:
        if isinstance(making, ast.FunctionDef) and making.name == "__init__":
            for statement, after in _pairs(making.body):
                match statement:
                    case ast.Assign(targets=[ast.Attribute(attr=name)]) if name not in _OUR_OWN and name[0] != "_":
                        yield name, _text(after)


def _source(kind: type) -> ast.ClassDef:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    return tree


def _pairs(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Yield each statement with the next one."""
    return zip(body, [*body[1:], None], strict=True)


def _text(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text.partition("\n")[0]
        case _:
            return ""


class _Plain:
    """An annotation that is rendered as in the source."""

    def __init__(self, annotation: object) -> None:
        self._text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    def __repr__(self) -> str:
        return self._text


def _signature(call: Callable[..., object]) -> str:
    """Return the signature of a callable."""
    signature = inspect.signature(call)
    parameters = [
        parameter
        if parameter.annotation is parameter.empty
        else parameter.replace(annotation=_Plain(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    gives = signature.return_annotation
    is_silent = inspect.isclass(call) or gives is signature.empty
    plain = signature.replace(parameters=parameters, return_annotation=signature.empty if is_silent else _Plain(gives))
    waits = "async " if inspect.iscoroutinefunction(call) else ""
    return f"{waits}{call.__name__}{plain}"
