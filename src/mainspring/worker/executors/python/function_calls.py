"""Call a function for an attempt, in a child: find it, bind its arguments, encode its result as JSON.

Each parameter is bound to the first of these: its entry in `args` or `values`; the context, if the parameter is called
`context` or annotated as `Context`; in a fan-out, `item`, `partition` and `total`; the output of the upstream task of
that name (`-` and `.` become `_`); the run parameter of that name; its default. With `values`, nothing is bound by
name, and the values are converted to the declared types.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.graph import references
from mainspring.core.work.work import ImportedFunction, ServedFunction, read_work
from mainspring.protocol.errors import ExpressionFailed, Refused, TaskError
from mainspring.protocol.wire import Assignment
from mainspring.task_context import task_context as contexts
from mainspring.worker.executors.attempt_files import MAX_OUTPUT_BYTES, identity_of
from mainspring.worker.executors.attempt_handle import failure
from mainspring.worker.executors.task_templates import rendered, rendered_env, template_values

MAX_TRACEBACK_LENGTH = 8 * 1024
WORKER_MODULE = "__mainspring_worker__"
"""Module name of a served file while it is imported: `if __name__ == "__main__"` does not fire."""
_MAX_CACHED = 1_000
_MAX_MESSAGE_LENGTH = 1_000

Function: TypeAlias = Callable[..., object]


class _Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Data shared by all attempts of one task, computed once."""

    function: Function
    signature: inspect.Signature
    given: dict[str, msgspec.Raw]
    has_templates: bool
    values: dict[str, msgspec.Raw]
    types: dict[str, Any]
    """Declared types of the parameters in `values`, as far as known."""
    context_names: tuple[str, ...]
    open_names: tuple[str, ...]
    """Parameters that an upstream output or a run parameter may bind."""
    directory: str | None
    env: dict[str, str]
    accepted_names: set[tuple[str, ...]]
    """Argument names that the function is known to accept together."""


class PreparedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared call."""

    function: Function
    arguments: dict[str, object]
    context: contexts.Context
    directory: str | None
    env: dict[str, str]


class Functions:
    """Functions that this process can call."""

    def __init__(self, handlers: list[str], given: Mapping[str, Function] | None = None) -> None:
        """`handlers` are modules and files to import, `given` functions that are loaded already."""
        self._sources = handlers
        self._handlers: dict[str, Function] = dict(given or {})
        self._prepare = lru_cache(_MAX_CACHED)(self._look_up)
        self.fault: str | None = None

    def load(self) -> None:
        """Import the modules and files with handlers. `fault` has the last import error."""
        for number, source in enumerate(self._sources):
            try:
                with contexts.loading():
                    module = _import_file(source, number) if source.endswith(".py") else importlib.import_module(source)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - users' code can raise anything
                self.fault = f"{source} can't be imported: {type(error).__name__}: {_message_of(error)}"
                traceback.print_exc()
            else:
                self._handlers.update(_tasks_of(module))

    def names(self) -> list[str]:
        """Return the served handlers."""
        return sorted(self._handlers)

    def call(
        self, assignment: Assignment, secrets: dict[str, str], backend: contexts.ContextBackend
    ) -> tuple[str | None, str | None]:
        """Call the attempt's function; return its result as JSON, or why it can't be called. Raises what it raises."""
        try:
            call = self.prepare_call(assignment, backend)
        except (Refused, ExpressionFailed) as error:
            return None, failure("Call", str(error), error_class="permanent")
        contexts.set_current(call.context)
        try:
            if call.directory is None and not call.env and not secrets:
                result = _invoke(call)
            else:
                with _call_environment(call.directory, call.env | secrets):
                    result = _invoke(call)
        finally:
            contexts.set_current(None)
        return encode_result(result)

    def prepare_call(self, assignment: Assignment, backend: contexts.ContextBackend) -> PreparedCall:
        """Prepare the call of an attempt. Raises Refused if it is impossible, ExpressionFailed if a value fails."""
        context = contexts.Context(
            identity_of(assignment),
            params=assignment.params,
            outputs=assignment.inputs,
            checkpoint=assignment.checkpoint,
            item=assignment.item,
            timeout_seconds=assignment.timeout_seconds,
            token=assignment.token,
            backend=backend,
        )
        prepared = self._prepare(assignment.work)
        return PreparedCall(
            function=prepared.function,
            arguments=_arguments(prepared, assignment, context),
            context=context,
            directory=prepared.directory,
            env=rendered_env(prepared.env, template_values(assignment)) if prepared.env else {},
        )

    def _look_up(self, text: str) -> _Prepared:
        work = read_work(text)
        assert isinstance(work, ImportedFunction | ServedFunction)
        function = self._imported(work.python) if isinstance(work, ImportedFunction) else self._served(work.handler)
        signature = inspect.signature(function)
        given = work.args.keys() | (work.values or {}).keys()
        free = [one for one in signature.parameters.values() if one.kind in _NAMED_KINDS and one.name not in given]
        asks = tuple(one.name for one in free if contexts.asks_for_context(one))
        return _Prepared(
            function=function,
            signature=signature,
            given=work.args,
            has_templates=any(b"{{" in bytes(raw) for raw in work.args.values()),
            values=work.values or {},
            types=contexts.declared_types(function) if work.values else {},
            context_names=asks,
            open_names=tuple(one.name for one in free if one.name not in asks) if work.values is None else (),
            directory=work.directory,
            env=work.env,
            accepted_names=set(),
        )

    def _served(self, name: str) -> Function:
        if name not in self._handlers:
            raise Refused(self.fault or f"this worker does not serve handler {name}")
        return self._handlers[name]

    def _imported(self, path: str) -> Function:
        module_name, _, names = path.partition(":")
        try:
            found: object = importlib.import_module(module_name)
            for name in names.split("."):
                found = getattr(found, name)
        except Exception as error:  # noqa: BLE001 - importing users' code can raise anything
            traceback.print_exc()
            raise Refused(f"{path} can't be imported: {type(error).__name__}: {_message_of(error)}") from None
        if not callable(found):
            raise Refused(f"{path} is not a function")
        return _plain(found)


def call_failure(error: BaseException) -> str:
    """Format an exception of a function as an error."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 1
        return failure("Exit", f"exited with {error.code}", exit_code=code)
    error_class: str | None = "resource" if isinstance(error, MemoryError) else None
    more: dict[str, float] = {}
    if isinstance(error, TaskError):
        error_class = error.failure
        more = {"retry_after_seconds": error.retry_after_seconds} if error.retry_after_seconds is not None else {}
    lines = "".join(traceback.format_exception(type(error), error, _user_frames(error.__traceback__), limit=-30))
    return failure(
        _type_of(error), _message_of(error), error_class=error_class, traceback=lines[-MAX_TRACEBACK_LENGTH:], **more
    )


def _type_of(error: BaseException) -> str:
    """Return the name of an exception's class, with its module unless that is redundant."""
    kind = type(error)
    is_plain = kind.__module__ in {"builtins", TaskError.__module__} or kind.__module__.startswith(WORKER_MODULE)
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback starting at the user's function; all of it if there is none."""
    part = trace
    while part is not None and part.tb_frame.f_globals.get("__package__") == __package__:
        part = part.tb_next
    return part or trace


_FAN_OUT_NAMES = frozenset({"item", "partition", "total"})
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _import_file(source: str, number: int) -> ModuleType:
    """Import a file by its path. Its siblings can be imported, as if it were run as a script."""
    path = Path(source).resolve()
    sys.path.insert(0, str(path.parent))
    name = WORKER_MODULE if number == 0 else f"{WORKER_MODULE}{number}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _tasks_of(module: ModuleType) -> Iterator[tuple[str, Function]]:
    """Yield the tasks of a module with their handler names."""
    for value in vars(module).values():
        name = getattr(value, contexts.TASK_ATTRIBUTE, None)
        if isinstance(name, str) and callable(value):
            yield name, _plain(value)


def _plain(found: Function) -> Function:
    """Return the function inside `@task`."""
    return getattr(found, "fn", found) if hasattr(found, contexts.TASK_ATTRIBUTE) else found


def _arguments(prepared: _Prepared, assignment: Assignment, context: contexts.Context) -> dict[str, object]:
    """Return the keyword arguments of a call. Raises Refused if they do not fit, ExpressionFailed if a template
    fails."""
    arguments: dict[str, object] = {name: msgspec.json.decode(raw) for name, raw in prepared.given.items()}
    if prepared.has_templates:
        values = template_values(assignment)
        arguments = {name: _render(f"args.{name}", value, values) for name, value in arguments.items()}
    if prepared.values:
        given = references.Inputs(outputs=assignment.inputs, params=assignment.params, item=assignment.item)
        for name, raw in prepared.values.items():
            arguments[name] = _value(name, raw, given, prepared.types)
    for name in prepared.context_names:
        arguments[name] = context
    if prepared.open_names:
        outputs = {task.replace("-", "_").replace(".", "_"): task for task in assignment.inputs}
        for name in prepared.open_names:
            if name in _FAN_OUT_NAMES and assignment.partition is not None:
                arguments[name] = getattr(context, name)
            elif name in outputs:
                arguments[name] = context.outputs[outputs[name]]
            elif name in context.params:
                arguments[name] = context.params[name]
    _check_fit(prepared, arguments)
    return arguments


def _check_fit(prepared: _Prepared, arguments: Mapping[str, object]) -> None:
    """Raises Refused unless the function accepts these argument names; cached per set of names."""
    names = tuple(arguments)
    if names in prepared.accepted_names:
        return
    try:
        prepared.signature.bind(**arguments)
    except TypeError as error:
        raise Refused(f"the arguments do not fit: {error}") from None
    prepared.accepted_names.add(names)


def _value(name: str, raw: msgspec.Raw, given: references.Inputs, types: Mapping[str, Any]) -> object:
    """Resolve an argument of `values`, converted to the declared type."""
    try:
        value = references.resolve(raw, given)
    except ExpressionFailed as error:
        raise ExpressionFailed(f"values.{name}: {error}") from None
    if name not in types:
        return value
    try:
        return msgspec.convert(value, types[name])
    except msgspec.ValidationError as error:
        raise Refused(f"argument {name} does not match the declared type: {error}") from None
    except TypeError:
        return value  # Not a JSON type: pass the value unchanged.


def _render(where: str, value: object, values: expressions.Values) -> object:
    match value:
        case str() if "{{" in value:
            return rendered(where, value, values)
        case list():
            return [_render(where, one, values) for one in value]
        case dict():
            return {key: _render(where, one, values) for key, one in value.items()}
        case _:
            return value


@contextmanager
def _call_environment(directory: str | None, variables: Mapping[str, str]) -> Iterator[None]:
    """Set the working directory and variables for one call, and restore them."""
    before = os.environ.copy()
    here = Path.cwd()
    try:
        os.environ.update(variables)
        if directory is not None:
            if not Path(directory).is_absolute():
                Path(directory).mkdir(parents=True, exist_ok=True)
            os.chdir(directory)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)


def _invoke(call: PreparedCall) -> object:
    """Call the function; run the coroutine if it returns one."""
    result = call.function(**call.arguments)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def encode_result(result: object) -> tuple[str | None, str | None]:
    """Encode a result as JSON, or return why that fails."""
    try:
        output = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        return None, failure("Output", f"the result can't be encoded as JSON: {error}", error_class="permanent")
    if len(output) > MAX_OUTPUT_BYTES:
        message = f"the result has {len(output)} bytes; the limit is {MAX_OUTPUT_BYTES}"
        return None, failure("Output", message, error_class="permanent")
    return output.decode(), None


def _message_of(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - str() of a user's exception class
        message = ""
    return message[:_MAX_MESSAGE_LENGTH]
