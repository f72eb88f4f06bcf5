"""`mainspring dead-letters`: tasks that failed permanently."""

from __future__ import annotations

import rich_click as click

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

_MAX_RETRIED = 10_000


@click.group(cls=ResourceGroup, invoke_without_command=True, name="dead-letters")
@click.option("--job", help="Filter by job.", shell_complete=candidates.jobs)
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
@click.pass_context
def dead_letters(
    ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, job: str | None, watch: bool, limit: int
) -> None:
    """List dead letters, tasks that failed permanently, newest first; `retry` retries them.

    \b
    Examples:
      mainspring dead-letters --job etl
      mainspring dead-letters retry --all --job etl
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import DEAD_LETTERS

    with connection.client() as client:
        show_list(lambda: client.dead_letters(job=job, limit=limit), DEAD_LETTERS, printing, watch=watch, limit=limit)


@dead_letters.command("retry")
@click.argument("ids", metavar="TASK...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Retry all, or all of a job.")
@click.option("--job", help="With --all: filter by job.", shell_complete=candidates.jobs)
@click.option("--why", default="", help="Reason, recorded in the audit log.")
@with_confirmation
@with_output_options
@with_connection_options
def retry(
    connection: ConnectionOptions,
    printing: Printing,
    ids: tuple[str, ...],
    every: bool,
    job: str | None,
    why: str,
    yes: bool,
) -> None:
    """Retry dead letters. If the run is already in history, the whole run is rerun as a new run.

    \b
    Examples:
      mainspring dead-letters retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring dead-letters retry --all --job etl --yes
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes
    from mainspring.cli.resource_ids import find_task

    if bool(ids) is every or (job is not None and not every):
        raise click.UsageError("name tasks, or use --all, optionally with --job")
    with connection.client() as client:
        if every:
            # Only one task of each run in history: the whole run is rerun.
            once = {
                dead.run_id if dead.in_history else dead.task_id: dead.task_id
                for dead in client.dead_letters(job=job, limit=_MAX_RETRIED)
            }
            ids = tuple(once.values())
        if len(ids) > 1 and not confirmed(f"retry {len(ids)} tasks?", yes=yes):
            raise click.Abort
        outcomes = []
        for word in ids:
            task = find_task(client, word)
            revived = client.revive(task, why)
            detail = f"rerun as {revived.run_id}" if revived.is_new_run else revived.detail
            outcomes.append(ActionOutcome(id=task, action="retry", changed=True, detail=detail))
    print_action_outcomes(outcomes, printing)
