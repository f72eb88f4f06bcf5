"""`PipelineScheduler`: runs a folder of pipelines inside another program (FLD-7), and under `mainspring up`.

    scheduler = PipelineScheduler("pipelines", ai_invoker=ask)
    scheduler.on("execution:complete", lambda event: print(event.pipeline_id, event.duration))
    await scheduler.start()
    ..
    await scheduler.stop()

    start   acquire the lock, start its heartbeat, the server and the worker, read the folder, catch up, then fire
    stop    fire no more windows, wait for running tasks, stop the worker, release the lock

1. Nothing is fired before the folder has been read: a pipeline that was deleted meanwhile does not run again.
2. A scheduler that loses its lock stops at once (`is_lost`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import msgspec
import structlog
from msgspec.structs import replace

from mainspring.app.server import DEFAULT_PORT
from mainspring.app.standalone import Standalone, StandaloneSettings, make_private
from mainspring.core.work.invoker_options import parse_invoker
from mainspring.event_loop import start_task
from mainspring.folder.info import ScheduleInfo
from mainspring.folder.lock import FolderLock
from mainspring.folder.schedule_events import EVENTS, FolderEvent, PipelineExecutionResult, SchedulerStatus
from mainspring.folder.source import FolderSource, FolderSummary
from mainspring.folder.state.records import OWN_DIRECTORY, RunRecord
from mainspring.mapreduce.invoke_function import AnswerFunction
from mainspring.mapreduce.invoke_socket import AnswerSocket
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Conflict, Refused, StoreDamaged
from mainspring.telemetry.log_output import configure_embedded_logging

log = structlog.get_logger()

Listener: TypeAlias = "Callable[[FolderEvent], object]"
SOCKET = "invoker.sock"
_TASK = "folder_scheduler"
_DAMAGED = (
    "move it and its companion files (same name with a suffix) away and start again; "
    "schedules and totals are restored from the state files beside the pipelines"
)
_HORIZON = timedelta(days=366)
_POLL_SECONDS = 2.0
_LATEST = 20
"""Latest fires that are searched for active runs."""


class Upcoming(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An upcoming run."""

    schedule_id: str
    pipeline_id: str
    next_run: datetime


class PipelineScheduler:
    """The scheduler of one folder. Call its methods in one event loop."""

    def __init__(
        self,
        pipelines_directory: Path | str,
        *,
        ai_invoker: AnswerFunction | str | None = None,
        workspace_root: Path | str | None = None,
        max_history_entries: int = 50,
        lock_stale_threshold_ms: int = 60_000,
        heartbeat_interval_ms: int = 10_000,
        port: int = DEFAULT_PORT,
        exact_port: bool = False,
        cpu_millis: int | None = None,
        container_engine: str = "",
    ) -> None:
        """`ai_invoker` is a function, or a value as for `mainspring up --invoker`. Raises Refused.

        Python functions are imported from the folder and from `workspace_root`. The API listens on `port`, or on the
        next free port. `container_engine` has the values of `mainspring up --container-engine`.
        """
        self.root = Path(pipelines_directory).resolve()
        self._invoker_function = ai_invoker if callable(ai_invoker) else None
        invoker = ai_invoker if isinstance(ai_invoker, str) else ""
        if invoker:
            parse_invoker(invoker)
        self._settings = StandaloneSettings(
            directory=self.root / OWN_DIRECTORY, port=port, exact_port=exact_port, fires=False, cpu_millis=cpu_millis,
            invoker=invoker, python_path=(self.root, *([Path(workspace_root)] if workspace_root is not None else [])),
            container_engine=container_engine,
        )  # fmt: skip
        self._max_history_entries = max_history_entries
        self._heartbeat_seconds = heartbeat_interval_ms / 1_000
        self._clock = SystemClock()
        self._lock = FolderLock(self.root, self._clock, stale_seconds=lock_stale_threshold_ms / 1_000)
        self._listeners: dict[str, list[Listener]] = defaultdict(list)
        self._stack = AsyncExitStack()
        self._standalone: Standalone
        self._source: FolderSource
        self._has_source = False
        """Whether changes are passed to the source; it reads everything when it begins."""
        self._is_running = False
        self.stopped = asyncio.Event()
        """Set while the scheduler is not running."""
        self.stopped.set()
        self.is_lost = False
        """Whether it stopped because it lost its lock."""
        self.failure: BaseException | None = None
        """The internal error that stopped it, if any."""

    # lifecycle

    async def start(self) -> FolderSummary:
        """Start. Raises SchedulerLockError if another instance holds the folder's lock."""
        if self._is_running:
            raise Conflict("the scheduler is already running")
        if not self.root.is_dir():
            raise Refused(f"there is no folder {self.root}")
        configure_embedded_logging("warning")
        self._lock.acquire()
        self._stack = AsyncExitStack()
        self._stack.callback(self._lock.release)
        try:
            summary = await self._begin()
        except BaseException as error:
            await self._stack.aclose()
            if isinstance(error, StoreDamaged):
                error.hint = _DAMAGED
            raise
        self._is_running, self.is_lost = True, False
        self.stopped.clear()
        self._emit(SchedulerStatus(status="running"))
        return summary

    async def _begin(self) -> FolderSummary:
        self._emit(SchedulerStatus(status="starting"))
        await self._run_until_stopped(self._heartbeat_loop())
        settings = self._settings
        if self._invoker_function is not None:
            make_private(settings.directory)
            socket = settings.directory / SOCKET
            answering = AnswerSocket(socket, self._invoker_function)
            await answering.open()
            self._stack.push_async_callback(answering.close)
            settings = replace(settings, invoker=f"socket:{socket}")
        self._standalone = Standalone(settings, on_run=self._note_run, on_schedules=self._note_schedules)
        await self._stack.enter_async_context(self._standalone)
        self._source = FolderSource(
            self.root, self._standalone.client, self._clock, max_history_entries=self._max_history_entries,
            on_event=self._emit,
        )  # fmt: skip
        self._has_source = True
        self._stack.push_async_callback(self._source.close)
        summary = await self._source.begin()
        await self._run_until_stopped(self._source.run())
        self._standalone.release()
        return summary

    async def stop(self, timeout_ms: float = 30_000) -> bool:
        """Stop gracefully: wait for running tasks, up to the timeout. False: some tasks had to be stopped.

        Stopped tasks start again with the next start. Stopping twice does nothing.
        """
        if not self._is_running:
            return True
        self._is_running = False
        self._emit(SchedulerStatus(status="stopping"))
        self._standalone.hold()
        is_finished = await self._standalone.wait_until_idle(timeout_ms / 1_000)
        if not is_finished:
            self._standalone.stop_now()
        await self._stack.aclose()
        self._emit(SchedulerStatus(status="stopped"))
        self.stopped.set()
        return is_finished

    def is_running(self) -> bool:
        """Return whether the scheduler is running."""
        return self._is_running

    def stop_now(self) -> None:
        """Stop waiting for running tasks: they are stopped now."""
        self._standalone.stop_now()

    @property
    def address(self) -> str:
        """The URL of the API."""
        return self._standalone.address

    def in_flight(self) -> int:
        """Return the number of running and queued tasks."""
        return self._standalone.running()

    # schedules

    async def list_schedules(self) -> list[ScheduleInfo]:
        """Return all scheduled pipelines."""
        return self._source.schedules()

    async def get_schedule(self, schedule_id: str) -> ScheduleInfo:
        """Return a scheduled pipeline by its scheduleId or pipelineId. Raises NotFound."""
        return self._source.find(schedule_id)

    async def trigger_now(self, schedule_id: str) -> PipelineExecutionResult:
        """Run a pipeline outside its schedule, wait for its end, and return the result."""
        fire = await self._standalone.client.trigger(
            self._source.server_id(schedule_id), why="triggered by the program"
        )
        await self._wait_for_end(fire.run_id or "")
        return await self._source.result_of(self._source.find(schedule_id).schedule_id, fire.run_id or "")

    async def _wait_for_end(self, run_id: str) -> None:
        """Wait until a run has ended or is paused."""
        while (await self._standalone.client.run(run_id)).state != "PAUSED":
            try:
                await self._standalone.client.wait(run_id, _POLL_SECONDS)
            except TimeoutError:
                continue
            return

    async def pause(self, schedule_id: str) -> None:
        """Pause a schedule: skip its windows until it is resumed."""
        await self._standalone.client.pause_schedule(self._source.server_id(schedule_id))

    async def resume(self, schedule_id: str) -> None:
        """Resume a paused schedule."""
        await self._standalone.client.resume_schedule(self._source.server_id(schedule_id))

    async def cancel(self, schedule_id: str) -> None:
        """Cancel the active runs of a schedule. Raises Conflict if there are none."""
        fires = self._standalone.client.fires(self._source.server_id(schedule_id), limit=_LATEST)
        active = [fire async for fire in fires if fire.run_id and not fire.run_state]
        if not active:
            raise Conflict(f"{schedule_id} has no active run")
        for fire in active:
            await self._standalone.client.cancel_run(fire.run_id or "", why="cancelled by the program")

    # queries

    async def get_upcoming(self, limit: int = 10) -> list[Upcoming]:
        """Return the next runs of all schedules, soonest first."""
        known = {info.schedule_id: info for info in self._source.schedules()}
        windows = await self._standalone.client.upcoming(until=self._clock.wall() + _HORIZON, limit=limit)
        return [
            Upcoming(schedule_id=one.schedule, pipeline_id=known[one.schedule].pipeline_id, next_run=one.window_at)
            for one in windows
            if one.schedule in known
        ]

    async def get_history(self, schedule_id: str, limit: int | None = None) -> list[RunRecord]:
        """Return the latest runs of a schedule, newest first."""
        return list(self._source.find(schedule_id).state.history[:limit])

    # events

    def on(self, event: str, listener: Listener) -> None:
        """Register a listener for events of a name. Raises Refused for an unknown name."""
        if event not in EVENTS:
            raise Refused(f"unknown event {event}; events: {', '.join(EVENTS)}")
        self._listeners[event].append(listener)

    def off(self, event: str, listener: Listener) -> None:
        """Remove a listener."""
        if listener in self._listeners[event]:
            self._listeners[event].remove(listener)

    def dispose(self) -> None:
        """Remove all listeners and stop at once, without waiting: `stopped` is set at the end."""
        self._listeners.clear()
        start_task(self.stop(timeout_ms=0), _TASK)

    def _emit(self, event: FolderEvent) -> None:
        for listener in list(self._listeners[event.event]):
            try:
                result = listener(event)
            except Exception:
                # A failing listener does not stop the scheduler.
                log.exception("listener.failed", about=event.event)
                continue
            if inspect.iscoroutine(result):
                start_task(result, _TASK)

    # background work

    async def _run_until_stopped(self, work: Awaitable[None]) -> None:
        """Run work in the background until the scheduler stops."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._on_task_done)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    def _on_task_done(self, task: asyncio.Future[None]) -> None:
        """Stop the scheduler if background work fails."""
        if task.cancelled() or task.exception() is None:
            return
        self.failure = task.exception()
        log.error("scheduler.failed", folder=str(self.root), exc_info=self.failure)
        start_task(self.stop(), _TASK)

    async def _heartbeat_loop(self) -> None:
        while self._lock.renew():
            await self._clock.sleep(self._heartbeat_seconds)
        log.error("lock.lost", folder=str(self.root))
        self.is_lost = True
        start_task(self.stop(timeout_ms=0), _TASK)

    def _note_run(self, schedule: str, run: str) -> None:
        if self._has_source:
            self._source.run_changed(schedule, run)

    def _note_schedules(self, schedules: Sequence[str]) -> None:
        if self._has_source:
            self._source.schedule_changed(schedules)
