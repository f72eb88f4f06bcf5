"""`mainspring jobs`: job definitions and their versions."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.commands.runs.bulk_actions import filter_option
from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    confirmed,
    limit_option,
    watch_option,
    with_confirmation,
    with_connection_options,
    with_output_options,
    with_table_options,
)


@click.group("jobs", cls=ResourceGroup, invoke_without_command=True)
@filter_option
@watch_option
@limit_option(100)
@with_table_options
@with_connection_options
@click.pass_context
def jobs(
    ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, q: str | None, watch: bool, limit: int
) -> None:
    """List jobs in their latest version. Alias: `mainspring ls`.

    \b
    Examples:
      mainspring jobs
      mainspring jobs --filter 'label.team=ml'
      mainspring jobs versions etl
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.tables import JOBS

    with connection.client() as client:
        show_list(lambda: client.jobs(q=q, limit=limit), JOBS, printing, watch=watch, limit=limit)


@jobs.command("versions")
@click.argument("job", shell_complete=candidates.jobs)
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def versions(connection: ConnectionOptions, printing: Printing, job: str, watch: bool, limit: int) -> None:
    """List the versions of JOB, newest first.

    \b
    Examples:
      mainspring jobs versions etl
      mainspring show etl@3
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.tables import VERSIONS

    with connection.client() as client:
        show_list(lambda: client.job_versions(job, limit=limit), VERSIONS, printing, watch=watch, limit=limit)


@jobs.command("delete")
@click.argument("names", metavar="JOB...", nargs=-1, required=True, shell_complete=candidates.jobs)
@click.option("--if-version", type=click.IntRange(min=1), help="Only if this is the latest version.")
@click.option("--why", default="", help="Reason, recorded in the audit log.")
@with_confirmation
@with_output_options
@with_connection_options
def delete(
    connection: ConnectionOptions,
    printing: Printing,
    names: tuple[str, ...],
    if_version: int | None,
    why: str,
    yes: bool,
) -> None:
    """Delete jobs with all versions.

    Their runs continue and are kept. A job with a schedule can't be deleted.

    \b
    Examples:
      mainspring jobs delete etl --why "moved elsewhere"
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    if len(names) > 1 and not confirmed(f"delete {len(names)} jobs?", yes=yes):
        raise click.Abort
    with connection.client() as client:
        outcomes = [
            ActionOutcome.of(name, "delete", client.delete_job(name, why, if_match=if_version)) for name in names
        ]
    print_action_outcomes(outcomes, printing)
