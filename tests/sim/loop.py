"""An event loop whose time is virtual and whose callbacks belong to processes that can be stalled and killed.

Nothing waits in real time: when nothing is ready, the clock jumps to the next timer. The process of a callback is in
its context (`PROCESS`), which tasks and timers inherit. So a stall stops everything of a process wherever it waits, as
SIGSTOP does, and after a kill nothing of it runs, not even a `finally`.

1. Callbacks that are ready run in the order in which they became so; a process that wakes catches up in that order.
2. There are no threads, sockets or signals here.
"""

from __future__ import annotations

import asyncio
import heapq
import traceback
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any, NoReturn, TypeVar

from mainspring.protocol.errors import MainspringError

_T = TypeVar("_T")
PASS_SECONDS = 1e-6
MOST_STEPS_A_SECOND = 20_000
_MOST_FINALLYS = 5
"""Nested awaits in a task that is abandoned at the end."""


class Process:
    """A unit that can be stalled or killed: a server, or a worker's agent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.stalled_until = 0.0
        self.context = Context()
        self.context.run(PROCESS.set, self)


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Stuck(Exception):
    """Raised when no timer is left, or when too many callbacks run without time passing."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order of virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0
        self.over = False
        self.failures: list[str] = []
        """Exceptions of tasks that were not awaited."""
        self.outside = Context()
        """Owner of callbacks without a process: network, store, checks."""
        self._queue: deque[Handle] = deque()
        self._timers: list[tuple[float, float, int, Handle]] = []
        self._count = 0
        self._kept: list[asyncio.Task[Any]] = []
        self._prune_at = 2_000
        self._second_ends = 0.0
        self._steps_before = 0

    # asyncio's loop interface

    def time(self) -> float:
        """Virtual seconds since the beginning."""
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        """Run a callback as soon as its process can."""
        handle = Handle(callback, args, self, context)
        if not self.over:
            self._queue.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Run a callback at a time."""
        handle = TimerHandle(when, callback, args, self, context)
        if not self.over:
            self._count += 1
            heapq.heappush(self._timers, (when, when, self._count, handle))
        return handle

    def call_soon_threadsafe(self, *_: object, **__: object) -> NoReturn:
        """There are no threads."""
        raise AssertionError("a thread was used in the simulation")

    def run_in_executor(self, *_: object, **__: object) -> NoReturn:
        """There are no threads."""
        raise AssertionError("a thread was used in the simulation")

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, _T], *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[_T]:
        """Start a task, and keep a reference: a killed task must not be collected, or its `finally` would run."""
        task = asyncio.Task(coro, loop=self, name="task", context=context)
        self._kept.append(task)
        if len(self._kept) > self._prune_at:
            self.find_crashes()
            self._prune_at = len(self._kept) + 2_000
        return task

    def find_crashes(self) -> None:
        """Record unexpected exceptions of tasks; drop ended ones."""
        for task in self._kept:
            if task.done() and task._log_traceback and not isinstance(task.exception(), MainspringError):
                self.failures.append(_story(task.exception()))
        self._kept = [task for task in self._kept if not task.done()]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record the exception of a callback. (An abandoned call may fail unnoticed.)"""
        if not self.over and "never retrieved" not in context.get("message", ""):
            self.failures.append(f"{context.get('message')}: {_story(context.get('exception'))}")

    def get_debug(self) -> bool:
        """Debug mode is off."""
        return False

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Cancelled timers are dropped when they fire."""

    # running

    def run_until(self, done: asyncio.Future[_T]) -> _T:
        """Run until `done` is, and return its result."""
        asyncio.events._set_running_loop(self)
        try:
            while not done.done():
                self._run_ready()
            return done.result()
        finally:
            asyncio.events._set_running_loop(None)

    def end(self) -> None:
        """Drop all remaining tasks without effect."""
        self.over = True
        self._queue.clear()
        self._timers.clear()
        for task in self._kept:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            for _ in range(_MOST_FINALLYS if not task.done() else 0):
                try:
                    task.get_coro().close()
                except RuntimeError:
                    continue  # It awaits in a `finally`, which has to be closed too.
                break
        self._kept.clear()
        self.close()

    def _run_ready(self) -> None:
        queue, timers = self._queue, self._timers
        if not queue:
            if not timers:
                raise Stuck("nothing is left to happen")
            self.now = max(self.now, timers[0][0])
        # Each callback takes a little time: a wait below the clock's resolution would never end otherwise.
        now = self.now = self.now + PASS_SECONDS
        if now >= self._second_ends:
            self._second_ends, self._steps_before = now + 1.0, self.steps
        elif self.steps - self._steps_before > MOST_STEPS_A_SECOND:
            raise Stuck(f"the world spins: {MOST_STEPS_A_SECOND} steps within a second")
        while timers and timers[0][0] <= now:
            _, when, count, handle = heapq.heappop(timers)
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is not None and (process.dead or process.stalled_until > now):
                if not process.dead:
                    heapq.heappush(timers, (process.stalled_until, when, count, handle))
                continue
            queue.append(handle)
        for _ in range(len(queue)):
            handle = queue.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is not None and (process.dead or process.stalled_until > now):
                if not process.dead:
                    self._count += 1
                    heapq.heappush(timers, (process.stalled_until, now, self._count, handle))
                continue
            self.steps += 1
            handle._run()


def _story(error: BaseException | None) -> str:
    return "".join(traceback.format_exception(error)[-4:]) if error is not None else "nothing"
