"""Standalone mode: a server on SQLite and a worker in one process and event loop, on this machine only.

The base of `mainspring up`, `mainspring run` and `PipelineScheduler`. Server and worker are the same as in separate
processes; only the supervisor, the parent of every task, is a process of its own.

    async with Standalone(StandaloneSettings(directory=folder / ".mainspring")) as box:
        await box.client.submit_job(..)

    start   bind a port, open the store, start scheduling, serve; then start the worker
    stop    fire nothing more, wait for running tasks, stop the worker, hand over, close
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from types import TracebackType
from typing import Self

import msgspec
import psutil
import structlog

from mainspring.api.server import listen
from mainspring.app.build import POOL, Engine
from mainspring.app.server import DEFAULT_PORT, ServerSettings, assemble
from mainspring.atomic_files import write_atomically
from mainspring.client.aio.client import AsyncClient
from mainspring.core.model.batch import Batch
from mainspring.core.model.settings import SETTINGS
from mainspring.core.model.task import TaskState
from mainspring.core.work.isolation import Isolation
from mainspring.event_loop import start_task
from mainspring.folder.state.records import ADDRESS_FILE
from mainspring.host.loop import Leader
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotLeading, Refused
from mainspring.protocol.ids import entropy
from mainspring.worker.agent.agent import Agent, AgentSettings
from mainspring.worker.agent.launch import WorkerOptions, agent_settings

log = structlog.get_logger()

MIN_CPU_MILLIS = 4_000
"""Minimum capacity of the worker, however few processors there are: tasks of a single user mostly wait."""
RATES = (
    "submissions_per_second", "tenant_submissions_per_second", "user_submissions_per_second", "queries_per_second",
    "actions_per_second",
)  # fmt: skip
SINGLE_USER_SETTINGS = ("p0_needs_grant=0", *(f"{name}={SETTINGS[name].maximum}" for name in RATES))
"""With a single user there are no rate limits and no grants. Settings at run time take precedence."""
_MAX_PORT_ATTEMPTS = 20
_POLL_SECONDS = 0.05
_LEAVE_SECONDS = 1.0


class StandaloneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a standalone server."""

    directory: Path
    """Directory of the store, the logs and the worker's result spool."""
    port: int = DEFAULT_PORT
    """0: any free port. If the port is in use, the next free one, unless `exact_port`."""
    exact_port: bool = False
    fires: bool = True
    """False: schedules are not fired before `release`."""
    cpu_millis: int | None = None
    invoker: str = ""
    """Default invoker of map-reduce tasks (`core/work/invoker_options.py`)."""
    python_path: tuple[Path, ...] = ()
    """Import path of the worker for Python functions."""
    container_engine: str = ""
    """Container engine, as for `mainspring worker --container-engine`."""


class Standalone:
    """A server and a worker. `async with` starts and stops them."""

    def __init__(
        self,
        settings: StandaloneSettings,
        *,
        on_run: Callable[[str, str], None] | None = None,
        on_schedules: Callable[[Sequence[str]], None] = lambda schedules: None,
    ) -> None:
        """`on_run` and `on_schedules` are called in the event loop after each durable change; they must be fast.

        `on_run` gets a schedule and its run, which started, ended, is held, or has a task that is retried.
        """
        self._settings = settings
        self._on_run = on_run
        self._on_schedules = on_schedules
        self._stack = AsyncExitStack()
        self._engine: Engine
        self._agent: Agent
        self._worker_task: asyncio.Task[None]
        self._is_stopping_now = False
        self.address = ""
        self.client: AsyncClient

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def release(self) -> None:
        """Start firing schedules."""
        self._engine.triggers.release()

    def hold(self) -> None:
        """Stop firing schedules."""
        self._engine.triggers.hold()

    def running(self) -> int:
        """Return the number of queued and running tasks, without those that wait for a start time."""
        try:
            memory = self._engine.host.leader(POOL).shard.memory
        except NotLeading:
            return 0
        return len(memory.attempts) + sum(memory.queues.depth.values())

    async def wait_until_idle(self, timeout_seconds: float) -> bool:
        """Wait until no task is queued or running. False: timed out, or interrupted by `stop_now`."""
        until = self._engine.clock.monotonic() + timeout_seconds
        while self.running():
            if self._is_stopping_now or self._engine.clock.monotonic() >= until:
                return False
            await self._engine.clock.sleep(_POLL_SECONDS)
        return True

    def stop_now(self) -> None:
        """Stop running tasks instead of waiting for them, with a grace period of a second."""
        if not self._is_stopping_now:
            self._is_stopping_now = True
            self._agent.leave()
            self._agent.leave()

    async def _start(self) -> None:
        settings = self._settings
        listener = claim_port(settings.port, exact=settings.exact_port)
        self._stack.callback(listener.close)
        directory = settings.directory
        make_private(directory)
        server = ServerSettings(
            store=f"sqlite:///{directory / 'mainspring.db'}", port=listener.getsockname()[1], private_webhooks=True,
            webhook_references=True, scheduler_settings=SINGLE_USER_SETTINGS,
        )  # fmt: skip
        on_batch = None if self._on_run is None else partial(_notify_runs, self._on_run)
        assembly = await self._stack.enter_async_context(
            assemble(server, listener, fires=settings.fires, on_batch=on_batch, on_schedules=self._on_schedules)
        )
        self._engine, self.address = assembly.engine, assembly.ready.address
        self.client = await self._stack.enter_async_context(AsyncClient(self.address, token="", tenant=""))
        await self._engine.leader(POOL)
        self._agent = Agent(self._worker(), SystemClock(), Random(entropy()))
        self._worker_task = start_task(self._agent.run(), "worker")
        self._stack.push_async_callback(self._leave)
        address_file = directory / ADDRESS_FILE
        write_atomically(address_file, msgspec.json.encode({"address": self.address, "pid": os.getpid()}))
        self._stack.callback(address_file.unlink, missing_ok=True)
        log.info("standalone.ready", address=self.address)

    def _worker(self) -> AgentSettings:
        settings = self._settings
        cpu = settings.cpu_millis or max(MIN_CPU_MILLIS, 1_000 * (psutil.cpu_count() or 1))
        host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "worker"
        return agent_settings(
            WorkerOptions(
                servers=(self.address,), name=host, cpu_millis=cpu, state_dir=settings.directory / "worker",
                drain_seconds=_LEAVE_SECONDS, python_path=settings.python_path, invoker=settings.invoker,
                isolation=Isolation.NONE, container_engine=settings.container_engine, allow_private_http=True,
            )
        )  # fmt: skip

    async def _leave(self) -> None:
        """Stop the worker. Unfinished attempts are returned, and start again with the next start."""
        self._agent.leave()
        await asyncio.gather(self._worker_task, return_exceptions=True)


def _notify_runs(on_run: Callable[[str, str], None], leader: Leader, batch: Batch) -> None:
    """Report the changes of schedule runs in a batch."""
    for run in batch.runs:
        if run.schedule_id is not None:
            on_run(run.schedule_id, run.id)
    for transition in batch.transitions:
        if transition.end is TaskState.PENDING and transition.attempt:
            found = leader.shard.memory.runs.get(transition.run_id)
            if found is not None and found.run.schedule_id is not None:
                on_run(found.run.schedule_id, found.run.id)


def make_private(directory: Path) -> None:
    """Create a directory that only this user can read, if it does not exist. Raises Refused if it is not a directory.

    Links are not followed: in a foreign folder a link could redirect our writes.
    """
    if directory.is_symlink():
        raise Refused(f"{directory} must be a directory, not a symbolic link")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"directory {directory} can't be created: {error.strerror}") from error


def claim_port(port: int, *, exact: bool = False) -> socket.socket:
    """Listen on a port of this machine, or on the next free one. Raises Refused."""
    last: Refused | None = None
    for candidate in range(port, port + (1 if exact or not port else _MAX_PORT_ATTEMPTS)):
        try:
            return listen("127.0.0.1", candidate)
        except Refused as refused:
            last = refused
    assert last is not None
    raise last


@contextmanager
def run_in_background(settings: StandaloneSettings) -> Iterator[str]:
    """Run a standalone server in a thread for the duration of the block, and yield its URL. For blocking callers."""
    ready: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop_requested = asyncio.Event()

    async def run() -> None:
        async with Standalone(settings) as standalone:
            ready.set_result(standalone.address)
            await stop_requested.wait()
            standalone.stop_now()

    def work() -> None:
        try:
            loop.run_until_complete(run())
        except BaseException as error:  # noqa: BLE001 - passed to the caller that waits for the URL
            if not ready.done():
                ready.set_exception(error)
        finally:
            loop.close()

    thread = Thread(target=work, name="mainspring-standalone")
    thread.start()
    try:
        yield ready.result()
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop_requested.set)
        thread.join()
