"""`mainspring decisions`: recorded decisions of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ListCommand
from mainspring.cli.resource import Listing, Session, listing

if TYPE_CHECKING:
    from mainspring.protocol.rest.decisions import DecisionView

KINDS = ("placed", "preempts", "no_room")


@click.command("decisions", cls=ListCommand)
@click.argument("task", required=False, shell_complete=candidates.tasks)
@click.option("--run", metavar="RUN_ID", help="Filter by run.", shell_complete=candidates.runs)
@click.option("--worker", metavar="NAME", help="Filter by chosen worker.", shell_complete=candidates.workers)
@click.option("--kind", type=click.Choice(KINDS), help="Filter by kind of decision.")
@click.option("--from", "since", metavar="TIME", help="Only decisions at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only decisions before this time.")
@listing(50)
def decisions(
    session: Session, task: str | None, run: str | None, worker: str | None, kind: str | None, since: str | None,
    before: str | None, limit: int,
) -> Listing[DecisionView]:  # fmt: skip
    """List scheduling decisions and their reasons, newest first.

    Of TASK, or of all tasks. All preemptions are recorded, and a sample of placements: see the setting
    decisions_sampled_per_1000.

    \b
    Examples:
      mainspring decisions task_018f3c2e9a41-9d2c44e1f0a7b35c.0
      mainspring decisions @latest/train -o wide
      mainspring decisions --kind preempts --from 2026-11-15
    """
    from mainspring.cli.render.sharing_tables import DECISIONS
    from mainspring.cli.resource_ids import find_run, find_task

    filters = {"--run": run, "--worker": worker, "--kind": kind, "--from": since, "--to": before}
    said = [option for option, value in filters.items() if value is not None]
    if task is not None and said:
        raise click.UsageError(f"TASK and {said[0]} are mutually exclusive")
    start, end = session.time(since, "--from"), session.time(before, "--to")
    client = session.client
    if task is not None:
        task_id = find_task(client, task)
        return DECISIONS, lambda: client.task_decisions(task_id, limit=limit)
    run_id = None if run is None else find_run(client, run)
    return DECISIONS, lambda: client.decisions(
        run=run_id, worker=worker, kind=kind, since=start, before=end, limit=limit
    )
