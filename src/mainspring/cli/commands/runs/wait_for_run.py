"""Wait for the end of a run and return its result as the exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import print_error_message, print_hint, print_one
from mainspring.cli.render.tables import format_failure, format_task_name
from mainspring.client.client import FINAL_RUN_STATES, Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.runs import RunView, TaskView

TIMED_OUT = 124
_MAX_NAMED = 5
_POLL_SECONDS = 5.0
"""Interval of checks whether the run is paused and needs a user to resume it."""


def wait_for_end(
    client: Client, run_id: str, printing: Printing, timeout_seconds: float | None, *, server_remains: bool = True,
    since: float | None = None,
) -> None:  # fmt: skip
    """Wait, print the run, and exit with 1 if it did not succeed, or with 124 on timeout.

    `server_remains`: the server keeps running afterwards, so hints may name commands that call it. `since`: start of
    the timeout on the monotonic clock; now if None.
    """
    clock, was_paused = SystemClock(), False
    began = clock.monotonic() if since is None else since
    until = None if timeout_seconds is None else began + timeout_seconds
    while True:
        left = float("inf") if until is None else until - clock.monotonic()
        run = _poll_run(client, run_id, min(left, _POLL_SECONDS))
        if run.state in FINAL_RUN_STATES or (run.state == "PAUSED" and not server_remains):
            # Without a server the run can't be resumed later, so a pause is its end.
            print_end(client, run, printing, server_remains=server_remains)
            return
        if left <= _POLL_SECONDS:
            exit_timed_out(
                f"{run_id} is {run.state} after {timeout_seconds:g} s", run_id, server_remains=server_remains
            )
        if run.state == "PAUSED" and not was_paused:
            print_hint(f"{run_id} is paused: {run.held or run.because}; resume it with `mainspring resume {run_id}`")
        was_paused = run.state == "PAUSED"


def _poll_run(client: Client, run_id: str, seconds: float) -> RunView:
    """Return the run once it has ended, or in its current state after a time."""
    try:
        return client.wait(run_id, seconds)
    except TimeoutError:
        return client.run(run_id)


def print_end(client: Client, run: RunView, printing: Printing, *, server_remains: bool = True) -> None:
    """Print an ended run, and exit with 1 unless it succeeded."""
    print_one(run, run.id, printing, lambda: click.echo(f"{run.id} {run.state}"))
    if run.state == "SUCCEEDED":
        return
    if printing.is_human_readable:
        for task in client.tasks(run=run.id, states=["FAILED", "TIMED_OUT"], limit=_MAX_NAMED):
            click.echo(f"  {format_task_name(task)} {task.state}: {task.because}{_format_cause(task)}")
        if server_remains:
            print_hint(f"see the logs with `mainspring logs {run.id} --failed`")
    sys.exit(1)


def exit_timed_out(why: str, run_id: str, *, server_remains: bool = True) -> NoReturn:
    """Exit with the timeout code. The run continues if the server does."""
    print_error_message(
        why, f"it is still running; watch it with `mainspring watch {run_id}`" if server_remains else "it was stopped"
    )
    sys.exit(TIMED_OUT)


def _format_cause(task: TaskView) -> str:
    """Format the error of the last attempt on one line, as a suffix."""
    lines = (format_failure(task.error) or "").splitlines()
    return f": {lines[0]}" if lines else ""
