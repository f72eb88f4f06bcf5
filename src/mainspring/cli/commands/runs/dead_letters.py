"""`mainspring dead-letters`: tasks that failed permanently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup, confirm, with_confirmation
from mainspring.cli.resource import Listing, Outcome, Session, listing, why_option, with_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.schedules import DeadLetterView

_MAX_RETRIED = 10_000


@click.group("dead-letters", cls=ResourceGroup)
@click.option("--job", metavar="NAME", help="Filter by job.", shell_complete=candidates.jobs)
@listing(50)
def dead_letters(session: Session, job: str | None, limit: int) -> Listing[DeadLetterView]:
    """List dead letters: tasks that failed permanently, newest first.

    `retry` retries them.

    \b
    Examples:
      mainspring dead-letters --job etl
      mainspring dead-letters retry --all --job etl
    """
    from mainspring.cli.render.schedule_tables import DEAD_LETTERS

    return DEAD_LETTERS, lambda: session.client.dead_letters(job=job, limit=limit)


@dead_letters.command("retry")
@click.argument("ids", metavar="TASK...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Retry all, or all of a job.")
@click.option("--job", metavar="NAME", help="With --all: filter by job.", shell_complete=candidates.jobs)
@why_option()
@with_confirmation
@with_session
def retry(session: Session, ids: tuple[str, ...], every: bool, job: str | None, why: str, yes: bool) -> None:
    """Retry dead letters.

    If the run is already in history, the whole run is rerun as a new run.

    \b
    Examples:
      mainspring dead-letters retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring dead-letters retry --all --job etl --yes
    """
    from mainspring.cli.resource_ids import find_task

    if bool(ids) is every or (job is not None and not every):
        raise click.UsageError("name tasks, or use --all, optionally with --job")
    client = session.client
    if every:
        # Only one task of each run in history: the whole run is rerun.
        once = {
            dead.run_id if dead.in_history else dead.task_id: dead.task_id
            for dead in client.dead_letters(job=job, limit=_MAX_RETRIED)
        }
        ids = tuple(once.values())
    if len(ids) > 1:
        confirm(f"retry {len(ids)} tasks?", yes=yes)
    session.print_outcomes([_revive(session, find_task(client, word), why) for word in ids])


def _revive(session: Session, task: str, why: str) -> Outcome:
    from mainspring.protocol.rest.runs import ActionResult

    revived = session.client.revive(task, why)
    detail = f"rerun as {revived.run_id}" if revived.is_new_run else revived.detail
    return task, ActionResult(changed=True, detail=detail)
