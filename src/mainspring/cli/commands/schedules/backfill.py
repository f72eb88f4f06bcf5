"""`mainspring backfill`: run past windows of a schedule."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_table_options

if TYPE_CHECKING:
    from mainspring.protocol.rest.schedules import BackfillView


@click.command("backfill")
@click.argument("name", shell_complete=candidates.schedules)
@click.option("--from", "since", metavar="TIME", required=True, help="Windows at or after this time.")
@click.option("--to", "before", metavar="TIME", required=True, help="Windows before this time.")
@click.option(
    "--max-parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Maximum number of concurrent runs.",
)
@click.option("--again", is_flag=True, help="Include windows that have already run.")
@click.option("--dry-run", is_flag=True, help="Only list the windows and whether they would run.")
@click.option("--wait", is_flag=True, help="Wait for all runs; exit with 1 unless all succeed.")
@click.option("--timeout", metavar="DURATION", help="Give up after this long, such as 10m; exit with 124.")
@click.option("--why", default="", help="Reason, recorded in the audit log.")
@with_table_options
@with_connection_options
def backfill(
    connection: ConnectionOptions,
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
    """Run past windows of schedule NAME in a time range, except those that have already run.

    \b
    Examples:
      mainspring backfill nightly --from 2026-11-01 --to 2026-11-15 --dry-run
      mainspring backfill nightly --from 2026-11-01 --to 2026-11-15 --max-parallel 4 --wait
    """
    from mainspring.cli.commands.runs.wait_for_run import parse_timeout
    from mainspring.cli.commands.schedules.backfill_view import wait_for_backfill
    from mainspring.cli.render.times import parse_time
    from mainspring.cli.resource_ids import find_schedule
    from mainspring.protocol.rest.schedules import BackfillRequest

    timeout_seconds = parse_timeout(timeout)
    request = BackfillRequest(
        since=parse_time(since, "--from", printing), before=parse_time(before, "--to", printing),
        max_parallel=max_parallel, again=again, dry_run=dry_run, why=why,
    )  # fmt: skip
    with connection.client() as client:
        made = client.backfill(find_schedule(client, name).id, request)
    _print_backfill(made, printing, is_plan=dry_run)
    if wait and made.id is not None:
        with connection.watch_client() as client:
            sys.exit(wait_for_backfill(client, made.schedule_id, made, timeout_seconds))


def _print_backfill(made: BackfillView, printing: Printing, *, is_plan: bool) -> None:
    """Print every window for dry runs and machine-readable output; otherwise a summary."""
    from mainspring.cli.render.output import print_hint, print_one, print_rows
    from mainspring.cli.render.schedule_tables import windows_table

    def print_text() -> None:
        if is_plan:
            print_rows(made.windows, windows_table(printing), printing)
        verb = "would run" if is_plan else "run"
        click.echo(f"{made.wanted} of {made.total} windows {verb}, {made.max_parallel} at a time")
        if len(made.windows) < made.total:
            print_hint(f"only the first {len(made.windows)} windows are included; repeat the command for the rest")

    print_one(made, made.id or made.schedule_id, printing, print_text)
