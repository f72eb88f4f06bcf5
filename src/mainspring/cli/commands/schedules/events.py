"""`mainspring events`: list, send and follow events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, ResourceGroup, filter_option, number_option
from mainspring.cli.resource import Listing, Session, listing, with_session, with_table_session

if TYPE_CHECKING:
    import msgspec

    from mainspring.protocol.rest.runs import TransitionView
    from mainspring.protocol.rest.schedules import EventView

_FROM_FILE = "@"


@click.group("events", cls=ResourceGroup)
@click.option("--type", "kind", metavar="TYPE", help="Filter by type.")
@listing(50)
def events(session: Session, kind: str | None, limit: int) -> Listing[EventView]:
    """List received events, newest first.

    `send` sends an event, `follow` streams task transitions.

    \b
    Examples:
      mainspring events --type orders.ready
      mainspring events send orders.ready --data '{"rows": 5}'
    """
    from mainspring.cli.render.tables import EVENTS

    return EVENTS, lambda: session.client.received_events(type=kind, limit=limit)


@events.command("follow")
@filter_option
@click.option("--run", metavar="RUN_ID", help="Filter by run.", shell_complete=candidates.runs)
@number_option("--count", "Stop after this many transitions.")
@with_session
def follow(session: Session, q: str | None, run: str | None, count: int | None) -> None:
    """Stream task transitions, one per line, until interrupted.

    \b
    Examples:
      mainspring events follow --filter 'state:failed job:etl-*'
      mainspring events follow -o jsonl | my-program
    """
    from itertools import islice

    from mainspring.cli.resource_ids import find_run

    run_id = None if run is None else find_run(session.watch_client, run)
    with session.watch_client.events(run=run_id, q=q) as stream:
        for change in islice((one for one in stream if one is not None), count):
            _print_change(change, session.printing)


@events.command("send")
@click.argument("kind", metavar="TYPE")
@click.option("--data", metavar="JSON", help="Event data: JSON, @FILE, or @- for stdin.")
@click.option("--source", metavar="URI", default="/mainspring/cli", show_default=True, help="Source of the event.")
@click.option("--id", "event_id", metavar="ID", help="Event id; duplicates by source and id are ignored.")
@click.option("--subject", default="", help="Subject of the event.")
@with_table_session
def send(session: Session, kind: str, data: str | None, source: str, event_id: str | None, subject: str) -> None:
    """Send an event of TYPE, which fires the schedules waiting for it.

    \b
    Examples:
      mainspring events send orders.ready --data '{"rows": 5}'
      mainspring events send orders.ready --id 2026-11-15 --data @orders.json
    """
    from mainspring.cli.render.tables import RECEIVED

    event = session.client.event(kind, data=_read_data(data), source=source, id=event_id, subject=subject)
    session.print_rows(session.client.send_events([event]), RECEIVED)


def _print_change(change: TransitionView, printing: Printing) -> None:
    """Print a transition and flush, for live output."""
    import sys

    import msgspec

    from mainspring.cli.render.output import format_time

    if printing.output == "name":
        click.echo(change.task_id)
    elif printing.is_human_readable:
        tries = f" (attempt {change.attempt})" if change.attempt > 1 else ""
        because = f": {change.because}" if change.because else ""
        click.echo(f"{format_time(change.at, printing)}  {change.task_id}  {change.end}{tries}{because}")
    else:
        click.echo(msgspec.json.encode(change))
    sys.stdout.flush()


def _read_data(data: str | None) -> msgspec.Raw | None:
    """Return JSON data, given directly or in a file. Raises UsageError."""
    import msgspec

    if data is None:
        return None
    text = data.encode()
    if data.startswith(_FROM_FILE):
        try:
            with click.open_file(data.removeprefix(_FROM_FILE), "rb") as file:
                text = file.read()
        except OSError as error:
            raise click.UsageError(f"--data {data}: {error.strerror}") from error
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"--data must be JSON: {error}") from error
    return msgspec.Raw(text)
