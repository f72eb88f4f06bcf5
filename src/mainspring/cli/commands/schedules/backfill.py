"""`mainspring backfill`: past windows of a schedule."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints_rows, reaches_server

if TYPE_CHECKING:
    from mainspring.protocol.rest.schedules import BackfillView


@click.command("backfill")
@click.argument("name", shell_complete=candidates.schedules)
@click.option("--from", "since", metavar="TIME", required=True, help="The first window is at this time or after it.")
@click.option("--to", "before", metavar="TIME", required=True, help="The last window is before this time.")
@click.option("--max-parallel", type=click.IntRange(min=1), default=1, show_default=True, help="How many run at once.")
@click.option("--again", is_flag=True, help="Also windows that ran.")
@click.option("--dry-run", is_flag=True, help="List every window and whether it would run, and run nothing.")
@click.option("--wait", is_flag=True, help="Wait for the end of all; exit with 1 if one of them does not succeed.")
@click.option("--timeout", metavar="LENGTH", help="Wait no longer than this, such as 10m; then exit with 124.")
@click.option("--why", default="", help="Why; it is kept with the deed.")
@prints_rows
@reaches_server
def backfill(
    reach: Reach,
    printing: Printing,
    name: str,
    since: str,
    before: str,
    max_parallel: int,
    again: bool,
    dry_run: bool,
    wait: bool,
    timeout: str | None,
    why: str,
) -> None:
    """Run the windows of schedule NAME from a time to another; those that ran are left out.

    \b
    Examples:
      mainspring backfill nightly --from 2026-11-01 --to 2026-11-15 --dry-run
      mainspring backfill nightly --from 2026-11-01 --to 2026-11-15 --max-parallel 4 --wait
    """
    from mainspring.cli.commands.runs.wait_for_run import read_timeout
    from mainspring.cli.commands.schedules.backfill_view import wait_for_backfill
    from mainspring.cli.render.times import read_time
    from mainspring.cli.resource_ids import find_schedule
    from mainspring.protocol.rest.schedules import BackfillRequest

    timeout_seconds = read_timeout(timeout)
    wish = BackfillRequest(
        since=read_time(since, "--from", printing), before=read_time(before, "--to", printing),
        max_parallel=max_parallel, again=again, dry_run=dry_run, why=why,
    )  # fmt: skip
    with reach.client() as client:
        made = client.backfill(find_schedule(client, name).id, wish)
    _print_backfill(made, printing, is_plan=dry_run)
    if wait and made.id is not None:
        with reach.watching_client() as client:
            sys.exit(wait_for_backfill(client, made.schedule_id, made, timeout_seconds))


def _print_backfill(made: BackfillView, printing: Printing, *, is_plan: bool) -> None:
    """Every window for programs, and for people who only look; else how many there are."""
    from mainspring.cli.render.output import print_one, print_rows, say_hint
    from mainspring.cli.render.schedule_tables import windows_table

    def for_people() -> None:
        if is_plan:
            print_rows(made.windows, windows_table(printing), printing)
        verb = "would run" if is_plan else "run"
        click.echo(f"{made.wanted} of {made.total} windows {verb}, {made.max_parallel} at a time")
        if len(made.windows) < made.total:
            say_hint(f"only the first {len(made.windows)} windows are taken at once: ask again for the others")

    print_one(made, made.id or made.schedule_id, printing, for_people)
