"""`mainspring logs`: print task logs."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import number_option
from mainspring.cli.resource import Session, with_session


@click.command("logs")
@click.argument("what", metavar="TASK_OR_RUN", default="@latest", shell_complete=candidates.runs_or_tasks)
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the end.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines of each task.")
@number_option("--attempt", "Attempt number; the latest if omitted.")
@click.option("--failed", is_flag=True, help="Of a run: only failed and timed out tasks.")
@with_session
def logs(session: Session, what: str, follow: bool, tail: int | None, attempt: int | None, failed: bool) -> None:
    """Print the logs of a task, or of all tasks of a run.

    Of a run, each line starts with the name of its task.

    \b
    Examples:
      mainspring logs @latest -f
      mainspring logs @latest/extract --tail 20
      mainspring logs run_018f3c2e9a41-9d2c44e1f0a7b35c --failed
    """
    from mainspring.cli.render.log_view import LogView
    from mainspring.cli.resource_ids import find_run_or_task, is_run

    if failed and not is_run(what):
        raise click.UsageError("--failed requires a run")
    is_whole_run, found = find_run_or_task(session.client, what)
    # Report an unreachable server now rather than after the long retry window of the watch client.
    (session.client.run if is_whole_run else session.client.task)(found)
    client = session.watch_client if follow else session.client
    LogView(client, session.printing, tail=tail, attempt=attempt).show(found, follow=follow, failed=failed)
