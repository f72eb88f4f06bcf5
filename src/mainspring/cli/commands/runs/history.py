"""`mainspring history`: daily statistics of a job."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints_rows, reaches_server


@click.command("history")
@click.argument("job", shell_complete=candidates.jobs)
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="Number of days, up to today.")
@prints_rows
@reaches_server
def history(reach: Reach, printing: Printing, job: str, days: int) -> None:
    """Show daily statistics of JOB, in UTC: runs, success rate, durations and start delays.

    \b
    Examples:
      mainspring history etl
      mainspring history etl --days 7 -o json
    """
    from mainspring.cli.render.output import print_one, print_rows
    from mainspring.cli.render.tables import DAYS, say_share
    from mainspring.definitions.quantities import say_seconds

    with reach.client() as client:
        trend = client.job_trend(job, days=days)

    def for_people() -> None:
        print_rows(trend.days, DAYS, printing)
        total = trend.total
        if total.runs:
            took = total.duration_p50_seconds
            usual = "" if took is None else f", median {say_seconds(took)}"
            runs = "1 run" if total.runs == 1 else f"{total.runs} runs"
            click.echo(f"\n{runs}, {say_share(total)} succeeded{usual}")

    print_one(trend, trend.job, printing, for_people)
