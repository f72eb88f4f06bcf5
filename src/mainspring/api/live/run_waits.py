"""Requests that wait for the end of a run (`Prefer: wait=30`): one follower of the live stream for all of them.

A run ends with the last transition of its tasks, in the same batch. A waiter therefore checks its run when one of its
tasks has ended, and periodically in case a transition was missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from mainspring.api.live.transitions import TransitionFeed
from mainspring.background import BackgroundLoops, wait_for
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.run import FINAL_RUN
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import Store

log = structlog.get_logger()

_POLL_SECONDS = 5.0
_MIN_CHECK_SECONDS = 0.05
"""Minimum time between two checks of a run: in a wide run many tasks end together."""
_RETRY_SECONDS = 1.0


class RunWaiters:
    """Requests that wait for runs to end."""

    def __init__(self, store: Store, live: TransitionFeed, clock: Clock, background: BackgroundLoops) -> None:
        self._store = store
        self._background = background
        self._live = live
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def wait_until_ended(self, run_id: str, seconds: float) -> None:
        """Wait until a run has ended, the timeout expires or this server stops. Raises Unavailable."""
        if seconds <= 0:
            return
        wakeup = asyncio.Event()
        self._waiting.setdefault(run_id, set()).add(wakeup)
        if self._listening is None:
            self._listening = asyncio.create_task(self._background.supervise("run_waits", self._listen))
        try:
            async with asyncio.timeout(seconds):
                while not self._live.is_stopping and not await self._has_ended(run_id):
                    await self._clock.sleep(_MIN_CHECK_SECONDS)
                    await wait_for(wakeup, _POLL_SECONDS)  # a missed transition is found by the check
                    wakeup.clear()
        except TimeoutError:
            pass  # the response has the current state of the run
        finally:
            self._leave(run_id, wakeup)

    def _leave(self, run_id: str, wakeup: asyncio.Event) -> None:
        others = self._waiting[run_id]
        others.discard(wakeup)
        if not others:
            del self._waiting[run_id]
        if not self._waiting and self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _has_ended(self, run_id: str) -> bool:
        run = await self._store.run(run_id)
        return run is None or run.state in FINAL_RUN

    async def _listen(self) -> None:
        """Wake the waiters whose run may have ended, until cancelled."""
        while not self._live.is_stopping:
            try:
                positions = await self._live.now()
                self._wake_all()  # earlier transitions are visible only in the rows
                async for group in self._live.follow(positions):
                    for entry in group:
                        if entry.transition.end in FINAL:
                            _wake(self._waiting.get(entry.transition.run_id, ()))
                self._wake_all()
            except Unavailable as fault:
                log.warning("waits.unavailable", fault=str(fault))
                await self._clock.sleep(_RETRY_SECONDS)
        await asyncio.Event().wait()  # all waiters return now, and the last one cancels this task

    def _wake_all(self) -> None:
        for waiting in self._waiting.values():
            _wake(waiting)


def _wake(waiting: Iterable[asyncio.Event]) -> None:
    for wakeup in waiting:
        wakeup.set()
