"""What a task knows of itself: ids, parameters, outputs of its upstream, its last checkpoint (WRK-6, WRK-7).

    from mainspring import Context, task

    @task
    def load(day: str, context: Context) -> dict[str, int]:
        done = context.checkpoint or {"page": 0}
        context.save_checkpoint({"page": done["page"] + 1})
        context.progress(50, "half of it")

A function gets it as an argument, or by `current()`. A command's own Python program calls `current()` too: there it
comes from the files that the environment names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import Refused

TASK_ATTRIBUTE = "mainspring_task_name"
"""What `@task` puts on a function: the name that it is served under."""


class Voice(Protocol):
    """How a context speaks to the worker."""

    def move(self, percent: float | None, note: str) -> None:
        """Say how far the task is."""
        ...

    def save(self, document: str) -> None:
        """Hand over a checkpoint, as JSON."""
        ...

    def extend(self, seconds: float) -> None:
        """Ask for more time."""
        ...

    def deadline(self) -> datetime | None:
        """When the attempt will be ended, if that has changed since it began."""
        ...

    def artifacts(self) -> Path:
        """The folder for files that the task leaves; it is there."""
        ...

    def inputs(self) -> Path:
        """The folder with the files that the task fetches."""
        ...


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempt of which task this is."""

    run_id: str
    task_id: str
    task_name: str
    attempt: int
    """1 for the first try."""
    attempt_id: str
    """Never used twice: a key for what the task writes elsewhere."""
    tenant: str
    failed_upstreams: tuple[str, ...] = ()
    """Tasks it needs that ended without a success, where the job goes on regardless."""
    partition: int | None = None
    total: int | None = None
    window: datetime | None = None
    memory_bytes: int = 0


class Context:
    """What a task knows of itself."""

    def __init__(
        self,
        identity: Identity,
        *,
        params: str,
        outputs: Mapping[str, str],
        checkpoint: str | None,
        item: str | None,
        voice: Voice,
        deadline: datetime | None = None,
        timeout_seconds: float = 0.0,
        token: str = "",
    ) -> None:
        self._identity = identity
        self._params = params
        self._outputs = outputs
        self._checkpoint = checkpoint
        self._item = item
        self._voice = voice
        self.token = token
        """Lets the task speak to the API about itself, as long as the attempt runs."""
        self._deadline = deadline
        if deadline is None and timeout_seconds:
            self._deadline = MachineClock().wall() + timedelta(seconds=timeout_seconds)

    @property
    def run_id(self) -> str:
        """The run that the task belongs to."""
        return self._identity.run_id

    @property
    def task_id(self) -> str:
        """The task."""
        return self._identity.task_id

    @property
    def task_name(self) -> str:
        """The task's name in its job."""
        return self._identity.task_name

    @property
    def attempt(self) -> int:
        """The number of the try, from 1."""
        return self._identity.attempt

    @property
    def attempt_id(self) -> str:
        """The attempt: never used twice, so a key for what the task writes elsewhere."""
        return self._identity.attempt_id

    @property
    def traceparent(self) -> str:
        """The attempt's place in the trace of its run (W3C Trace Context), for what it calls elsewhere."""
        from mainspring.core.model.trace_ids import traceparent

        return traceparent(self.run_id, self.attempt_id)

    @property
    def tenant(self) -> str:
        """Whose task it is."""
        return self._identity.tenant

    @property
    def failed_upstreams(self) -> tuple[str, ...]:
        """Tasks it needs that ended without a success, where the job goes on regardless."""
        return self._identity.failed_upstreams

    @property
    def partition(self) -> int | None:
        """Which task of a fan-out this is, from 0; None if it is of none."""
        return self._identity.partition

    @property
    def total(self) -> int | None:
        """How many tasks the fan-out has."""
        return self._identity.total

    @property
    def window(self) -> datetime | None:
        """The window of the schedule that the run is for; None if it is for none."""
        return self._identity.window

    @property
    def memory_bytes(self) -> int:
        """How much memory the attempt may use: more than the job says, if an earlier one ran out of that."""
        return self._identity.memory_bytes

    @property
    def deadline(self) -> datetime | None:
        """When the attempt will be ended, as far as is known by now; None if it has no limit."""
        return self._voice.deadline() or self._deadline

    @cached_property
    def item(self) -> Any:
        """What a task of a fan-out is for; None if it is of none."""
        return msgspec.json.decode(self._item) if self._item is not None else None

    @cached_property
    def params(self) -> dict[str, Any]:
        """The run's parameters."""
        return msgspec.json.decode(self._params or "{}", type=dict[str, Any])

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """The outputs of the tasks that it needs, by name."""
        return {name: msgspec.json.decode(output) for name, output in self._outputs.items()}

    @cached_property
    def checkpoint(self) -> Any:
        """What an earlier attempt saved last; None if there is nothing."""
        return msgspec.json.decode(self._checkpoint) if self._checkpoint is not None else None

    @cached_property
    def artifacts(self) -> Path:
        """A folder for files that the task leaves: its worker stores them when it is over (WRK-11)."""
        return self._voice.artifacts()

    @property
    def inputs(self) -> Path:
        """A folder with the files that the task fetches: `inputs / "extract" / "orders.csv"`."""
        return self._voice.inputs()

    def save_checkpoint(self, document: object) -> None:
        """Save what the next attempt is to find, wherever it runs: anything that JSON can say, up to 256 KiB."""
        from mainspring.core.work.work import LARGEST_CHECKPOINT_BYTES

        text = msgspec.json.encode(document)
        if len(text) > LARGEST_CHECKPOINT_BYTES:
            raise Refused(f"a checkpoint of {len(text)} bytes: {LARGEST_CHECKPOINT_BYTES} are allowed")
        self._voice.save(text.decode())

    def progress(self, percent: float | None = None, note: str = "") -> None:
        """Say how far the task is, from 0 to 100, and what it is doing."""
        self._voice.move(percent, note)

    def extend(self, seconds: float) -> None:
        """Ask to have so much time from now on. One that says how far it is, and gets on, gets it: see `deadline`."""
        from mainspring.core.work.work import LONGEST_EXTENSION_SECONDS

        if not 0 < seconds <= LONGEST_EXTENSION_SECONDS:
            raise Refused(f"an extension is more than 0 and at most {LONGEST_EXTENSION_SECONDS:.0f} seconds")
        self._voice.extend(seconds)


_current: Context | None = None
_inside: ContextVar[Context | None] = ContextVar("mainspring_context", default=None)
"""Where several tasks run in one process: `Job.run()` and `mainspring.testing`."""
_loading: ContextVar[bool] = ContextVar("mainspring_loading", default=False)


def current() -> Context:
    """The context of the task that this is called in. Raises Refused outside of a task."""
    context = _inside.get() or _current
    if context is not None:
        return context
    path = os.environ.get("MAINSPRING_CONTEXT")
    if path is None:
        raise Refused("this process runs no task: there is no context")
    context = _read(Path(path))
    set_current(context)
    return context


def set_current(context: Context | None) -> None:
    """For the process that calls the function: this is its context now."""
    global _current  # noqa: PLW0603 - a process runs one task at a time, also in threads that a function starts
    _current = context


@contextmanager
def inside(context: Context) -> Iterator[Context]:
    """For a process with several tasks: what runs in this block has this context."""
    before = _inside.set(context)
    try:
        yield context
    finally:
        _inside.reset(before)


@contextmanager
def loading() -> Iterator[None]:
    """For a worker's child: what runs in this block is a file of handlers that is imported."""
    before = _loading.set(True)
    try:
        yield
    finally:
        _loading.reset(before)


def is_loading() -> bool:
    """Whether a worker's child imports the file that asks."""
    return _loading.get()


def is_inside() -> bool:
    """Whether what runs here is within a block of `inside`."""
    return _inside.get() is not None


class SavedContext(msgspec.Struct, frozen=True, kw_only=True):
    """The file that a worker leaves for a command: `MAINSPRING_CONTEXT` names it."""

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


class _Files:
    """How a command speaks: by files that the worker looks at."""

    def move(self, percent: float | None, note: str) -> None:
        """Write the file of progress."""
        said = {"note": note} if percent is None else {"percent": percent, "note": note}
        _replace(Path(os.environ["MAINSPRING_PROGRESS"]), msgspec.json.encode(said))

    def save(self, document: str) -> None:
        """Write the file of the checkpoint."""
        _replace(Path(os.environ["MAINSPRING_CHECKPOINT"]), document.encode())

    def extend(self, seconds: float) -> None:
        """Write the file of the request."""
        _replace(Path(os.environ["MAINSPRING_EXTEND"]), str(seconds).encode())

    def deadline(self) -> datetime | None:
        """Look again into the file of the context: the worker writes it anew."""
        saved = Path(os.environ["MAINSPRING_CONTEXT"]).read_bytes()
        return msgspec.json.decode(saved, type=_SavedDeadline).deadline

    def artifacts(self) -> Path:
        """A folder that the worker made."""
        return Path(os.environ["MAINSPRING_ARTIFACTS"])

    def inputs(self) -> Path:
        """Another one."""
        return Path(os.environ["MAINSPRING_INPUTS"])


def _read(path: Path) -> Context:
    saved = msgspec.json.decode(path.read_bytes(), type=SavedContext)
    token = os.environ.get("MAINSPRING_TOKEN_FILE")
    return Context(
        Identity(
            run_id=saved.run_id,
            task_id=saved.task_id,
            task_name=saved.task_name,
            attempt=saved.attempt,
            attempt_id=saved.attempt_id,
            tenant=saved.tenant,
            failed_upstreams=saved.failed_upstreams,
            partition=saved.partition,
            total=saved.total,
            window=saved.window,
            memory_bytes=saved.memory_bytes,
        ),
        params=bytes(saved.params).decode(),
        outputs={name: bytes(output).decode() for name, output in saved.outputs.items()},
        checkpoint=_unless_null(saved.checkpoint),
        item=_unless_null(saved.item),
        voice=_Files(),
        deadline=saved.deadline,
        token=Path(token).read_text(encoding="utf-8") if token is not None else "",
    )


def parse_window(text: str) -> datetime | None:
    """A window as it is sent: RFC 3339, or nothing."""
    return msgspec.convert(text, datetime) if text else None


def _unless_null(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return text if text != "null" else None


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole: whoever looks sees the old content or the new."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)
