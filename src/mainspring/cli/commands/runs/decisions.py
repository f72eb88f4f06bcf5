"""`mainspring decisions`: recorded decisions of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    ListCommand,
    Printing,
    limit_option,
    watch_option,
    with_connection_options,
    with_table_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mainspring.protocol.rest.decisions import DecisionView

KINDS = ("placed", "preempts", "no_room")


@click.command("decisions", cls=ListCommand)
@click.argument("task", required=False, shell_complete=candidates.tasks)
@click.option("--run", metavar="RUN_ID", help="Filter by run.", shell_complete=candidates.runs)
@click.option("--worker", metavar="NAME", help="Filter by chosen worker.", shell_complete=candidates.workers)
@click.option("--kind", type=click.Choice(KINDS), help="Filter by kind of decision.")
@click.option("--from", "since", metavar="TIME", help="Only decisions at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only decisions before this time.")
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def decisions(
    connection: ConnectionOptions,
    printing: Printing,
    task: str | None,
    run: str | None,
    worker: str | None,
    kind: str | None,
    since: str | None,
    before: str | None,
    watch: bool,
    limit: int,
) -> None:
    """List scheduling decisions and their reasons, newest first, for TASK or for all tasks.

    All preemptions are recorded, and a sample of placements: see the setting decisions_sampled_per_1000.

    \b
    Examples:
      mainspring decisions task_018f3c2e9a41-9d2c44e1f0a7b35c.0
      mainspring decisions @latest/train -o wide
      mainspring decisions --kind preempts --from 2026-11-15
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import DECISIONS
    from mainspring.cli.render.times import parse_time
    from mainspring.cli.resource_ids import find_run, find_task

    filters = {"--run": run, "--worker": worker, "--kind": kind, "--from": since, "--to": before}
    said = [option for option, value in filters.items() if value is not None]
    if task is not None and said:
        raise click.UsageError(f"TASK and {said[0]} are mutually exclusive")
    start = None if since is None else parse_time(since, "--from", printing)
    end = None if before is None else parse_time(before, "--to", printing)
    with connection.client() as client:
        task_id = None if task is None else find_task(client, task)
        run_id = None if run is None else find_run(client, run)

        def fetch() -> Iterable[DecisionView]:
            if task_id is not None:
                return client.task_decisions(task_id, limit=limit)
            return client.decisions(run=run_id, worker=worker, kind=kind, since=start, before=end, limit=limit)

        show_list(fetch, DECISIONS, printing, watch=watch, limit=limit)
