"""Context of a running task: ids, parameters, upstream outputs, last checkpoint (WRK-6, WRK-7).

    from mainspring import Context, task

    @task
    def load(day: str, context: Context) -> dict[str, int]:
        done = context.checkpoint or {"page": 0}
        context.save_checkpoint({"page": done["page"] + 1})
        context.progress(50, "half of it")

A function gets it as an argument or from `current()`. A Python program run as a command calls `current()` too, which
reads the files named by the environment.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, get_type_hints

import msgspec

from mainspring.atomic_files import write_atomically
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused

TASK_ATTRIBUTE = "mainspring_task_name"
"""Attribute that `@task` sets on a function: its handler name."""


class ContextBackend(Protocol):
    """Backend of a context: how it communicates with the worker."""

    def report_progress(self, percent: float | None, note: str) -> None:
        """Report progress."""
        ...

    def report_checkpoint(self, document: str) -> None:
        """Save a checkpoint, as JSON."""
        ...

    def extend(self, seconds: float) -> None:
        """Request more time."""
        ...

    def deadline(self) -> datetime | None:
        """Return the deadline, if it has changed since the start."""
        ...

    def artifacts(self) -> Path:
        """Return the artifact folder, created if needed."""
        ...

    def inputs(self) -> Path:
        """Return the folder with the fetched artifacts."""
        ...


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies an attempt."""

    run_id: str
    task_id: str
    task_name: str
    attempt: int
    """From 1."""
    attempt_id: str
    """Unique: an idempotency key for writes to other systems."""
    tenant: str
    failed_upstreams: tuple[str, ...] = ()
    """Upstream tasks that did not succeed, where the job continues regardless."""
    partition: int | None = None
    total: int | None = None
    window: datetime | None = None
    memory_bytes: int = 0


class Context:
    """Context of a running task."""

    def __init__(
        self,
        identity: Identity,
        *,
        params: str,
        outputs: Mapping[str, str],
        checkpoint: str | None,
        item: str | None,
        backend: ContextBackend,
        deadline: datetime | None = None,
        timeout_seconds: float = 0.0,
        token: str = "",
    ) -> None:
        self._identity = identity
        self._params = params
        self._outputs = outputs
        self._checkpoint = checkpoint
        self._item = item
        self._backend = backend
        self.token = token
        """API token of the attempt, valid while it runs."""
        self._deadline = deadline
        if deadline is None and timeout_seconds:
            self._deadline = SystemClock().wall() + timedelta(seconds=timeout_seconds)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._identity.run_id

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self._identity.task_id

    @property
    def task_name(self) -> str:
        """The task's name in its job."""
        return self._identity.task_name

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self._identity.attempt

    @property
    def attempt_id(self) -> str:
        """The id of the attempt. Unique: an idempotency key for writes to other systems."""
        return self._identity.attempt_id

    @property
    def traceparent(self) -> str:
        """The W3C Trace Context of the attempt, for outgoing calls."""
        from mainspring.core.model.trace_ids import traceparent

        return traceparent(self.run_id, self.attempt_id)

    @property
    def tenant(self) -> str:
        """The tenant of the run."""
        return self._identity.tenant

    @property
    def failed_upstreams(self) -> tuple[str, ...]:
        """Upstream tasks that did not succeed, where the job continues regardless."""
        return self._identity.failed_upstreams

    @property
    def partition(self) -> int | None:
        """The index in a fan-out, from 0; None outside of one."""
        return self._identity.partition

    @property
    def total(self) -> int | None:
        """The number of tasks in the fan-out."""
        return self._identity.total

    @property
    def window(self) -> datetime | None:
        """The schedule window of the run; None without a schedule."""
        return self._identity.window

    @property
    def memory_bytes(self) -> int:
        """The memory limit of the attempt: above the job's, if an earlier attempt ran out of memory."""
        return self._identity.memory_bytes

    @property
    def deadline(self) -> datetime | None:
        """When the attempt times out, including extensions; None without a limit."""
        return self._backend.deadline() or self._deadline

    @cached_property
    def item(self) -> Any:
        """The item of a fan-out task; None outside of one."""
        return msgspec.json.decode(self._item) if self._item is not None else None

    @cached_property
    def params(self) -> dict[str, Any]:
        """The run's parameters."""
        return msgspec.json.decode(self._params or "{}", type=dict[str, Any])

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """The outputs of the upstream tasks, by name."""
        return {name: msgspec.json.decode(output) for name, output in self._outputs.items()}

    @cached_property
    def checkpoint(self) -> Any:
        """The last checkpoint of an earlier attempt; None if there is none."""
        return msgspec.json.decode(self._checkpoint) if self._checkpoint is not None else None

    @cached_property
    def artifacts(self) -> Path:
        """The folder for artifacts: the worker stores its files when the task has ended (WRK-11)."""
        return self._backend.artifacts()

    @property
    def inputs(self) -> Path:
        """The folder with the fetched artifacts: `inputs / "extract" / "orders.csv"`."""
        return self._backend.inputs()

    def save_checkpoint(self, document: object) -> None:
        """Save a checkpoint for the next attempt, on any worker: JSON-compatible, up to 256 KiB."""
        from mainspring.core.work.work import MAX_CHECKPOINT_BYTES

        text = msgspec.json.encode(document)
        if len(text) > MAX_CHECKPOINT_BYTES:
            raise Refused(f"the checkpoint has {len(text)} bytes; the limit is {MAX_CHECKPOINT_BYTES}")
        self._backend.report_checkpoint(text.decode())

    def progress(self, percent: float | None = None, note: str = "") -> None:
        """Report progress, from 0 to 100, and a note."""
        self._backend.report_progress(percent, note)

    def extend(self, seconds: float) -> None:
        """Request this many seconds from now on. Granted to tasks that report progress: see `deadline`."""
        from mainspring.core.work.work import MAX_EXTENSION_SECONDS

        if not 0 < seconds <= MAX_EXTENSION_SECONDS:
            raise Refused(f"an extension must be above 0 and at most {MAX_EXTENSION_SECONDS:.0f} seconds")
        self._backend.extend(seconds)


def asks_for_context(parameter: inspect.Parameter) -> bool:
    """Whether a parameter takes the context."""
    return parameter.name == "context" or parameter.annotation in {Context, "Context", "mainspring.Context"}


def declared_types(function: Callable[..., object]) -> dict[str, Any]:
    """Return the types of a function's parameters; empty if an annotation can't be resolved at run time."""
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations are users' code
        return {}


_current: Context | None = None
_inside: ContextVar[Context | None] = ContextVar("mainspring_context", default=None)
"""For several tasks in one process: `Job.run()` and `mainspring.testing`."""
_loading: ContextVar[bool] = ContextVar("mainspring_loading", default=False)


def current() -> Context:
    """Return the context of the running task. Raises Refused outside of a task."""
    context = _inside.get() or _current
    if context is not None:
        return context
    path = os.environ.get("MAINSPRING_CONTEXT")
    if path is None:
        raise Refused("no context: this process does not run a task")
    context = _read(Path(path))
    set_current(context)
    return context


def set_current(context: Context | None) -> None:
    """Set the context of this process."""
    global _current  # noqa: PLW0603 - a process runs one task at a time, threads included
    _current = context


@contextmanager
def inside(context: Context) -> Iterator[Context]:
    """Set the context within a block, for a process with several tasks."""
    before = _inside.set(context)
    try:
        yield context
    finally:
        _inside.reset(before)


@contextmanager
def loading() -> Iterator[None]:
    """Mark a block that imports a file of handlers in a worker's child."""
    before = _loading.set(True)
    try:
        yield
    finally:
        _loading.reset(before)


def is_loading() -> bool:
    """Whether a worker's child is importing the calling file."""
    return _loading.get()


def is_inside() -> bool:
    """Whether the caller is within an `inside` block."""
    return _inside.get() is not None


class SavedContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context file of a command, named by `MAINSPRING_CONTEXT`."""

    run_id: str
    task_id: str
    task_name: str
    attempt: int
    attempt_id: str
    tenant: str
    deadline: datetime | None
    params: msgspec.Raw
    outputs: dict[str, msgspec.Raw]
    failed_upstreams: tuple[str, ...]
    checkpoint: msgspec.Raw
    """`null` if there is none."""
    item: msgspec.Raw
    """`null` if there is none."""
    partition: int | None
    total: int | None
    window: datetime | None
    memory_bytes: int


class _SavedDeadline(msgspec.Struct, frozen=True):
    deadline: datetime | None


class _FileBackend:
    """Context backend of a command: files that the worker polls."""

    def report_progress(self, percent: float | None, note: str) -> None:
        """Write the progress file."""
        progress = {"note": note} if percent is None else {"percent": percent, "note": note}
        write_atomically(Path(os.environ["MAINSPRING_PROGRESS"]), msgspec.json.encode(progress))

    def report_checkpoint(self, document: str) -> None:
        """Write the checkpoint file."""
        write_atomically(Path(os.environ["MAINSPRING_CHECKPOINT"]), document.encode())

    def extend(self, seconds: float) -> None:
        """Write the extension request."""
        write_atomically(Path(os.environ["MAINSPRING_EXTEND"]), str(seconds).encode())

    def deadline(self) -> datetime | None:
        """Read the deadline from the context file, which the worker rewrites."""
        saved = Path(os.environ["MAINSPRING_CONTEXT"]).read_bytes()
        return msgspec.json.decode(saved, type=_SavedDeadline).deadline

    def artifacts(self) -> Path:
        """Return the artifact folder."""
        return Path(os.environ["MAINSPRING_ARTIFACTS"])

    def inputs(self) -> Path:
        """Return the folder with the fetched artifacts."""
        return Path(os.environ["MAINSPRING_INPUTS"])


def _read(path: Path) -> Context:
    saved = msgspec.json.decode(path.read_bytes(), type=SavedContext)
    token = os.environ.get("MAINSPRING_TOKEN_FILE")
    return Context(
        msgspec.convert(saved, Identity, from_attributes=True),
        params=bytes(saved.params).decode(),
        outputs={name: bytes(output).decode() for name, output in saved.outputs.items()},
        checkpoint=_unless_null(saved.checkpoint),
        item=_unless_null(saved.item),
        backend=_FileBackend(),
        deadline=saved.deadline,
        token=Path(token).read_text(encoding="utf-8") if token is not None else "",
    )


def _unless_null(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return text if text != "null" else None
