"""`mainspring logs`: print task logs."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options


@click.command("logs")
@click.argument("what", metavar="TASK_OR_RUN", default="@latest", shell_complete=candidates.runs_or_tasks)
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the end.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines of each task.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="Attempt number; the latest if omitted.")
@click.option("--failed", is_flag=True, help="Of a run: only failed and timed out tasks.")
@with_output_options
@with_connection_options
def logs(
    connection: ConnectionOptions, printing: Printing, what: str, follow: bool, tail: int | None, attempt: int | None,
    failed: bool,
) -> None:  # fmt: skip
    """Print the logs of a task, or of all tasks of a run.

    Of a run, each line starts with the name of its task.

    \b
    Examples:
      mainspring logs @latest -f
      mainspring logs @latest/extract --tail 20
      mainspring logs run_018f3c2e9a41-9d2c44e1f0a7b35c --failed
    """
    from mainspring.cli.render.log_view import LogView
    from mainspring.cli.resource_ids import find_run_or_task, is_run, strip_url

    if failed and not is_run(strip_url(what)):
        raise click.UsageError("--failed requires a run")
    with connection.client() as client:
        is_whole_run, found = find_run_or_task(client, what)
        # Report an unreachable server now rather than after the long retry window of the watch client.
        (client.run if is_whole_run else client.task)(found)
    with connection.watch_client() if follow else connection.client() as client:
        LogView(client, printing, tail=tail, attempt=attempt).show(found, follow=follow, failed=failed)
