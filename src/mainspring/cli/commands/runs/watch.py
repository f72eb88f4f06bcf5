"""`mainspring watch`: watch a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options

if TYPE_CHECKING:
    from mainspring.client.client import Client


@click.command("watch")
@click.argument("run", default="@latest", shell_complete=candidates.runs)
@click.option("--timeout", metavar="DURATION", help="Stop watching after this long, such as 10m; exit with 124.")
@with_output_options
@with_connection_options
def watch(connection: ConnectionOptions, printing: Printing, run: str, timeout: str | None) -> None:
    """Watch RUN until it ends. Exits with 1 if it does not succeed.

    \b
    Examples:
      mainspring watch
      mainspring watch run_018f3c2e9a41-9d2c44e1f0a7b35c --timeout 1h
      mainspring watch @latest -o jsonl
    """
    from mainspring.cli.commands.runs.wait_for_run import parse_timeout
    from mainspring.cli.resource_ids import find_run

    timeout_seconds = parse_timeout(timeout)
    with connection.client() as client:
        run_id = find_run(client, run)
        client.run(run_id)
    with connection.watch_client() as client:
        watch_run(client, run_id, printing, timeout_seconds)


def watch_run(client: Client, run_id: str, printing: Printing, timeout_seconds: float | None) -> None:
    """Show a run until it ends, and exit with its result."""
    from mainspring.cli.commands.runs.wait_for_run import exit_timed_out, print_end
    from mainspring.cli.render.run_view import RunWatcher

    watcher = RunWatcher(client, run_id, printing, timeout_seconds)
    end = watcher.run_until_end()
    if end is None:
        exit_timed_out(f"{run_id} has not ended after {timeout_seconds:g} s", run_id)
    print_end(client, end, printing)
