"""`mainspring durations`: duration percentiles of a job."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_table_options


@click.command("durations")
@click.argument("job", shell_complete=candidates.jobs)
@with_table_options
@with_connection_options
def durations(connection: ConnectionOptions, printing: Printing, job: str) -> None:
    """Show p50, p90 and p99 durations of JOB and its tasks, from the latest successful runs.

    \b
    Examples:
      mainspring durations etl
    """
    from mainspring.cli.render.output import print_rows
    from mainspring.cli.render.schedule_tables import DURATIONS

    with connection.client() as client:
        print_rows(client.durations(job), DURATIONS, printing)
