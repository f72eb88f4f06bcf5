"""An event loop whose time is virtual: when nothing is ready, the clock jumps to what comes next.

1. While a thread computes, or somebody waits for a socket, time passes as it does outside: nothing is jumped over.
2. Who knows of nothing until a far moment says so by `far`; else the clock goes from one timer to the next.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any

from mainspring.protocol.clock import MachineClock
from mainspring.task_context.task_context import is_inside

STEP_SECONDS = 1e-6
"""Each round of the loop takes a moment, as it does on a machine: who looks at the clock in a loop sees it move."""
_SELF_PIPE = 1


class _Jump(selectors.DefaultSelector):
    """Asked to wait, it lets the clock jump instead, unless something outside is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self.threads = 0
        self.far: Callable[[], float | None] = lambda: None
        self._machine = MachineClock()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; time has passed if nothing was."""
        ready = super().select(0)
        self.passed += STEP_SECONDS
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None or self.threads or len(self.get_map()) > _SELF_PIPE:
            began = self._machine.monotonic()
            ready = super().select(timeout)
            self.passed += self._machine.monotonic() - began
            return ready
        self.passed += max(timeout, self.far() or 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on virtual time."""

    def __init__(self) -> None:
        self._jump = _Jump()
        self._of_functions: list[float] = []
        """When the timers of users' functions come up."""
        super().__init__(self._jump)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jump.passed

    def count_threads(self, change: int) -> None:
        """A thread has begun to compute (1), or is no longer waited for (-1)."""
        self._jump.threads += change

    def look_far(self, far: Callable[[], float | None]) -> None:
        """Ask this for how many seconds nothing will happen, when nothing is ready; None if that is not known."""
        self._jump.far = far

    def seconds_to_function(self) -> float:
        """When the first timer of a user's function comes up; infinite if none has one."""
        while self._of_functions and self._of_functions[0] <= self.time():
            heapq.heappop(self._of_functions)
        return self._of_functions[0] - self.time() if self._of_functions else float("inf")

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback at a time; those of users' functions are never jumped over."""
        if is_inside():
            heapq.heappush(self._of_functions, when)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run something in a thread; meanwhile time passes as it does outside."""
        self.count_threads(1)
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(lambda _: self.count_threads(-1))
        return future


class VirtualClock:
    """The time of a virtual loop, as a date from `start` on."""

    def __init__(self, loop: VirtualLoop, start: datetime) -> None:
        self._loop = loop
        self._start = start

    def monotonic(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def wall(self) -> datetime:
        """The date."""
        return self._start + timedelta(seconds=self._loop.time())

    async def sleep(self, seconds: float) -> None:
        """Come back after so many virtual seconds."""
        woken = asyncio.Event()
        timer = self._loop.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()
