"""`mainspring jobs`, `history` and `durations`: job definitions, their versions and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup, filter_option, number_option
from mainspring.cli.resource import Listing, Outcome, Session, action_on_each, listing, with_table_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.runs import JobView

_job = click.argument("job", shell_complete=candidates.jobs)


@click.group("jobs", cls=ResourceGroup)
@filter_option
@listing(100)
def jobs(session: Session, q: str | None, limit: int) -> Listing[JobView]:
    """List jobs in their latest version. Alias: `mainspring ls`.

    \b
    Examples:
      mainspring jobs
      mainspring jobs --filter 'label.team=ml'
      mainspring jobs versions etl
    """
    from mainspring.cli.render.tables import JOBS

    return JOBS, lambda: session.client.jobs(q=q, limit=limit)


@jobs.command("versions")
@_job
@listing(50)
def versions(session: Session, job: str, limit: int) -> Listing[JobView]:
    """List the versions of JOB, newest first.

    \b
    Examples:
      mainspring jobs versions etl
      mainspring show etl@3
    """
    from mainspring.cli.render.tables import VERSIONS

    return VERSIONS, lambda: session.client.job_versions(job, limit=limit)


@jobs.command("delete")
@click.argument("names", metavar="JOB...", nargs=-1, required=True, shell_complete=candidates.jobs)
@click.option("--if-version", type=click.IntRange(min=1), metavar="VERSION", help="Only if this is the latest version.")
@action_on_each("jobs", argument="names")
def delete(session: Session, name: str, if_version: int | None, why: str) -> Outcome:
    """Delete jobs with all versions.

    Their runs continue and are kept. A job with a schedule can't be deleted.

    \b
    Examples:
      mainspring jobs delete etl --why "moved elsewhere"
    """
    return name, session.client.delete_job(name, why, if_match=if_version)


@click.command("history")
@_job
@number_option("--days", "Number of days, up to today.", 30, most=366)
@with_table_session
def history(session: Session, job: str, days: int) -> None:
    """Show daily statistics of JOB.

    Runs, success rate, durations and start delays of each day, in UTC.

    \b
    Examples:
      mainspring history etl
      mainspring history etl --days 7 -o json
    """
    from mainspring.cli.render.output import format_number
    from mainspring.cli.render.tables import DAYS, format_success_rate
    from mainspring.core.text.durations import format_seconds

    trend = session.client.job_trend(job, days=days)

    def print_text() -> None:
        session.print_rows(trend.days, DAYS)
        total = trend.total
        if total.runs:
            took = total.duration_p50_seconds
            usual = "" if took is None else f", median {format_seconds(took)}"
            click.echo(f"\n{format_number(total.runs, 'run')}, {format_success_rate(total)} succeeded{usual}")

    session.print_one(trend, trend.job, print_text)


@click.command("durations")
@_job
@with_table_session
def durations(session: Session, job: str) -> None:
    """Show p50, p90 and p99 durations of JOB and its tasks.

    They are computed from the latest successful runs.

    \b
    Examples:
      mainspring durations etl
    """
    from mainspring.cli.render.tables import DURATIONS

    session.print_rows(session.client.durations(job), DURATIONS)
