"""Wait for the end of a run and return its result as the exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import print_one, say_error, say_hint
from mainspring.cli.render.tables import say_failure, say_task
from mainspring.client.client import FINAL_RUN_STATES, Client
from mainspring.definitions.quantities import seconds_of
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.rest.runs import RunView, TaskView

TIMED_OUT = 124
_MOST_NAMED = 5
_LOOK_SECONDS = 5.0
"""Interval of checks whether the run is paused and needs a user to resume it."""


def read_timeout(text: str | None, option: str = "--timeout") -> float | None:
    """Parse a duration. Raises UsageError."""
    if text is None:
        return None
    try:
        return seconds_of(float(text) if text.replace(".", "", 1).isdigit() else text)
    except ValueError as error:
        raise click.UsageError(f"{option} {error}") from error


def wait_for_end(
    client: Client,
    run_id: str,
    printing: Printing,
    timeout_seconds: float | None,
    *,
    stays: bool = True,
    since: float | None = None,
) -> None:
    """Wait, print the run, and exit with 1 if it did not succeed, or with 124 on timeout.

    `stays`: the server keeps running afterwards, so hints may name commands that call it. `since`: start of the
    timeout on the monotonic clock; now if None.
    """
    clock, said = MachineClock(), ""
    began = clock.monotonic() if since is None else since
    until = None if timeout_seconds is None else began + timeout_seconds
    while True:
        left = float("inf") if until is None else until - clock.monotonic()
        run = _wait_a_little(client, run_id, min(left, _LOOK_SECONDS))
        if run.state in FINAL_RUN_STATES or (run.state == "PAUSED" and not stays):
            # Without a server nobody could resume the run later, so a pause is its end.
            end_with(client, run, printing, stays=stays)
            return
        if left <= _LOOK_SECONDS:
            give_up(f"{run_id} is {run.state} after {timeout_seconds:g} s", run_id, stays=stays)
        if run.state == "PAUSED" and run.because != said:
            said = run.because
            say_hint(f"{run_id} is paused: {run.held or run.because}; resume it with `mainspring resume {run_id}`")


def _wait_a_little(client: Client, run_id: str, seconds: float) -> RunView:
    """Return the run once it has ended, or in its current state after a time."""
    try:
        return client.wait(run_id, seconds)
    except TimeoutError:
        return client.run(run_id)


def end_with(client: Client, run: RunView, printing: Printing, *, stays: bool = True) -> None:
    """Print an ended run, and exit with 1 unless it succeeded."""
    print_one(run, run.id, printing, lambda: click.echo(f"{run.id} {run.state}"))
    if run.state == "SUCCEEDED":
        return
    if printing.is_for_people:
        for task in client.tasks(run=run.id, states=["FAILED", "TIMED_OUT"], limit=_MOST_NAMED):
            click.echo(f"  {say_task(task)} {task.state}: {task.because}{_say_cause(task)}")
        if stays:
            say_hint(f"see the logs with `mainspring logs {run.id} --failed`")
    sys.exit(1)


def give_up(why: str, run_id: str, *, stays: bool = True) -> NoReturn:
    """Exit with the timeout code. The run continues if the server does."""
    say_error(why, f"it is still running; watch it with `mainspring watch {run_id}`" if stays else "it was stopped")
    sys.exit(TIMED_OUT)


def _say_cause(task: TaskView) -> str:
    """Format the error of the last attempt on one line, as a suffix."""
    lines = (say_failure(task.error) or "").splitlines()
    return f": {lines[0]}" if lines else ""
