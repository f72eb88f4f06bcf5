"""`mainspring durations`: duration percentiles of a job."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints_rows, reaches_server


@click.command("durations")
@click.argument("job", shell_complete=candidates.jobs)
@prints_rows
@reaches_server
def durations(reach: Reach, printing: Printing, job: str) -> None:
    """Show p50, p90 and p99 durations of JOB and its tasks, from the latest successful runs.

    \b
    Examples:
      mainspring durations etl
    """
    from mainspring.cli.render.output import print_rows
    from mainspring.cli.render.schedule_tables import DURATIONS

    with reach.client() as client:
        print_rows(client.durations(job), DURATIONS, printing)
