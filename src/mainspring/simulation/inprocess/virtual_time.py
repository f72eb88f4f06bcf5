"""An event loop on virtual time: when nothing is ready, the clock jumps to the next timer.

1. While a thread computes or a socket is awaited, time passes as outside: nothing is skipped.
2. A known idle period is skipped by `idle_seconds`; otherwise the clock goes from one timer to the next.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.protocol.clock import SystemClock
from mainspring.task_context.task_context import is_inside

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Default start of virtual time."""
STEP_SECONDS = 1e-6
"""Each round of the loop takes a moment, as on a real machine: a busy loop sees the clock move."""
_SELF_PIPE = 1


class _Jump(selectors.DefaultSelector):
    """A selector that advances the clock instead of waiting, unless something outside is pending."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self.threads = 0
        self.idle_seconds: Callable[[], float | None] = lambda: None
        self._machine = SystemClock()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; time passes if nothing is."""
        ready = super().select(0)
        self.passed += STEP_SECONDS
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.threads or len(self.get_map()) > _SELF_PIPE:
            began = self._machine.monotonic()
            ready = super().select(timeout)
            self.passed += self._machine.monotonic() - began
            return ready
        if timeout is None:
            raise RuntimeError("deadlock: a coroutine waits, and there is no timer, thread or socket")
        self.passed += max(timeout, self.idle_seconds() or 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time."""

    def __init__(self) -> None:
        self._jump = _Jump()
        self._of_functions: list[float] = []
        """When the timers of user functions fire."""
        super().__init__(self._jump)

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._jump.passed

    def count_threads(self, change: int) -> None:
        """Count a thread that starts (1), or that is not awaited any more (-1)."""
        self._jump.threads += change

    def set_idle_estimate(self, idle_seconds: Callable[[], float | None]) -> None:
        """Set the function that returns the idle seconds when nothing is ready; None if not known."""
        self._jump.idle_seconds = idle_seconds

    def seconds_to_function(self) -> float:
        """Seconds until the first timer of a user function; infinite if there is none."""
        while self._of_functions and self._of_functions[0] <= self.time():
            heapq.heappop(self._of_functions)
        return self._of_functions[0] - self.time() if self._of_functions else float("inf")

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback at a time; those of user functions are never skipped."""
        if is_inside():
            heapq.heappush(self._of_functions, when)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run a function in a thread; meanwhile time passes as outside."""
        self.count_threads(1)
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(lambda _: self.count_threads(-1))
        return future


class VirtualClock(SystemClock):
    """Clock of a virtual loop, by default the running one, with dates from `start` on."""

    def __init__(self, start: datetime = START, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.skew = timedelta()
        """Shifts the wall clock."""
        self._start = start
        self._loop = loop

    def monotonic(self) -> float:
        """The loop's time."""
        return (self._loop or asyncio.get_running_loop()).time()

    def wall(self) -> datetime:
        """The current date."""
        return self._start + timedelta(seconds=self.monotonic()) + self.skew
