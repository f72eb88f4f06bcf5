"""Print logs: of one task verbatim, of several tasks with the task name before each line.

1. Completion is checked before the logs are read, so everything written before the end is printed. The end of a log
   may arrive shortly after the end of its task, and is waited for.
2. Attempts are printed one after another.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Table, print_hint, print_rows
from mainspring.cli.render.tables import format_task_name
from mainspring.cli.resource_ids import is_run
from mainspring.client.client import FINAL_RUN_STATES, FINAL_TASK_STATES, Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotFound
from mainspring.protocol.rest.runs import TaskView

_CHUNK_BYTES = 1024 * 1024
_FIRST_TAIL_BYTES = 64 * 1024
_POLL_SECONDS = 0.3
_MAX_EMPTY_READS = 10
"""Polls without new data after the end of a task until the rest of its log counts as lost."""
_LATE_LOG_WINDOW = timedelta(seconds=30)
_UNSUCCESSFUL = frozenset({"FAILED", "TIMED_OUT"})


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a log, in machine-readable output."""

    task_id: str
    task: str
    attempt: int
    line: str


LINES = Table.of(LogLine, "task attempt line", id=lambda line: line.task_id)


class _LogPosition(msgspec.Struct):
    """Position up to which the log of an attempt has been printed."""

    offset: int
    partial_line: bytes = b""
    """Incomplete last line."""
    complete: bool = False


class LogView:
    """Prints logs."""

    def __init__(self, client: Client, printing: Printing, *, tail: int | None, attempt: int | None) -> None:
        self._client = client
        self._printing = printing
        self._tail = tail
        self._attempt = attempt
        self._clock = SystemClock()
        self._prefix_width = 0
        self._positions: dict[tuple[str, int, int], _LogPosition] = {}
        self._lines: list[LogLine] = []

    def show(self, id: str, *, follow: bool = False, failed: bool = False) -> None:
        """Print the log of a task, or the logs of a run."""
        if is_run(id):
            self.print_run(id, follow=follow, failed=failed)
        else:
            self._print_task(id, follow=follow)

    def _print_task(self, task_id: str, *, follow: bool) -> None:
        """Print the log of a task; with `follow`, also those of later attempts."""
        task = self._client.task(task_id)
        if not follow and not task.attempt:
            print_hint(
                f"{format_task_name(task)} has not started: {task.state}{f', {task.because}' if task.because else ''}"
            )

        def poll() -> tuple[bool, list[TaskView]]:
            now = self._client.task(task_id)
            return now.state in FINAL_TASK_STATES, [now]

        self._print(poll, follow=follow)

    def print_run(
        self, run_id: str, *, follow: bool, failed: bool, until: float = math.inf,
        final_states: frozenset[str] = FINAL_RUN_STATES,
    ) -> None:  # fmt: skip
        """Print the logs of the tasks of a run until it reaches a final state, or until a monotonic time."""
        if self._client.run(run_id).task_count > 1:
            self._prefix_width = max((len(format_task_name(task)) for task in self._client.tasks_of(run_id)), default=0)

        def poll() -> tuple[bool, list[TaskView]]:
            has_ended = self._client.run(run_id).state in final_states
            tasks = sorted(self._client.tasks_of(run_id), key=lambda task: (task.started_at or task.since, task.id))
            return has_ended, [task for task in tasks if not failed or task.state in _UNSUCCESSFUL]

        self._print(poll, follow=follow, until=until)

    def _print(self, poll: Callable[[], tuple[bool, list[TaskView]]], *, follow: bool, until: float = math.inf) -> None:
        has_ended, tasks = poll()
        while follow and not has_ended and (left := until - self._clock.monotonic()) > 0:
            for task in tasks:
                self._print_new(task)
            sys.stdout.flush()
            self._clock.pause(min(_POLL_SECONDS, left))
            has_ended, tasks = poll()
        # One task after another, so that late logs don't interleave.
        for task in tasks:
            self._print_remaining(task)
        if self._printing.output in {"json", "yaml"}:
            print_rows(self._lines, LINES, self._printing)

    def _print_remaining(self, task: TaskView) -> None:
        """Print new log data of a task; if it has just ended, wait for the rest."""
        empty_reads = 0
        while empty_reads <= _MAX_EMPTY_READS:
            empty_reads = 0 if self._print_new(task) else empty_reads + 1
            if not self._is_log_incomplete(task):
                break
            self._clock.pause(_POLL_SECONDS)
        self._print_partial_lines(task, complete=False)

    def _is_log_incomplete(self, task: TaskView) -> bool:
        """Whether a task has just ended and its log is incomplete."""
        if task.ended_at is None or self._clock.wall() - task.ended_at > _LATE_LOG_WINDOW:
            return False
        return any(owner == task.id and not position.complete for (owner, _, _), position in self._positions.items())

    def _print_new(self, task: TaskView) -> bool:
        """Print new log data of a task; return whether there was any."""
        if self._printing.output == "name" and task.attempt and (task.id, 0, 0) not in self._positions:
            self._positions[task.id, 0, 0] = _LogPosition(offset=0, complete=True)
            click.echo(task.id)
        if self._printing.output == "name":
            return False
        has_output = False
        for number in self._attempts(task):
            key = (task.id, task.generation, number)
            try:
                if key not in self._positions:
                    self._positions[key] = _LogPosition(offset=self._start(task, number))
                for data in self._chunks(task, number, self._positions[key]):
                    self._write(task, number, self._positions[key], data)
                    has_output = True
            except NotFound:
                # The attempt has no log yet, or its log was deleted.
                continue
        self._print_partial_lines(task, complete=True)
        return has_output

    def _attempts(self, task: TaskView) -> range:
        """Return the attempts to read: the requested one, or those from the last one read."""
        if self._attempt is not None:
            return range(self._attempt, self._attempt + 1)
        seen = [number for owner, gen, number in self._positions if (owner, gen) == (task.id, task.generation)]
        return range(max(1, max(seen, default=task.attempt)), task.attempt + 1)

    def _start(self, task: TaskView, number: int) -> int:
        """Return the offset to start from: 0, or that of the last lines."""
        if self._tail is None:
            return 0
        size = self._client.log(task.id, attempt=number, limit=1).size
        if self._tail == 0:
            return size
        back = _FIRST_TAIL_BYTES
        while True:
            start = max(0, size - back)
            data = self._client.log(task.id, attempt=number, offset=start, limit=min(back, size) or 1).data
            lines = data.splitlines(keepends=True)
            if start == 0 or len(lines) > self._tail:
                return size - sum(map(len, lines[-self._tail :]))
            back *= 4

    def _chunks(self, task: TaskView, number: int, position: _LogPosition) -> Iterator[bytes]:
        """Yield the data after the current position."""
        while not position.complete:
            part = self._client.log(task.id, attempt=number, offset=position.offset, limit=_CHUNK_BYTES)
            position.offset += len(part.data)
            position.complete = part.complete and position.offset >= part.size
            if part.data:
                yield part.data
            if position.offset >= part.size or not part.data:
                return

    def _write(self, task: TaskView, number: int, position: _LogPosition, data: bytes) -> None:
        if self._printing.is_human_readable and not self._prefix_width:
            sys.stdout.buffer.write(data)
            return
        *lines, position.partial_line = (position.partial_line + data).split(b"\n")
        for line in lines:
            self._write_line(task, number, line)

    def _write_line(self, task: TaskView, number: int, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        if self._printing.is_human_readable:
            click.echo(f"{format_task_name(task):<{self._prefix_width}} | {text}")
            return
        record = LogLine(task_id=task.id, task=format_task_name(task), attempt=number, line=text)
        if self._printing.output == "jsonl":
            click.echo(msgspec.json.encode(record))
        else:
            self._lines.append(record)

    def _print_partial_lines(self, task: TaskView, *, complete: bool) -> None:
        """Print unterminated last lines of complete or of incomplete logs."""
        for (owner, _, number), position in self._positions.items():
            if owner == task.id and position.partial_line and position.complete is complete:
                self._write_line(task, number, position.partial_line)
                position.partial_line = b""
