"""`mainspring scheduler`: schedules of a folder, in the terms of the folder format (FLD-7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.commands.processes.up import up
from mainspring.cli.options import (
    Call,
    Printing,
    limit_option,
    watch_option,
    with_options,
    with_output_options,
    with_table_options,
)

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import ActionResult

_HORIZON = timedelta(days=366)


_in_folder = click.option(
    "-d", "--dir", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".",
    show_default=True, help="Folder of pipelines.",
)  # fmt: skip
_of_schedule = with_options(click.argument("schedule"), with_output_options, _in_folder)
"""Options of a command on one schedule."""


def _listing(limit: int) -> Callable[[Call], Call]:
    """Add the options of a list."""
    return with_options(watch_option, limit_option(limit), with_table_options, _in_folder)


@click.group("scheduler", cls=click.RichGroup)
def scheduler() -> None:
    """Manage the schedules of a folder of pipelines.

    A schedule is named by its scheduleId, its pipelineId, or a prefix of its scheduleId. Lists are read from the
    state files, so they work while no scheduler runs.

    \b
    Examples:
      mainspring scheduler start pipelines
      mainspring scheduler list --dir pipelines
      mainspring scheduler history daily-report --limit 10 --dir pipelines
    """


scheduler.add_command(up, "start")


@scheduler.command("list")
@_listing(100)
def list_schedules(folder: Path, printing: Printing, watch: bool, limit: int) -> None:
    """List the schedules of a folder.

    \b
    Examples:
      mainspring scheduler list --dir pipelines
    """
    from mainspring.cli.commands.pipelines.folder_commands import SCHEDULES, states, warn_if_stopped
    from mainspring.cli.render.output import show_list

    warn_if_stopped(folder, printing)
    show_list(lambda: states(folder)[:limit], SCHEDULES, printing, watch=watch, limit=limit)


@scheduler.command("status")
@_of_schedule
def status(folder: Path, printing: Printing, schedule: str) -> None:
    """Show SCHEDULE: status, next and last run, totals.

    \b
    Examples:
      mainspring scheduler status daily-report --dir pipelines
    """
    from mainspring.cli.commands.pipelines.folder_commands import find_state, state_table, warn_if_stopped
    from mainspring.cli.render.output import facts_of, print_facts, print_one

    state = find_state(folder, schedule)
    warn_if_stopped(folder, printing)
    facts = facts_of(state, state_table(printing), printing)
    print_one(state, state.schedule_id, printing, lambda: print_facts(*facts))


@scheduler.command("history")
@click.argument("schedule")
@_listing(10)
def history(folder: Path, printing: Printing, schedule: str, watch: bool, limit: int) -> None:
    """List the runs of SCHEDULE, newest first.

    \b
    Examples:
      mainspring scheduler history daily-report --limit 10 --dir pipelines
    """
    from mainspring.cli.commands.pipelines.folder_commands import RUNS, find_state
    from mainspring.cli.render.output import show_list

    show_list(lambda: find_state(folder, schedule).history[:limit], RUNS, printing, watch=watch, limit=limit)


@scheduler.command("upcoming")
@_listing(10)
def upcoming(folder: Path, printing: Printing, watch: bool, limit: int) -> None:
    """List upcoming runs of all schedules of a folder.

    \b
    Examples:
      mainspring scheduler upcoming --dir pipelines
    """
    from mainspring.cli.commands.pipelines.folder_commands import client_for
    from mainspring.cli.render.output import show_list
    from mainspring.cli.render.tables import upcoming_table
    from mainspring.protocol.clock import SystemClock

    until = SystemClock().wall() + _HORIZON
    with client_for(folder) as client:
        table = upcoming_table(printing)
        show_list(
            lambda: client.upcoming(until=until, with_last=True, limit=limit), table, printing, watch=watch, limit=limit
        )


@scheduler.command("trigger")
@click.argument("schedule")
@click.option("--wait", is_flag=True, help="Wait for the run to end; exit with 1 unless it succeeds.")
@with_output_options
@_in_folder
def trigger(folder: Path, printing: Printing, schedule: str, wait: bool) -> None:
    """Trigger SCHEDULE now.

    \b
    Examples:
      mainspring scheduler trigger daily-report --wait --dir pipelines
    """
    from mainspring.cli.commands.pipelines.folder_commands import client_for, find_state
    from mainspring.cli.commands.runs.wait_for_run import wait_for_end
    from mainspring.cli.render.output import print_one

    name = find_state(folder, schedule).schedule_id
    with client_for(folder, name) as client:
        fire = client.trigger(name)
        run_id = fire.run_id or ""
        if wait:
            wait_for_end(client, run_id, printing, None)
        else:
            print_one(fire, run_id, printing, lambda: click.echo(run_id))


@scheduler.command("pause")
@_of_schedule
def pause(folder: Path, printing: Printing, schedule: str) -> None:
    """Pause SCHEDULE until it is resumed. Active runs continue.

    \b
    Examples:
      mainspring scheduler pause daily-report --dir pipelines
    """
    _act(folder, schedule, printing, "paused", lambda client, name: client.pause_schedule(name))


@scheduler.command("resume")
@_of_schedule
def resume(folder: Path, printing: Printing, schedule: str) -> None:
    """Resume SCHEDULE after a pause or after too many failures.

    \b
    Examples:
      mainspring scheduler resume daily-report --dir pipelines
    """
    _act(folder, schedule, printing, "resumed", lambda client, name: client.resume_schedule(name))


@scheduler.command("cancel")
@_of_schedule
def cancel(folder: Path, printing: Printing, schedule: str) -> None:
    """Cancel the active runs of SCHEDULE.

    \b
    Examples:
      mainspring scheduler cancel daily-report --dir pipelines
    """

    def cancel_runs(client: Client, name: str) -> ActionResult:
        from mainspring.protocol.errors import Conflict
        from mainspring.protocol.rest.runs import ActionResult

        active = [fire.run_id for fire in client.fires(name, limit=20) if fire.run_id and fire.run_state is None]
        if not active:
            raise Conflict(f"{name} has no active runs")
        done = [client.cancel_run(run) for run in active]
        return ActionResult(changed=any(one.changed for one in done), detail=", ".join(active))

    _act(folder, schedule, printing, "cancelled", cancel_runs)


def _act(
    folder: Path, schedule: str, printing: Printing, what: str, act: Callable[[Client, str], ActionResult]
) -> None:
    """Perform an action on a schedule and print the outcome."""
    from mainspring.cli.commands.pipelines.folder_commands import client_for, find_state
    from mainspring.cli.render.output import print_one

    name = find_state(folder, schedule).schedule_id
    with client_for(folder, name) as client:
        done = act(client, name)
    outcome = what if done.changed else f"already {what}"
    print_one(done, name, printing, lambda: click.echo(f"{name} {outcome}"))
