"""Supervised background loops: the one place that starts tasks which run as long as their owner.

    supervise(name, loop)    run the loop; when it fails: log, count, back off, restart
    running({name: loop})    supervise loops for the duration of a block

1. A loop that fails, or returns unexpectedly, is logged with a traceback, counted and restarted
   (`core/lifecycle/restart_policy.py`).
2. Cancellation passes through and is not a failure. An error raised during cancellation is logged.
3. `Fenced` ends a loop for good: its term has ended, which the leader's loop detects too.
4. A loop that keeps failing makes its server not ready (`failing`, `GET /readyz`).

A single fault never stops a pass: a loop tries all steps of a pass (`Steps`), and the store skips unreadable rows
(`Codec.readable`). Tasks that end on their own are started by `event_loop.start_task`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import msgspec
import structlog

from mainspring.core.lifecycle.restart_policy import LoopHealth
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Broken, Fenced, MainspringError, Unavailable

log = structlog.get_logger()
_T = TypeVar("_T")

Loop: TypeAlias = Callable[[], Awaitable[None]]


class SupervisedLoop(msgspec.Struct, eq=False):
    """A loop under supervision."""

    name: str
    shard: str
    """The leader's shard; empty for a loop of the server."""
    health: LoopHealth = LoopHealth()


class BackgroundLoops:
    """The background loops of one process, and their health."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._supervised: list[SupervisedLoop] = []
        self.failures: Counter[str] = Counter()
        """Failures by loop."""

    async def supervise(self, name: str, loop: Loop, *, shard: str = "", until: asyncio.Event | None = None) -> None:
        """Run a loop until cancelled, or until the event is set; after that the loop may return."""
        one = SupervisedLoop(name, shard)
        self._supervised.append(one)
        self.failures[name] += 0
        try:
            while until is None or not until.is_set():
                one.health = one.health.started(self._clock.monotonic())
                try:
                    await loop()
                    if until is not None and until.is_set():
                        return
                    raise Broken(f"the loop {name} returned")
                except Fenced as fault:
                    log.info("background.fenced", loop=name, shard=shard, fault=str(fault))
                    return
                except asyncio.CancelledError as error:
                    if _is_cancelled():
                        raise
                    self._note_failure(one, error)
                except Exception as error:
                    if _is_cancelled():
                        log.exception("background.stop_failed", loop=name, shard=shard, fault=repr(error))
                        raise asyncio.CancelledError from error
                    self._note_failure(one, error)
                await self._back_off(one.health.backoff_seconds(), until)
        finally:
            self._supervised.remove(one)

    @asynccontextmanager
    async def running(self, loops: Mapping[str, Loop]) -> AsyncIterator[None]:
        """Supervise loops by name for the duration of the block."""
        tasks = [asyncio.create_task(self.supervise(name, loop)) for name, loop in loops.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def failing(self) -> list[SupervisedLoop]:
        """The loops that keep failing."""
        now = self._clock.monotonic()
        return [one for one in self._supervised if one.health.is_failing(now)]

    def _note_failure(self, one: SupervisedLoop, error: BaseException) -> None:
        one.health = one.health.failed(code_of(error), self._clock.monotonic())
        self.failures[one.name] += 1
        log.error(
            "background.failed", loop=one.name, shard=one.shard, code=one.health.code, fault=repr(error),
            failures=one.health.failures, restart_seconds=one.health.backoff_seconds(), exc_info=error,
        )  # fmt: skip

    async def _back_off(self, seconds: float, until: asyncio.Event | None) -> None:
        if until is None:
            await self._clock.sleep(seconds)
        else:
            await wait_for(until, seconds)


class Steps:
    """The steps of one pass of a loop: each is tried, even if others fail.

    steps = Steps()
    await steps.attempt(first())
    await steps.attempt(second())
    steps.check()
    """

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    async def attempt(self, step: Awaitable[_T]) -> _T | None:
        """Run a step; None if it failed. Raises Unavailable: without the store the other steps would fail too."""
        try:
            return await step
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - raised by `check`, when the other steps are done
            self._errors.append(error)
            return None

    def check(self) -> None:
        """Raise the error of the steps; several errors as a group."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ExceptionGroup(f"{len(self._errors)} steps failed", self._errors)


async def repeat(step: Callable[[], Awaitable[object]], clock: Clock, seconds: float, unavailable: str) -> None:
    """Repeat a step until cancelled. While the store can't be reached, `unavailable` is logged for each attempt."""
    while True:
        try:
            await step()
        except Unavailable as fault:
            log.warning(unavailable, fault=str(fault))
        await clock.sleep(seconds)


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait until an event is set, at most this long; return whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def code_of(error: BaseException) -> str:
    """Return the code of an error, or of the first error of a group. A foreign error counts as a broken invariant."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.code if isinstance(error, MainspringError) else Broken.code


def _is_cancelled() -> bool:
    """Return whether the current task was cancelled. A `CancelledError` can also come from an awaited task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
