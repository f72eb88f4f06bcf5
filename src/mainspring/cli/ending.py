"""Waiting for the end of a run, and saying by the exit code what it was."""

from __future__ import annotations

import sys
from typing import NoReturn

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.output import print_one, say_error, say_hint
from mainspring.cli.tables import say_task
from mainspring.rest import RunView
from mainspring.sdk.client import Client
from mainspring.sdk.quantities import seconds_of

TIMED_OUT = 124
_MOST_NAMED = 5


def read_timeout(text: str | None) -> float | None:
    """A length of time that was typed. Raises UsageError."""
    if text is None:
        return None
    try:
        return seconds_of(float(text) if text.replace(".", "", 1).isdigit() else text)
    except ValueError as error:
        raise click.UsageError(f"--timeout {error}") from error


def wait_for_end(client: Client, run_id: str, printing: Printing, timeout_seconds: float | None) -> None:
    """Wait, print the run, and exit with 1 if it did not succeed, with 124 if the time was over first."""
    try:
        run = client.wait(run_id, timeout_seconds)
    except TimeoutError as error:
        give_up(str(error), run_id)
    end_with(client, run, printing)


def end_with(client: Client, run: RunView, printing: Printing) -> None:
    """Print a run that is over, and exit with 1 unless it succeeded."""
    print_one(run, run.id, printing, lambda: click.echo(f"{run.id} {run.state}"))
    if run.state == "SUCCEEDED":
        return
    if printing.is_for_people:
        for task in client.tasks(run=run.id, states=["FAILED", "TIMED_OUT"], limit=_MOST_NAMED):
            click.echo(f"  {say_task(task)} {task.state}: {task.because}")
        say_hint(f"`mainspring logs {run.id} --failed` shows what was printed")
    sys.exit(1)


def give_up(why: str, run_id: str) -> NoReturn:
    """Exit because the time is over; the run goes on."""
    say_error(why, f"it goes on: `mainspring watch {run_id}`")
    sys.exit(TIMED_OUT)
