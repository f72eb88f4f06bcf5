"""`mainspring jobs`: job definitions and their versions."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.commands.runs.bulk_actions import filtered
from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    Noun,
    Printing,
    Reach,
    agreed,
    asks_first,
    limited,
    prints,
    prints_rows,
    reaches_server,
    watched,
)


@click.group("jobs", cls=Noun, invoke_without_command=True)
@filtered
@watched
@limited(100)
@prints_rows
@reaches_server
@click.pass_context
def jobs(ctx: click.Context, /, reach: Reach, printing: Printing, q: str | None, watch: bool, limit: int) -> None:
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

    with reach.client() as client:
        show_list(lambda: client.jobs(q=q, limit=limit), JOBS, printing, watch=watch, limit=limit)


@jobs.command("versions")
@click.argument("job", shell_complete=candidates.jobs)
@watched
@limited(50)
@prints_rows
@reaches_server
def versions(reach: Reach, printing: Printing, job: str, watch: bool, limit: int) -> None:
    """List the versions of JOB, newest first.

    \b
    Examples:
      mainspring jobs versions etl
      mainspring show etl@3
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.tables import VERSIONS

    with reach.client() as client:
        show_list(lambda: client.job_versions(job, limit=limit), VERSIONS, printing, watch=watch, limit=limit)


@jobs.command("delete")
@click.argument("names", metavar="JOB...", nargs=-1, required=True, shell_complete=candidates.jobs)
@click.option("--if-version", type=click.IntRange(min=1), help="Only if this is the latest version.")
@click.option("--why", default="", help="Reason, recorded in the audit log.")
@asks_first
@prints
@reaches_server
def delete(
    reach: Reach, printing: Printing, names: tuple[str, ...], if_version: int | None, why: str, yes: bool
) -> None:
    """Delete jobs with all versions.

    Their runs continue and are kept. A job with a schedule can't be deleted.

    \b
    Examples:
      mainspring jobs delete etl --why "moved elsewhere"
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    if len(names) > 1 and not agreed(f"delete {len(names)} jobs?", yes=yes):
        raise click.Abort
    with reach.client() as client:
        deeds = [Deed.of(name, "delete", client.delete_job(name, why, if_match=if_version)) for name in names]
    print_deeds(deeds, printing)
