"""`PipelineScheduler`: a folder of pipelines inside of another program (FLD-7), and what `mainspring up` runs.

    scheduler = PipelineScheduler("pipelines", ai_invoker=ask)
    scheduler.on("execution:complete", lambda event: print(event.pipeline_id, event.duration))
    await scheduler.start()
    ..
    await scheduler.stop()

    start   the lock, its heartbeat, the server and the worker, the folder as it is now, what was missed, then the rest
    stop    no more windows, what runs is waited for, the worker leaves, the lock is given back

1. Nothing is fired before the folder has been read: what was deleted while nobody watched does not run once more.
2. Whoever finds the lock in other hands stops at once, and says so (`is_lost`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import structlog

from mainspring.app.server import DEFAULT_PORT
from mainspring.app.standalone import RunNote, Standalone, StandaloneSettings, make_private
from mainspring.core.work.invoker_options import parse_invoker
from mainspring.event_loop import start_task
from mainspring.folder.lock import FolderLock
from mainspring.folder.schedule_events import EVENTS, FolderEvent, PipelineExecutionResult, SchedulerStatus
from mainspring.folder.source import Beginning, FolderSource, ScheduleInfo
from mainspring.folder.state.records import OWN_DIRECTORY, RunRecord
from mainspring.mapreduce.invoke_function import AnswerFunction
from mainspring.mapreduce.invoke_socket import AnswerSocket
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import Conflict, Refused, StoreDamaged
from mainspring.telemetry.log_output import configure_inside

log = structlog.get_logger()

Listener: TypeAlias = "Callable[[FolderEvent], object]"
SOCKET = "invoker.sock"
_DAMAGED = (
    "move it away, with all that begins with its name, and start again: "
    "the state files beside the pipelines bring schedules and totals back"
)
_FAR = timedelta(days=366)
_LOOK_SECONDS = 2.0
_LATEST = 20
"""Windows among which those are that run."""


class Upcoming(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run that is to come."""

    schedule_id: str
    pipeline_id: str
    next_run: datetime


class PipelineScheduler:
    """The scheduler of one folder. Its methods are called in one event loop."""

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
        """`ai_invoker` is a function, or what `mainspring up --invoker` takes. Raises Refused.

        `workspace_root` is where Python functions are found besides the folder. `port` is where the API answers; if it
        is taken, the next one that is free. `container_engine` is what `mainspring up --container-engine` takes.
        """
        self.root = Path(pipelines_directory).resolve()
        self._ask = ai_invoker if callable(ai_invoker) else None
        self._invoker = ai_invoker if isinstance(ai_invoker, str) else ""
        if self._invoker:
            parse_invoker(self._invoker)
        self._python_path = (self.root, *([Path(workspace_root)] if workspace_root is not None else []))
        self._max_history_entries = max_history_entries
        self._heartbeat_seconds = heartbeat_interval_ms / 1_000
        self._port, self._exact_port, self._cpu_millis = port, exact_port, cpu_millis
        self._container_engine = container_engine
        self._clock = MachineClock()
        self._lock = FolderLock(self.root, self._clock, stale_seconds=lock_stale_threshold_ms / 1_000)
        self._listeners: dict[str, list[Listener]] = defaultdict(list)
        self._stack = AsyncExitStack()
        self._box: Standalone
        self._source: FolderSource
        self._has_source = False
        """Before, nobody has to be told: it looks at everything when it begins."""
        self._is_running = False
        self.stopped = asyncio.Event()
        """It has stopped, or never started."""
        self.stopped.set()
        self.is_lost = False
        """The lock is in other hands: that is why it stopped."""
        self.failure: BaseException | None = None
        """A fault of ours is why it stopped."""

    # lifecycle

    async def start(self) -> Beginning:
        """Start. Raises SchedulerLockError if another instance has the folder."""
        if self._is_running:
            raise Conflict("the scheduler is running already")
        if not self.root.is_dir():
            raise Refused(f"there is no folder {self.root}")
        configure_inside("warning")
        self._lock.acquire()
        self._stack = AsyncExitStack()
        self._stack.callback(self._lock.release)
        try:
            beginning = await self._begin()
        except BaseException as error:
            await self._stack.aclose()
            if isinstance(error, StoreDamaged):
                error.hint = _DAMAGED
            raise
        self._is_running, self.is_lost = True, False
        self.stopped.clear()
        self._emit(SchedulerStatus(status="running"))
        return beginning

    async def _begin(self) -> Beginning:
        self._emit(SchedulerStatus(status="starting"))
        await self._go_on(self._beat())
        own = self.root / OWN_DIRECTORY
        invoker = self._invoker
        if self._ask is not None:
            make_private(own)
            answering = AnswerSocket(own / SOCKET, self._ask)
            await answering.open()
            self._stack.push_async_callback(answering.close)
            invoker = f"socket:{own / SOCKET}"
        settings = StandaloneSettings(
            directory=own, port=self._port, exact_port=self._exact_port, fires=False, cpu_millis=self._cpu_millis,
            invoker=invoker, python_path=self._python_path, container_engine=self._container_engine,
        )  # fmt: skip
        self._box = Standalone(settings, on_run=self._note_run, on_schedules=self._note_schedules)
        await self._stack.enter_async_context(self._box)
        self._source = FolderSource(
            self.root, self._box.client, self._clock, max_history_entries=self._max_history_entries,
            on_event=self._emit,
        )  # fmt: skip
        self._has_source = True
        self._stack.push_async_callback(self._source.close)
        beginning = await self._source.begin()
        await self._go_on(self._source.run())
        self._box.release()
        return beginning

    async def stop(self, timeout_ms: float = 30_000) -> bool:
        """Stop in order: what runs is waited for, up to this long. False: something had to be stopped.

        What was stopped begins again with the next start. To stop twice does nothing.
        """
        if not self._is_running:
            return True
        self._is_running = False
        self._emit(SchedulerStatus(status="stopping"))
        self._box.hold()
        is_through = await self._box.settle(timeout_ms / 1_000)
        if not is_through:
            self._box.hurry()
        await self._stack.aclose()
        self._emit(SchedulerStatus(status="stopped"))
        self.stopped.set()
        return is_through

    def is_running(self) -> bool:
        """Whether it has started and not stopped."""
        return self._is_running

    def hurry(self) -> None:
        """Do not wait any more for what runs."""
        self._box.hurry()

    @property
    def address(self) -> str:
        """Where the API answers."""
        return self._box.address

    def in_flight(self) -> int:
        """How many tasks run, or wait for a worker."""
        return self._box.running()

    # schedules

    async def list_schedules(self) -> list[ScheduleInfo]:
        """All scheduled pipelines."""
        return self._source.schedules()

    async def get_schedule(self, schedule_id: str) -> ScheduleInfo:
        """One of them, by its scheduleId or pipelineId. Raises NotFound."""
        return self._source.find(schedule_id)

    async def trigger_now(self, schedule_id: str) -> PipelineExecutionResult:
        """Run a pipeline outside of its schedule, and wait for the end. What became of it is in the result."""
        fire = await self._box.client.trigger(self._source.server_id(schedule_id), why="triggered by the program")
        await self._ended(fire.run_id or "")
        return await self._source.result_of(self._source.find(schedule_id).schedule_id, fire.run_id or "")

    async def _ended(self, run_id: str) -> None:
        """Wait until nothing more becomes of a run by itself."""
        while (await self._box.client.run(run_id)).state != "PAUSED":
            try:
                await self._box.client.wait(run_id, _LOOK_SECONDS)
            except TimeoutError:
                continue
            return

    async def pause(self, schedule_id: str) -> None:
        """Leave out what comes, until it is resumed."""
        await self._box.client.pause_schedule(self._source.server_id(schedule_id))

    async def resume(self, schedule_id: str) -> None:
        """Go on after a pause."""
        await self._box.client.resume_schedule(self._source.server_id(schedule_id))

    async def cancel(self, schedule_id: str) -> None:
        """Cancel what runs of a schedule. Raises Conflict if nothing does."""
        fires = self._box.client.fires(self._source.server_id(schedule_id), limit=_LATEST)
        active = [fire async for fire in fires if fire.run_id and not fire.run_state]
        if not active:
            raise Conflict(f"nothing of {schedule_id} is running")
        for fire in active:
            await self._box.client.cancel_run(fire.run_id or "", why="cancelled by the program")

    # questions

    async def get_upcoming(self, limit: int = 10) -> list[Upcoming]:
        """The next runs of all schedules, the soonest first."""
        known = {info.schedule_id: info for info in self._source.schedules()}
        windows = await self._box.client.upcoming(until=self._clock.wall() + _FAR, limit=limit)
        return [
            Upcoming(schedule_id=one.schedule, pipeline_id=known[one.schedule].pipeline_id, next_run=one.window_at)
            for one in windows
            if one.schedule in known
        ]

    async def get_history(self, schedule_id: str, limit: int | None = None) -> list[RunRecord]:
        """The latest runs of a schedule, the newest first."""
        return list(self._source.find(schedule_id).state.history[:limit])

    # events

    def on(self, event: str, listener: Listener) -> None:
        """Have a function called with each event of this name. Raises Refused if there is none of it."""
        if event not in EVENTS:
            raise Refused(f"there is no event {event}: there are {', '.join(EVENTS)}")
        self._listeners[event].append(listener)

    def off(self, event: str, listener: Listener) -> None:
        """Call it no more."""
        if listener in self._listeners[event]:
            self._listeners[event].remove(listener)

    def dispose(self) -> None:
        """Tell nobody anything more, and stop at once, without waiting for it: `stopped` says when it is through."""
        self._listeners.clear()
        self._do_aside(self.stop(timeout_ms=0))

    def _emit(self, event: FolderEvent) -> None:
        for listener in list(self._listeners[event.event]):
            try:
                told = listener(event)
            except Exception:
                # Whatever a listener does, the schedule goes on.
                log.exception("listener.failed", about=event.event)
                continue
            if inspect.iscoroutine(told):
                self._do_aside(told)

    def _do_aside(self, deed: Coroutine[Any, Any, object]) -> None:
        start_task(deed, "scheduler_aside")

    # what goes on by itself

    async def _go_on(self, duty: Awaitable[None]) -> None:
        """Have something done until it stops."""
        task = asyncio.ensure_future(duty)
        task.add_done_callback(self._look_at_end)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    def _look_at_end(self, task: asyncio.Future[None]) -> None:
        """Nothing that goes on by itself may end by a fault unseen: then everything stops in order."""
        if task.cancelled() or task.exception() is None:
            return
        self.failure = task.exception()
        log.error("scheduler.failed", folder=str(self.root), exc_info=self.failure)
        self._do_aside(self.stop())

    async def _beat(self) -> None:
        while self._lock.renew():
            await self._clock.sleep(self._heartbeat_seconds)
        log.error("lock.lost", folder=str(self.root))
        self.is_lost = True
        self._do_aside(self.stop(timeout_ms=0))

    def _note_run(self, note: RunNote) -> None:
        if self._has_source:
            self._source.run_changed(note.schedule, note.run)

    def _note_schedules(self, schedules: Sequence[str]) -> None:
        if self._has_source:
            self._source.schedule_changed(schedules)
