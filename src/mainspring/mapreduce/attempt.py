"""One map-reduce attempt, from the items to the result file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path, PurePosixPath

import msgspec

from mainspring.atomic_files import rename_without_replacing
from mainspring.core.expressions.values import JsonValue
from mainspring.core.work.map_reduce import OnItemFailure
from mainspring.core.work.work import MapReduce
from mainspring.mapreduce.answer_log import AnswerLog, remove_old
from mainspring.mapreduce.invokers import InvokerClient, make_invoker_client
from mainspring.mapreduce.items import Items, open_items
from mainspring.mapreduce.mapper import ItemFailure, Mapped, Mapper
from mainspring.mapreduce.paths import make_directory
from mainspring.mapreduce.prompt_runner import PromptRunner
from mainspring.mapreduce.reducer import reduce_rows
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import TaskError
from mainspring.task_context.task_context import Context

MAX_RESULT_BYTES = 64 * 1024
"""A larger result is only in its file."""
_PROGRESS_SECONDS = 0.2


class Failed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Error that an attempt reports to its worker."""

    type: str
    message: str
    failure: str = msgspec.field(name="class")
    retry_after_seconds: float | None = None


class ResultFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file, for every result format."""

    run_id: str
    pipeline: str
    """Name of its directory."""
    started_at: datetime
    completed_at: datetime
    items: int
    """Items with an answer."""
    failed: int
    errors: Sequence[ItemFailure]
    result: object


def write_result(folder: Path, result: ResultFile) -> str:
    """Write the file under a new name; return the name. Raises OSError."""
    stem = result.started_at.strftime("%Y-%m-%dT%H-%M-%S")
    beside = folder / f".{stem}-{os.getpid()}.new"
    try:
        with open(beside, "xb") as new:
            new.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
        for number in count(1):
            name = f"{stem}.json" if number == 1 else f"{stem}-{number}.json"
            with suppress(FileExistsError):
                rename_without_replacing(beside, folder / name)
                return name
    finally:
        beside.unlink(missing_ok=True)
    raise AssertionError("unreachable")


def output_of(result: JsonValue, *, items: int, failed: int, file: str | None) -> dict[str, object]:
    """Return the output of the task: counts, and the result itself unless it is too large."""
    output: dict[str, object] = {"items_processed": items, "items_failed": failed, "result_file": file}
    if len(msgspec.json.encode(result)) <= MAX_RESULT_BYTES:
        output["result"] = result
    return output


class Attempt:
    """Runs a map-reduce in the working directory."""

    def __init__(self, work: MapReduce, context: Context, clock: Clock, log: Callable[[str], None]) -> None:
        self._work = work
        self._context = context
        self._clock = clock
        self._log = log
        self._reported_at = float("-inf")

    async def run(self) -> dict[str, object]:
        """Run it; return the task's output. Raises Refused, ExpressionFailed, TaskError, OSError.

        1. Read the items, and create the invoker.
        2. Ask for each item.
        3. Fail, if an item failed and the work requires all: answers are kept for the next attempt.
        4. Reduce the rows to one result, and write it.
        """
        started_at = self._clock.wall()
        directory = Path.cwd()
        with open_items(self._work.input, directory) as items:
            invoke = make_invoker_client(self._work.invoker, directory, self._clock)
            try:
                folder = make_directory(directory, self._work.results) if self._keeps_results() else None
                return await self._ask(items, invoke, folder, started_at)
            finally:
                await invoke.close()

    async def _ask(
        self, items: Items, invoke: InvokerClient, folder: Path | None, started_at: datetime
    ) -> dict[str, object]:
        work, params = self._work, self._context.params
        prompt_runner = PromptRunner(invoke, work.map, self._clock, self._log)
        answer_log = AnswerLog(folder, self._context.task_id, self._log)
        known = answer_log.open()
        if known:
            self._log(f"{known} items were answered in an earlier attempt")
        mapper = Mapper(work.map, prompt_runner, answer_log, params, log=self._log, on_progress=self._report_progress)
        mapped = await mapper.run(items)
        must_fail = work.map.on_failure is OnItemFailure.FAIL or mapped.was_abandoned or not mapped.rows
        if mapped.failures and must_fail:
            raise _failed(mapped)
        self._context.progress(99, f"reducing {len(mapped.rows)} items")
        result = await reduce_rows(mapped, work.reduce, work.map.output, prompt_runner=prompt_runner, params=params)
        name = self._write(folder, mapped, result, started_at) if folder is not None else None
        answer_log.remove()
        if folder is not None:
            remove_old(folder, self._clock)
        self._context.progress(100, f"{len(mapped.rows)} of {items.count} items")
        return output_of(result, items=len(mapped.rows), failed=len(mapped.failures), file=name)

    def _write(self, folder: Path, mapped: Mapped, result: JsonValue, started_at: datetime) -> str:
        """Write the result file; return its relative path."""
        file = ResultFile(
            run_id=self._context.run_id,
            pipeline=Path.cwd().name,
            started_at=started_at,
            completed_at=self._clock.wall(),
            items=len(mapped.rows),
            failed=len(mapped.failures),
            errors=mapped.failures,
            result=result,
        )
        return str(PurePosixPath(self._work.results) / write_result(folder, file))

    def _keeps_results(self) -> bool:
        """Whether the directory outlives the attempt: its own is removed with it."""
        return self._work.directory is not None and Path(self._work.directory).is_absolute()

    def _report_progress(self, done: int, count: int) -> None:
        """Report progress, at most every `_PROGRESS_SECONDS`."""
        now = self._clock.monotonic()
        if done < count and now - self._reported_at < _PROGRESS_SECONDS:
            return
        self._reported_at = now
        self._context.progress(99.0 * done / count if count else None, f"{done} of {count} items")


def _failed(mapped: Mapped) -> TaskError:
    """Return the overall error: retryable if an item's error is."""
    failures = mapped.failures
    first, rest = failures[0], ", the rest was skipped" if mapped.was_abandoned else ""
    kinds = {failure.failure for failure in failures}
    kind = next((one for one in ("rate_limited", "transient", "timeout", "resource") if one in kinds), "permanent")
    waits = [failure.retry_after_seconds for failure in failures if failure.retry_after_seconds is not None]
    return TaskError(
        f"{len(failures)} of {mapped.count} items failed{rest}; item {first.index}: {first.error}",
        failure=kind,
        retry_after_seconds=max(waits, default=None),
    )
