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
from mainspring.cli.render.output import Column, Table, print_rows, say_hint
from mainspring.cli.render.tables import say_task
from mainspring.client.client import FINAL_RUN_STATES, FINAL_TASK_STATES, Client
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import NotFound
from mainspring.protocol.rest.runs import TaskView

_PIECE_BYTES = 1024 * 1024
_FIRST_TAIL_BYTES = 64 * 1024
_LOOK_SECONDS = 0.3
_LOOKS_AT_NOTHING = 10
"""Polls without new data after the end of a task until the rest of its log counts as lost."""
_LATEST_ARRIVAL = timedelta(seconds=30)
_UNSUCCESSFUL = frozenset({"FAILED", "TIMED_OUT"})


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a log, in machine-readable output."""

    task_id: str
    task: str
    attempt: int
    line: str


LINES: Table[LogLine] = Table(
    [
        Column("task", lambda line, _: line.task),
        Column("attempt", lambda line, _: line.attempt),
        Column("line", lambda line, _: line.line),
    ],
    id=lambda line: line.task_id,
)


class _Reading(msgspec.Struct):
    """Position up to which the log of an attempt has been printed."""

    offset: int
    rest: bytes = b""
    """Incomplete last line."""
    complete: bool = False


class LogView:
    """Prints logs."""

    def __init__(self, client: Client, printing: Printing, *, tail: int | None, attempt: int | None) -> None:
        self._client = client
        self._printing = printing
        self._tail = tail
        self._attempt = attempt
        self._clock = MachineClock()
        self._prefix_width = 0
        self._readings: dict[tuple[str, int, int], _Reading] = {}
        self._lines: list[LogLine] = []

    def print_task(self, task_id: str, *, follow: bool) -> None:
        """Print the log of a task; with `follow`, also those of later attempts."""
        task = self._client.task(task_id)
        if not follow and not task.attempt:
            say_hint(f"{say_task(task)} has not started: {task.state}{f', {task.because}' if task.because else ''}")

        def look() -> tuple[bool, list[TaskView]]:
            now = self._client.task(task_id)
            return now.state in FINAL_TASK_STATES, [now]

        self._print(look, follow=follow)

    def print_run(
        self, run_id: str, *, follow: bool, failed: bool, until: float = math.inf,
        ends: frozenset[str] = FINAL_RUN_STATES,
    ) -> None:  # fmt: skip
        """Print the logs of the tasks of a run until it reaches a final state, or until a monotonic time."""
        if self._client.run(run_id).task_count > 1:
            self._prefix_width = max((len(say_task(task)) for task in self._client.tasks_of(run_id)), default=0)

        def look() -> tuple[bool, list[TaskView]]:
            is_over = self._client.run(run_id).state in ends
            tasks = sorted(self._client.tasks_of(run_id), key=lambda task: (task.started_at or task.since, task.id))
            return is_over, [task for task in tasks if not failed or task.state in _UNSUCCESSFUL]

        self._print(look, follow=follow, until=until)

    def _print(self, look: Callable[[], tuple[bool, list[TaskView]]], *, follow: bool, until: float = math.inf) -> None:
        is_over, tasks = look()
        while follow and not is_over and (left := until - self._clock.monotonic()) > 0:
            for task in tasks:
                self._print_new(task)
            sys.stdout.flush()
            self._clock.pause(min(_LOOK_SECONDS, left))
            is_over, tasks = look()
        # One task after another, so that late logs don't interleave.
        for task in tasks:
            self._print_whole(task)
        if self._printing.output in {"json", "yaml"}:
            print_rows(self._lines, LINES, self._printing)

    def _print_whole(self, task: TaskView) -> None:
        """Print new log data of a task; if it has just ended, wait for the rest."""
        in_vain = 0
        while in_vain <= _LOOKS_AT_NOTHING:
            in_vain = 0 if self._print_new(task) else in_vain + 1
            if not self._is_awaited(task):
                break
            self._clock.pause(_LOOK_SECONDS)
        self._print_rests(task, complete=False)

    def _is_awaited(self, task: TaskView) -> bool:
        """Whether a task has just ended and its log is incomplete."""
        if task.ended_at is None or self._clock.wall() - task.ended_at > _LATEST_ARRIVAL:
            return False
        return any(owner == task.id and not reading.complete for (owner, _, _), reading in self._readings.items())

    def _print_new(self, task: TaskView) -> bool:
        """Print new log data of a task; return whether there was any."""
        if self._printing.output == "name" and task.attempt and (task.id, 0, 0) not in self._readings:
            self._readings[task.id, 0, 0] = _Reading(offset=0, complete=True)
            click.echo(task.id)
        if self._printing.output == "name":
            return False
        moved = False
        for number in self._attempts(task):
            key = (task.id, task.generation, number)
            try:
                if key not in self._readings:
                    self._readings[key] = _Reading(offset=self._start(task, number))
                for data in self._pieces(task, number, self._readings[key]):
                    self._write(task, number, self._readings[key], data)
                    moved = True
            except NotFound:
                # The attempt has no log yet, or its log was deleted.
                continue
        self._print_rests(task, complete=True)
        return moved

    def _attempts(self, task: TaskView) -> range:
        """Return the attempts to read: the requested one, or those from the last one read."""
        if self._attempt is not None:
            return range(self._attempt, self._attempt + 1)
        seen = [number for owner, gen, number in self._readings if (owner, gen) == (task.id, task.generation)]
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

    def _pieces(self, task: TaskView, number: int, reading: _Reading) -> Iterator[bytes]:
        """Yield the data after the current position."""
        while not reading.complete:
            part = self._client.log(task.id, attempt=number, offset=reading.offset, limit=_PIECE_BYTES)
            reading.offset += len(part.data)
            reading.complete = part.complete and reading.offset >= part.size
            if part.data:
                yield part.data
            if reading.offset >= part.size or not part.data:
                return

    def _write(self, task: TaskView, number: int, reading: _Reading, data: bytes) -> None:
        if self._printing.is_for_people and not self._prefix_width:
            sys.stdout.buffer.write(data)
            return
        *lines, reading.rest = (reading.rest + data).split(b"\n")
        for line in lines:
            self._write_line(task, number, line)

    def _write_line(self, task: TaskView, number: int, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        if self._printing.is_for_people:
            click.echo(f"{say_task(task):<{self._prefix_width}} | {text}")
            return
        said = LogLine(task_id=task.id, task=say_task(task), attempt=number, line=text)
        if self._printing.output == "jsonl":
            click.echo(msgspec.json.encode(said))
        else:
            self._lines.append(said)

    def _print_rests(self, task: TaskView, *, complete: bool) -> None:
        """Print unterminated last lines of complete or of incomplete logs."""
        for (owner, _, number), reading in self._readings.items():
            if owner == task.id and reading.rest and reading.complete is complete:
                self._write_line(task, number, reading.rest)
                reading.rest = b""
