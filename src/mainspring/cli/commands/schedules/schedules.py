"""`mainspring schedules`, `next` and `upcoming`: schedules, their past and their upcoming windows."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ListCommand,
    ResourceGroup,
)
from mainspring.cli.resource import Listing, Outcome, Session, action_on_each, listing, why_option, with_session

if TYPE_CHECKING:
    from mainspring.definitions.files.drafts import ParsedFile
    from mainspring.protocol.rest.schedules import ChangeView, FireView, ScheduleView, UpcomingView

OUTCOMES = ("ran", "waiting", "skipped", "late", "condition_false")
_name = click.argument("name", shell_complete=candidates.schedules)
_since = click.option("--since", metavar="TIME", help="For new schedules: windows after this time count as missed.")


@click.group("schedules", cls=ResourceGroup)
@click.option("--job", metavar="NAME", help="Filter by job.", shell_complete=candidates.jobs)
@listing(100)
def schedules(session: Session, job: str | None, limit: int) -> Listing[ScheduleView]:
    """List schedules; create, change, show or delete one.

    \b
    Examples:
      mainspring schedules
      mainspring schedules create nightly.yaml
      mainspring schedules fires nightly --outcome skipped
    """
    from mainspring.cli.render.tables import SCHEDULES

    return SCHEDULES, lambda: session.client.schedules(job=job, limit=limit)


@schedules.command("show")
@_name
@with_session
def show(session: Session, name: str) -> None:
    """Show a schedule with its definition, next window and latest windows.

    \b
    Examples:
      mainspring schedules show nightly
      mainspring schedules show nightly -o json
    """
    from mainspring.cli.render.details import DetailPrinter
    from mainspring.cli.resource_ids import find_schedule

    DetailPrinter(session.client, session.printing).show_schedule(find_schedule(session.client, name))


@schedules.command("create")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Validate locally and print the request without sending it.")
@_since
@why_option()
@with_session
def create(session: Session, file: str, dry_run: bool, since: str | None, why: str) -> None:
    """Create the schedule in FILE (YAML or JSON, - for stdin).

    Fails if the name exists.

    \b
    Examples:
      mainspring schedules create nightly.yaml
      mainspring schedules create nightly.yaml --dry-run
      mainspring schedules create nightly.yaml --since 2026-11-15T00:00Z
    """
    from mainspring.cli.config.input_files import located_faults, print_body
    from mainspring.protocol.errors import Conflict

    read, start = _read_file(file), session.time(since, "--since")
    if dry_run:
        print_body(read.body, read.name, session.printing)
        return
    try:
        with located_faults(read):
            made = session.client.create_schedule(read.body, why, since=start)
    except Conflict as conflict:
        conflict.hint = f"change it with `mainspring schedules set {file}`"
        raise
    _print_made(session, made)


@schedules.command("set")
@click.argument("file")
@_since
@why_option()
@with_session
def put(session: Session, file: str, since: str | None, why: str) -> None:
    """Create or update the schedule in FILE. Idempotent.

    \b
    Examples:
      mainspring schedules set nightly.yaml --why "an hour later"
    """
    from mainspring.cli.config.input_files import located_faults

    read, start = _read_file(file), session.time(since, "--since")
    with located_faults(read):
        made = session.client.put_schedule(read.name, read.body, why, since=start)
    _print_made(session, made)


@schedules.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.schedules)
@action_on_each("schedules", argument="names")
def delete(session: Session, name: str, why: str) -> Outcome:
    """Delete schedules. Their runs continue, and their history is kept.

    \b
    Examples:
      mainspring schedules delete nightly --why "moved elsewhere"
    """
    return name, session.client.delete_schedule(name, why)


@schedules.command("fires")
@_name
@click.option(
    "--outcome", "outcomes", multiple=True, type=click.Choice(OUTCOMES), help="Filter by outcome. Repeatable."
)
@click.option("--from", "since", metavar="TIME", help="Only windows at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only windows before this time.")
@listing(50)
def fires(
    session: Session, name: str, outcomes: tuple[str, ...], since: str | None, before: str | None, limit: int
) -> Listing[FireView]:
    """List the windows of a schedule and their outcomes, newest first.

    \b
    Examples:
      mainspring schedules fires nightly
      mainspring schedules fires nightly --outcome skipped --outcome late --from 2026-11-01
    """
    from mainspring.cli.render.tables import fires_table
    from mainspring.cli.resource_ids import find_schedule

    start, end = session.time(since, "--from"), session.time(before, "--to")
    schedule = find_schedule(session.client, name).id
    return fires_table(session.printing), lambda: session.client.fires(
        schedule, outcomes=outcomes, since=start, before=end, limit=limit
    )


@schedules.command("history")
@_name
@listing(50)
def history(session: Session, name: str, limit: int) -> Listing[ChangeView]:
    """List the changes of a schedule, newest first.

    \b
    Examples:
      mainspring schedules history nightly
      mainspring schedules history nightly -o json
    """
    from mainspring.cli.render.tables import CHANGES
    from mainspring.cli.resource_ids import find_schedule

    schedule = find_schedule(session.client, name).id
    return CHANGES, lambda: session.client.schedule_changes(schedule, limit=limit)


@click.command("upcoming", cls=ListCommand)
@click.option(
    "--until", metavar="DURATION_OR_TIME", default="24h", show_default=True,
    help="End of the list: a duration such as 24h, or a time.",
)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="List all windows, not only the next of each schedule.")
@listing(50)
def upcoming(session: Session, until: str, every: bool, limit: int) -> Listing[UpcomingView]:
    """List the next window of each schedule, soonest first.

    RESULT is the outcome of the last window. `next` and `upcoming` are the same command.

    \b
    Examples:
      mainspring next
      mainspring next --until 1h --all -o json
    """
    from mainspring.cli.render.tables import upcoming_table
    from mainspring.cli.render.times import parse_future_time

    def fetch() -> list[UpcomingView]:
        end = parse_future_time(until, "--until", session.printing)
        return list(session.client.upcoming(until=end, first_only=not every, with_last=True, limit=limit))

    return upcoming_table(session.printing), fetch


next_runs = copy(upcoming)
next_runs.name = "next"


def _read_file(file: str) -> ParsedFile:
    from mainspring.cli.config.input_files import read_file
    from mainspring.definitions.schedule_file import read_schedule

    name, text = read_file(file)
    return read_schedule(text, name)


def _print_made(session: Session, schedule: ScheduleView) -> None:
    from mainspring.cli.render.output import format_when

    text = f"{schedule.name} version {schedule.version}: {schedule.trigger}, runs {schedule.job}"
    if schedule.next_at is not None:
        text += f"\nnext: {format_when(schedule.next_at, session.printing)}"
    session.print_line(schedule, schedule.name, text)
