"""Mapper: ask for each item, with bounded concurrency, and collect the rows.

1. All items are processed even if some fail. After `MAX_CONSECUTIVE_FAILURES` failures in a row the invoker is taken as
   down, and the map is abandoned: a hundred thousand such items would take days.
2. Rows are in the order of the items, whichever is answered first.
3. Answers of earlier attempts of the run are reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mainspring.core.expressions.values import JsonValue
from mainspring.core.work.map_reduce import ANSWER, MapStep
from mainspring.mapreduce.answer_log import AnswerLog
from mainspring.mapreduce.items import Item, Items
from mainspring.mapreduce.prompt_runner import PromptRunner
from mainspring.mapreduce.prompts import Prompt
from mainspring.protocol.errors import MainspringError, TaskError

MAX_CONSECUTIVE_FAILURES = 50
"""Consecutive items that failed after all their attempts, before the map is abandoned."""

Row = dict[str, JsonValue]
"""Fields of an item and of its answer."""


class ItemFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An item that failed for good."""

    index: int
    error: str
    failure: str
    """transient, permanent, .. as in `errors.TaskError`."""
    retry_after_seconds: float | None = None


class Mapped(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a map."""

    rows: Sequence[Row]
    failures: Sequence[ItemFailure]
    count: int
    """Number of items: more than rows and failures together if it was abandoned."""
    was_abandoned: bool


class Mapper:
    """Runs one map."""

    def __init__(
        self,
        step: MapStep,
        prompt_runner: PromptRunner,
        answer_log: AnswerLog,
        params: JsonValue,
        *,
        log: Callable[[str], None],
        on_progress: Callable[[int, int], None],
    ) -> None:
        """`log` writes to the log; `on_progress` gets the number of finished items, and of all. Raises
        ExpressionFailed."""
        self._step = step
        self._prompt_runner = prompt_runner
        self._answer_log = answer_log
        self._params = params
        self._log = log
        self._report_progress = on_progress
        self._prompt = Prompt(step.prompt, step.output)
        self._rows: dict[int, Row] = {}
        self._failures: list[ItemFailure] = []
        self._consecutive_failures = 0

    async def run(self, items: Items) -> Mapped:
        """Ask for each item. Raises InvalidFile if their file becomes invalid meanwhile."""
        self._report_progress(0, items.count)
        source = enumerate(items)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._step.concurrency, items.count)):
                    group.create_task(self._work(source, items.count))
        except* MainspringError as errors:
            raise _first_error(errors) from None
        return Mapped(
            rows=[self._rows[index] for index in sorted(self._rows)],
            failures=sorted(self._failures, key=lambda failure: failure.index),
            count=items.count,
            was_abandoned=self._consecutive_failures >= MAX_CONSECUTIVE_FAILURES and self._done() < items.count,
        )

    async def _work(self, source: Iterator[tuple[int, Item]], count: int) -> None:
        """Process items from the shared source, concurrently with other workers."""
        for index, item in source:
            try:
                answer = await self._answer(index, item)
            except TaskError as error:
                self._fail(index, error)
            else:
                self._consecutive_failures = 0
                self._rows[index] = {**item, **(answer if isinstance(answer, dict) else {ANSWER: answer})}
            if self._consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
                return
            self._report_progress(self._done(), count)

    def _done(self) -> int:
        return len(self._rows) + len(self._failures)

    def _fail(self, index: int, error: TaskError) -> None:
        self._log(f"item {index} failed: {error}")
        # A permanent failure is the item's own fault, not the invoker's.
        self._consecutive_failures += error.failure != "permanent"
        wait = error.retry_after_seconds
        self._failures.append(
            ItemFailure(index=index, error=str(error), failure=error.failure, retry_after_seconds=wait)
        )

    async def _answer(self, index: int, item: Item) -> JsonValue:
        prompt = self._prompt.render({**item, "item": item, "index": index, "params": self._params})
        known = self._answer_log.answer_to(index, prompt)
        if known is not None:
            return known
        answer = await self._prompt_runner.ask(prompt, self._step.output, f"item {index}")
        self._answer_log.keep(index, prompt, answer)
        return answer


def _first_error(errors: BaseExceptionGroup[MainspringError]) -> MainspringError:
    """Return the first error of a group."""
    found = errors.exceptions[0]
    return _first_error(found) if isinstance(found, BaseExceptionGroup) else found
