"""`mainspring history`: daily statistics of a job."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_table_options


@click.command("history")
@click.argument("job", shell_complete=candidates.jobs)
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="Number of days, up to today.")
@with_table_options
@with_connection_options
def history(connection: ConnectionOptions, printing: Printing, job: str, days: int) -> None:
    """Show daily statistics of JOB, in UTC: runs, success rate, durations and start delays.

    \b
    Examples:
      mainspring history etl
      mainspring history etl --days 7 -o json
    """
    from mainspring.cli.render.output import print_one, print_rows
    from mainspring.cli.render.tables import DAYS, format_success_rate
    from mainspring.core.text.durations import format_seconds

    with connection.client() as client:
        trend = client.job_trend(job, days=days)

    def print_text() -> None:
        print_rows(trend.days, DAYS, printing)
        total = trend.total
        if total.runs:
            took = total.duration_p50_seconds
            usual = "" if took is None else f", median {format_seconds(took)}"
            runs = "1 run" if total.runs == 1 else f"{total.runs} runs"
            click.echo(f"\n{runs}, {format_success_rate(total)} succeeded{usual}")

    print_one(trend, trend.job, printing, print_text)
