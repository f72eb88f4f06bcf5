"""A run as it is watched: a picture that changes at a terminal, a line per change otherwise.

The stream of events is opened first and the tasks are read after it, so that no change falls between the two; what the
stream tells twice, or late, is known by its number (`generation`, `seq`) and left out. When nothing happens the tasks
are read again: the picture is right even if an event was missed.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack

import msgspec
import rich_click as click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from mainspring.cli.options import Printing
from mainspring.cli.render import terminal
from mainspring.cli.render.output import rich_table
from mainspring.cli.render.tables import TASKS, say_task
from mainspring.client.client import FINAL_RUN_STATES, FINAL_TASK_STATES, Client
from mainspring.definitions.quantities import say_seconds
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.rest.runs import RunView, TaskView, TransitionView

_MOST_READ_AGAIN = 200
"""Of a run with more tasks than that, an event's task is not asked for by itself: the worker's name is left out."""
_ON_A_WORKER = frozenset({"ASSIGNED", "RUNNING"})
_LOOK_SECONDS = 0.2
_ROOM_BESIDE_ROWS = 6


class RunStory:
    """Tells a run to whoever looks on."""

    def __init__(self, client: Client, run_id: str, printing: Printing, timeout_seconds: float | None) -> None:
        self._client = client
        self._run_id = run_id
        self._printing = printing
        self._clock = MachineClock()
        self._timeout_seconds = timeout_seconds
        self._until = None if timeout_seconds is None else self._clock.monotonic() + timeout_seconds
        self._tasks: dict[str, TaskView] = {}
        self._run: RunView | None = None
        self._live: Live | None = None

    def tell(self) -> RunView | None:
        """Show it until its end, which is returned; None if the time was over first."""
        with ExitStack() as stack:
            if self._printing.is_for_people and terminal.is_drawn_to(sys.stdout):
                self._live = stack.enter_context(terminal.live_view(self._printing.color, self._picture))
            return self._follow()

    def _follow(self) -> RunView | None:
        with self._client.events(run=self._run_id, silence_seconds=self._timeout_seconds) as events:
            run = self._look_again()
            steps = iter(events)
            while run.state not in FINAL_RUN_STATES:
                if self._until is not None and self._clock.monotonic() >= self._until:
                    return None
                if all(task.state in FINAL_TASK_STATES for task in self._tasks.values()) and self._tasks:
                    # All tasks are over, so the run is about to be: no event says so.
                    self._clock.pause(_LOOK_SECONDS)
                    run = self._look_again()
                elif (event := next(steps)) is None:
                    run = self._look_again()
                else:
                    self._take(event)
                    self._draw(run)
            return run

    def _look_again(self) -> RunView:
        """Read the run and its tasks as they are now, and tell what is new.

        The run first: if it is over, so are its tasks, and none of them is left out.
        """
        run = self._client.run(self._run_id)
        for task in self._client.tasks_of(self._run_id):
            before = self._tasks.get(task.id)
            self._tasks[task.id] = task
            if before is None or (before.state, before.attempt) != (task.state, task.attempt):
                self._say(task)
        self._draw(run)
        return run

    def _take(self, event: TransitionView) -> None:
        before = self._tasks.get(event.task_id)
        if before is not None and before.seq >= event.seq:
            # The tasks were read after this had happened.
            return
        if before is None or (len(self._tasks) <= _MOST_READ_AGAIN and event.end in _ON_A_WORKER):
            task = self._client.task(event.task_id)
        else:
            task = before
        worker = task.worker if event.end in _ON_A_WORKER and task.attempt == event.attempt else None
        self._tasks[event.task_id] = _as_told(task, event, worker)
        self._say(self._tasks[event.task_id], event)

    def _say(self, task: TaskView, event: TransitionView | None = None) -> None:
        """A change, as a line; in a picture it shows by itself."""
        if self._printing.output == "jsonl" and event is not None:
            click.echo(msgspec.json.encode(event))
            return
        if self._live is not None or not self._printing.is_for_people:
            return
        at = task.since.astimezone(self._printing.zone)
        place = f" on {task.worker}" if task.worker and task.state in _ON_A_WORKER else ""
        tries = f" (attempt {task.attempt})" if task.attempt > 1 else ""
        because = f": {task.because}" if task.because else ""
        click.echo(f"{at:%H:%M:%S} {say_task(task)} {task.state}{place}{tries}{because}")
        sys.stdout.flush()

    def _draw(self, run: RunView) -> None:
        self._run = run
        if self._live is not None:
            self._live.refresh()

    def _picture(self) -> RenderableType:
        """The run as it is known now; also drawn by another thread, so it takes the tasks once."""
        now = self._clock.wall()
        run, tasks = self._run, list(self._tasks.values())
        if run is None:
            return ""
        counts = Counter(task.state for task in tasks)
        head = Text.assemble(
            (run.job, "bold"), f"@{run.job_version} {run.id} ", (run.state, terminal.STYLES.get(run.state, "")),
            f" {say_seconds(((run.ended_at or now) - run.created_at).total_seconds())}\n",
            "  ".join(f"{number} {state}" for state, number in sorted(counts.items())), "\n",
        )  # fmt: skip
        room = max(3, self._live.console.height - _ROOM_BESIDE_ROWS) if self._live is not None else len(tasks)
        rows = sorted(tasks, key=lambda task: (task.state in FINAL_TASK_STATES, task.id))[:room]
        shown = sorted(rows, key=lambda task: task.id)
        more = len(tasks) - len(rows)
        foot = Text(f"and {more} more" if more else "", style="dim")
        return Group(head, rich_table(shown, TASKS, self._printing, now), foot)


def _as_told(task: TaskView, event: TransitionView, worker: str | None) -> TaskView:
    """The view of a task as an event tells it: what was read may be older or newer."""
    told = {
        "state": event.end, "since": event.at, "because": event.because, "attempt": event.attempt, "worker": worker,
        "seq": event.seq,
    }  # fmt: skip
    return msgspec.structs.replace(task, **told)
