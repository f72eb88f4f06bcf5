"""Run one prompt until it has a usable answer: attempts with exponential backoff, each with a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mainspring.core.expressions.values import JsonValue
from mainspring.core.work.map_reduce import MAX_RETRY_DELAY_SECONDS, MapStep
from mainspring.mapreduce.answers import read_answer
from mainspring.mapreduce.invokers import InvokerClient
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import TaskError


class PromptRunner:
    """Runs prompts as configured by a map step."""

    def __init__(self, invoke: InvokerClient, step: MapStep, clock: Clock, log: Callable[[str], None]) -> None:
        self._invoke = invoke
        self._step = step
        self._clock = clock
        self._log = log

    async def ask(self, prompt: str, fields: Sequence[str], what: str) -> JsonValue:
        """Return an object with these fields, or a text if there are none. Raises TaskError after the last attempt.

        `what` names the prompt in messages.
        """
        attempts = self._step.attempts
        for attempt in range(1, attempts + 1):
            try:
                return read_answer(await self._once(prompt), fields)
            except TaskError as error:
                delay = self._delay(attempt, error)
                if attempt == attempts or delay is None:
                    raise
                self._log(f"{what}: attempt {attempt} of {attempts} failed, retrying in {delay:g}s: {error}")
            await self._clock.sleep(delay)
        raise TaskError(f"{what} has no attempts")

    async def _once(self, prompt: str) -> str:
        seconds = self._step.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._invoke.ask(prompt)
        except TimeoutError:
            raise TaskError(f"no answer within {seconds:g} s", failure="transient") from None

    def _delay(self, attempt: int, error: TaskError) -> float | None:
        """Return the delay before the next attempt; None if there should be none."""
        if error.failure == "permanent":
            return None
        delay = min(self._step.retry_delay_seconds * 2 ** (attempt - 1), MAX_RETRY_DELAY_SECONDS)
        wait = error.retry_after_seconds or 0.0
        # A longer wait is left to the retries of the task.
        return max(delay, wait) if wait <= MAX_RETRY_DELAY_SECONDS else None
