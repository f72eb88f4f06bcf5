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

from mainspring.background import Steps, wait_for
from mainspring.core.model.schedule_rows import Decide
from mainspring.core.schedules import evaluate
from mainspring.host.schedules.evaluator import Rule, ScheduleEvaluator
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.schedules import EvaluationResult, Schedules

log = structlog.get_logger()

MAX_PER_PASS = 500
POLL_SECONDS = 1.0
"""Maximum interval between two passes, in which schedules created on other servers are found."""
MIN_WAIT_SECONDS = 0.005
SWEEP_SECONDS = 5.0
"""Maximum delay of a window whose wake-up was lost."""


class TriggerLoop:
    """Fires schedules on one server."""

    def __init__(
        self, store: Schedules, clock: Clock, evaluator: ScheduleEvaluator,
        on_evaluated: Callable[[EvaluationResult], None] = lambda evaluated: None,
    ) -> None:  # fmt: skip
        """`on_evaluated` is called with the results of each evaluation: for metrics."""
        self._store = store
        self._clock = clock
        self._evaluator = evaluator
        self._woken = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()
        self._sweep_at = clock.monotonic()
        self._store_time: tuple[datetime, float] | None = None
        """The store's time, and the monotonic time at which it was read."""
        self._on_evaluated = on_evaluated

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
                wait = POLL_SECONDS
            await wait_for(self._woken, wait)

    async def fire(self) -> int:
        """Evaluate all due schedules; return their number."""
        return await self._evaluate_all(
            lambda decide: self._store.evaluate_due(MAX_PER_PASS, decide), evaluate.evaluate_due
        )

    async def sweep(self) -> int:
        """Evaluate schedules with waiting windows that were not evaluated recently; return their number."""
        return await self._evaluate_all(
            lambda decide: self._store.evaluate_waiting(MAX_PER_PASS, SWEEP_SECONDS, decide), evaluate.evaluate_waiting
        )

    async def _evaluate_all(self, take: Callable[[Decide], Awaitable[EvaluationResult]], rule: Rule) -> int:
        total = 0
        while True:
            evaluated = await self._evaluator.evaluate_taken(take, rule)
            if evaluated is None:
                continue
            total += evaluated.schedules
            self._store_time = evaluated.now, self._clock.monotonic()
            self._on_evaluated(evaluated)
            if evaluated.schedules < MAX_PER_PASS:
                return total

    async def _seconds_to_next(self) -> float:
        due_at = await self._store.next_due()
        if due_at is None or self._store_time is None:
            return POLL_SECONDS
        now, read_at = self._store_time
        wait = (due_at - now).total_seconds() - (self._clock.monotonic() - read_at)
        return min(max(wait, MIN_WAIT_SECONDS), POLL_SECONDS)
