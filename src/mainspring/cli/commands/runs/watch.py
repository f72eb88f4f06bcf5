"""`mainspring watch`: watch a run, in a live view on a terminal, otherwise with one line per transition.

The event stream is opened before the tasks are read, so no change is lost in between; duplicate and late events are
recognized by `generation` and `seq` and skipped. When the stream is idle the tasks are read again, which corrects the
view if an event was missed.
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

from mainspring.cli.commands.runs.wait_for_run import exit_timed_out, print_end
from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing
from mainspring.cli.render import terminal
from mainspring.cli.render.output import rich_table
from mainspring.cli.render.tables import TASKS, format_task_name
from mainspring.cli.render.times import parse_timeout
from mainspring.cli.resource import Session, with_session
from mainspring.cli.resource_ids import find_run
from mainspring.client.client import FINAL_RUN_STATES, FINAL_TASK_STATES, Client
from mainspring.core.text.durations import format_seconds
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.runs import RunView, TaskView, TransitionView

_MAX_REFETCHED_TASKS = 200
"""In runs with more tasks, an event's task is not fetched, so the worker name is omitted."""
_ON_A_WORKER = frozenset({"ASSIGNED", "RUNNING"})
_POLL_SECONDS = 0.2
_RESERVED_LINES = 6


@click.command("watch")
@click.argument("run", default="@latest", shell_complete=candidates.runs)
@click.option("--timeout", metavar="DURATION", help="Stop watching after this long, such as 10m; exit with 124.")
@with_session
def watch(session: Session, run: str, timeout: str | None) -> None:
    """Watch RUN until it ends. Exits with 1 if it does not succeed.

    \b
    Examples:
      mainspring watch
      mainspring watch run_018f3c2e9a41-9d2c44e1f0a7b35c --timeout 1h
      mainspring watch @latest -o jsonl
    """
    timeout_seconds = parse_timeout(timeout)
    run_id = find_run(session.client, run)
    # Report an unreachable server now rather than after the long retry window of the watch client.
    session.client.run(run_id)
    watch_run(session.watch_client, run_id, session.printing, timeout_seconds)


def watch_run(client: Client, run_id: str, printing: Printing, timeout_seconds: float | None) -> None:
    """Show a run until it ends, and exit with its result."""
    end = RunWatcher(client, run_id, printing, timeout_seconds).run_until_end()
    if end is None:
        exit_timed_out(f"{run_id} has not ended after {timeout_seconds:g} s", run_id)
    print_end(client, end, printing)


class RunWatcher:
    """Shows the progress of a run."""

    def __init__(self, client: Client, run_id: str, printing: Printing, timeout_seconds: float | None) -> None:
        self._client = client
        self._run_id = run_id
        self._printing = printing
        self._clock = SystemClock()
        self._timeout_seconds = timeout_seconds
        self._until = None if timeout_seconds is None else self._clock.monotonic() + timeout_seconds
        self._tasks: dict[str, TaskView] = {}
        self._run: RunView | None = None
        self._live: Live | None = None

    def run_until_end(self) -> RunView | None:
        """Show the run until it ends, and return it; None on timeout."""
        with ExitStack() as stack:
            if self._printing.is_human_readable and terminal.is_interactive(sys.stdout):
                self._live = stack.enter_context(terminal.live_view(self._printing.color, self._render))
            return self._follow()

    def _follow(self) -> RunView | None:
        with self._client.events(run=self._run_id, silence_seconds=self._timeout_seconds) as events:
            run = self._refresh()
            steps = iter(events)
            while run.state not in FINAL_RUN_STATES:
                if self._until is not None and self._clock.monotonic() >= self._until:
                    return None
                if all(task.state in FINAL_TASK_STATES for task in self._tasks.values()) and self._tasks:
                    # All tasks have ended, so the run is about to end; there is no event for that.
                    self._clock.pause(_POLL_SECONDS)
                    run = self._refresh()
                elif (event := next(steps)) is None:
                    run = self._refresh()
                else:
                    self._handle_event(event)
                    self._draw(run)
            return run

    def _refresh(self) -> RunView:
        """Read the run and its tasks, and print what changed.

        The run is read first: if it has ended, all its tasks have ended too.
        """
        run = self._client.run(self._run_id)
        for task in self._client.tasks_of(self._run_id):
            before = self._tasks.get(task.id)
            self._tasks[task.id] = task
            if before is None or (before.state, before.attempt) != (task.state, task.attempt):
                self._print_change(task)
        self._draw(run)
        return run

    def _handle_event(self, event: TransitionView) -> None:
        before = self._tasks.get(event.task_id)
        if before is not None and before.seq >= event.seq:
            # The tasks were read after this event.
            return
        if before is None or (len(self._tasks) <= _MAX_REFETCHED_TASKS and event.end in _ON_A_WORKER):
            task = self._client.task(event.task_id)
        else:
            task = before
        worker = task.worker if event.end in _ON_A_WORKER and task.attempt == event.attempt else None
        self._tasks[event.task_id] = _apply_event(task, event, worker)
        self._print_change(self._tasks[event.task_id], event)

    def _print_change(self, task: TaskView, event: TransitionView | None = None) -> None:
        """Print a transition, unless a live view shows it."""
        if self._printing.output == "jsonl" and event is not None:
            click.echo(msgspec.json.encode(event))
            return
        if self._live is not None or not self._printing.is_human_readable:
            return
        at = task.since.astimezone(self._printing.zone)
        place = f" on {task.worker}" if task.worker and task.state in _ON_A_WORKER else ""
        tries = f" (attempt {task.attempt})" if task.attempt > 1 else ""
        because = f": {task.because}" if task.because else ""
        click.echo(f"{at:%H:%M:%S} {format_task_name(task)} {task.state}{place}{tries}{because}")
        sys.stdout.flush()

    def _draw(self, run: RunView) -> None:
        self._run = run
        if self._live is not None:
            self._live.refresh()

    def _render(self) -> RenderableType:
        """Draw the run. Another thread may call this, so the tasks are copied once."""
        now = self._clock.wall()
        run, tasks = self._run, list(self._tasks.values())
        if run is None:
            return ""
        counts = Counter(task.state for task in tasks)
        head = Text.assemble(
            (run.job, "bold"), f"@{run.job_version} {run.id} ", (run.state, terminal.STYLES.get(run.state, "")),
            f" {format_seconds(((run.ended_at or now) - run.created_at).total_seconds())}\n",
            "  ".join(f"{number} {state}" for state, number in sorted(counts.items())), "\n",
        )  # fmt: skip
        max_rows = max(3, self._live.console.height - _RESERVED_LINES) if self._live is not None else len(tasks)
        rows = sorted(tasks, key=lambda task: (task.state in FINAL_TASK_STATES, task.id))[:max_rows]
        shown = sorted(rows, key=lambda task: task.id)
        more = len(tasks) - len(rows)
        foot = Text(f"and {more} more" if more else "", style="dim")
        return Group(head, rich_table(shown, TASKS, self._printing, now), foot)


def _apply_event(task: TaskView, event: TransitionView, worker: str | None) -> TaskView:
    """Apply an event to the view of a task, which may be older or newer."""
    updates = {
        "state": event.end, "since": event.at, "because": event.because, "attempt": event.attempt, "worker": worker,
        "seq": event.seq,
    }  # fmt: skip
    return msgspec.structs.replace(task, **updates)
