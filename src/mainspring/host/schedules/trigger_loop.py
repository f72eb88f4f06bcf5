"""The trigger loop: fires schedules, one loop per server, without a leader (TRG-4).

    wait               until a schedule is due, at most a second
    due schedules      in batches of 500, until a batch is not full
    waiting windows    every 5 s, those not evaluated for that long

Any number of servers do this at once: the store hands each schedule to one of them, and the decision is written in the
same transaction (`core/schedules/evaluate.py`). If a server dies, each of its schedules is either written completely or
not at all, and another server takes the rest. The store's time decides what is due; the local clock only paces the
loop.

A schedule that can't be evaluated does not stop the others (`evaluator.py`).
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
"""Maximum interval between two passes, in which schedules created on other servers are found."""
LEAST_WAIT_SECONDS = 0.005
SWEEP_SECONDS = 5.0
"""Maximum delay of a window whose wake-up was lost."""


class Triggers:
    """Fires schedules on one server."""

    def __init__(self, store: Schedules, clock: Clock, settler: Settler) -> None:
        self._store = store
        self._clock = clock
        self._settler = settler
        self._woken = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()
        self._sweep_at = clock.monotonic()
        self._heard: tuple[datetime, float] | None = None
        """The store's time, and the monotonic time at which it was read."""
        self.on_settled: Callable[[Settled], None] | None = None
        """Called with the results of each evaluation: for metrics."""

    def wake(self) -> None:
        """Signal that a schedule may be due earlier."""
        self._woken.set()

    def hold(self) -> None:
        """Stop firing and sweeping until `release`. A pass in progress is completed."""
        self._released.clear()

    def release(self) -> None:
        """Continue after `hold`: schedules that became due are fired now."""
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
                # A failed step took no schedule; due schedules stay due.
                steps.check()
                wait = await self._seconds_to_next()
            except Unavailable as fault:
                log.warning("triggers.unavailable", fault=str(fault))
                wait = LOOK_SECONDS
            await self._wait(wait)

    async def fire(self) -> int:
        """Evaluate all due schedules; return their number."""
        return await self._settle_all(lambda decide: self._store.settle_due(AT_ONCE, decide), evaluate.settle_due)

    async def sweep(self) -> int:
        """Evaluate schedules with waiting windows that were not evaluated recently; return their number."""
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
