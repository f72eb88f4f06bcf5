"""The firing of schedules: one loop per server, and no leader (TRG-4).

    until something is due, at most a second:  wait
    what is due      in chunks of 500, until fewer come back
    what waits       every 5 s, what was not looked at for so long

Any number of servers do this at once: the store hands each schedule to one of them, and whatever is decided of it is
written in the same transaction (`core/schedules/evaluate.py`). A server that dies in the middle has written whole
schedules or nothing, and another one takes the rest. The store's time decides what is due; the clock here only says
when to look.

A schedule that can't be settled does not stop the others (`evaluator.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog

from mainspring.core.model.schedule_rows import Decide
from mainspring.core.schedules import evaluate
from mainspring.host.background import Steps
from mainspring.host.schedules.evaluator import Rule, Settler
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.schedules import Schedules, Settled

log = structlog.get_logger()

AT_ONCE = 500
LOOK_SECONDS = 1.0
"""At most so long between two looks: what was created on another server is found then."""
LEAST_WAIT_SECONDS = 0.005
SWEEP_SECONDS = 5.0
"""How long a window waits at most that nobody was told about."""


class Triggers:
    """One server's part in the firing."""

    def __init__(self, store: Schedules, clock: Clock, settler: Settler) -> None:
        self._store = store
        self._clock = clock
        self._settler = settler
        self._woken = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()
        self._sweep_at = clock.monotonic()
        self._heard: tuple[datetime, float] | None = None
        """The store's time, and when by our clock we heard it."""
        self.on_settled: Callable[[Settled], None] | None = None
        """Told of what was settled because it was due: for measuring."""

    def wake(self) -> None:
        """Something may be due earlier than it was."""
        self._woken.set()

    def hold(self) -> None:
        """Let `run` fire and sweep nothing more until `release`. What is under way is carried through."""
        self._released.clear()

    def release(self) -> None:
        """Go on after `hold`: what was due meanwhile is fired now."""
        self._released.set()

    async def run(self) -> None:
        """Fire until cancelled."""
        while True:
            await self._released.wait()
            self._woken.clear()
            steps = Steps()
            try:
                if self._clock.monotonic() >= self._sweep_at:
                    await steps.attempt(self.sweep())
                    self._sweep_at = self._clock.monotonic() + SWEEP_SECONDS
                await steps.attempt(self.fire())
                # Of what failed nothing was taken, so no schedule can be blocked; what is due stays due.
                steps.check()
                wait = await self._seconds_to_next()
            except Unavailable as fault:
                log.warning("triggers.unavailable", fault=str(fault))
                wait = LOOK_SECONDS
            await self._wait(wait)

    async def fire(self) -> int:
        """Settle all that is due; how many schedules that were."""
        return await self._settle_all(lambda decide: self._store.settle_due(AT_ONCE, decide), evaluate.settle_due)

    async def sweep(self) -> int:
        """Decide again what waits and was not looked at for a while; how many schedules that were."""
        return await self._settle_all(
            lambda decide: self._store.settle_waiting(AT_ONCE, SWEEP_SECONDS, decide), evaluate.settle_waiting
        )

    async def _settle_all(self, take: Callable[[Decide], Awaitable[Settled]], rule: Rule) -> int:
        total = 0
        while True:
            settled = await self._settler.settle_some(take, rule)
            if settled is None:
                continue
            total += settled.schedules
            self._heard = settled.now, self._clock.monotonic()
            if self.on_settled is not None:
                self.on_settled(settled)
            if settled.schedules < AT_ONCE:
                return total

    async def _seconds_to_next(self) -> float:
        due_at = await self._store.next_due()
        if due_at is None or self._heard is None:
            return LOOK_SECONDS
        now, heard = self._heard
        wait = (due_at - now).total_seconds() - (self._clock.monotonic() - heard)
        return min(max(wait, LEAST_WAIT_SECONDS), LOOK_SECONDS)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
