"""One question, until it has an answer that can be used: tries, with a delay that doubles, each within its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mainspring.core.expressions.values import JsonValue
from mainspring.core.work.map_reduce import LONGEST_RETRY_DELAY_SECONDS, MapStep
from mainspring.mapreduce.answers import read_answer
from mainspring.mapreduce.invokers import Invoke
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import TaskError


class Asker:
    """Asks an invoker as a map says."""

    def __init__(self, invoke: Invoke, step: MapStep, clock: Clock, say: Callable[[str], None]) -> None:
        self._invoke = invoke
        self._step = step
        self._clock = clock
        self._say = say

    async def ask(self, prompt: str, fields: Sequence[str], what: str) -> JsonValue:
        """The answer: an object with these fields, or a text if there are none. Raises TaskError for good.

        `what` tells people which question it was.
        """
        attempts = self._step.attempts
        for attempt in range(1, attempts + 1):
            try:
                return read_answer(await self._once(prompt), fields)
            except TaskError as error:
                delay = self._delay(attempt, error)
                if attempt == attempts or delay is None:
                    raise
                self._say(f"{what}: attempt {attempt} of {attempts} failed, again in {delay:g} s: {error}")
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
        """How long to wait before the next attempt; None if it is not worth one here."""
        if error.failure == "permanent":
            return None
        delay = min(self._step.retry_delay_seconds * 2 ** (attempt - 1), LONGEST_RETRY_DELAY_SECONDS)
        wait = error.retry_after_seconds or 0.0
        # One that is to wait longer than that is better off with the retries of its task.
        return max(delay, wait) if wait <= LONGEST_RETRY_DELAY_SECONDS else None
