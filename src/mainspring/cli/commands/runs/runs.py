"""`mainspring runs`, `tasks`, `show` and `graph`: list and show runs and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ListCommand, filter_option, priority_option
from mainspring.cli.resource import Listing, Session, listing, with_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.runs import RunView, TaskView

RUN_STATES = ("PENDING", "RUNNING", "PAUSED", "SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED")
TASK_STATES = (
    "PENDING", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED",
    "QUARANTINED",
)  # fmt: skip


@click.command("runs", cls=ListCommand)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(RUN_STATES, case_sensitive=False), metavar="STATE",
    help="Filter by state, such as FAILED. Repeatable.",
)  # fmt: skip
@click.option("--job", metavar="NAME", help="Filter by job.", shell_complete=candidates.jobs)
@priority_option("Filter by priority.")
@filter_option
@listing(50)
def runs(
    session: Session, states: tuple[str, ...], job: str | None, priority: str | None, q: str | None, limit: int
) -> Listing[RunView]:
    """List runs, newest first.

    \b
    Examples:
      mainspring runs --state FAILED --job etl
      mainspring runs --filter 'job:etl-* created>2026-11-15'
      mainspring runs -q --state RUNNING | xargs -n1 mainspring cancel
      mainspring runs -o json --limit 1000
    """
    from mainspring.cli.render.tables import RUNS

    return RUNS, lambda: session.client.runs(states=states, job=job, priority=priority, q=q, limit=limit)


@click.command("tasks", cls=ListCommand)
@click.argument("run", required=False, shell_complete=candidates.runs)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(TASK_STATES, case_sensitive=False), metavar="STATE",
    help="Filter by state, such as QUEUED. Repeatable.",
)  # fmt: skip
@click.option("--worker", metavar="NAME", help="Filter by worker.", shell_complete=candidates.workers)
@click.option("--name", metavar="NAME", help="Filter by name.")
@filter_option
@listing(100)
def tasks(
    session: Session, run: str | None, states: tuple[str, ...], worker: str | None, name: str | None, q: str | None,
    limit: int,
) -> Listing[TaskView]:  # fmt: skip
    """List the tasks of RUN, or of all runs, oldest first.

    \b
    Examples:
      mainspring tasks @latest
      mainspring tasks --state QUEUED --state RUNNING
      mainspring tasks --filter 'state:queued wait>5m'
      mainspring tasks --worker w1 -o json
    """
    from mainspring.cli.render.tables import TASKS
    from mainspring.cli.resource_ids import find_run

    client = session.client
    run_id = None if run is None else find_run(client, run)
    return TASKS, lambda: client.tasks(states=states, run=run_id, worker=worker, name=name, q=q, limit=limit)


@click.command("show")
@click.argument("what", metavar="ID", default="@latest", shell_complete=candidates.everything)
@with_session
def show(session: Session, what: str) -> None:
    """Show a run, task, attempt, worker, job or schedule in detail.

    \b
    Examples:
      mainspring show @latest
      mainspring show @latest/extract
      mainspring show w1
      mainspring show etl@3 -o yaml
    """
    from mainspring.cli.render.details import DetailPrinter

    DetailPrinter(session.client, session.printing).show(what)


@click.command("graph")
@click.argument("run", default="@latest", shell_complete=candidates.runs)
@with_session
def graph(session: Session, run: str) -> None:
    """Draw the task graph of RUN with the state of each task.

    Each task is drawn below its last dependency; its other dependencies are named beside it.

    \b
    Examples:
      mainspring graph @latest
      mainspring graph @latest -o json
    """
    from mainspring.cli.render.run_graph import draw_graph
    from mainspring.cli.resource_ids import find_run

    view = session.client.graph(find_run(session.client, run))
    session.print_one(view, view.run_id, lambda: click.echo("\n".join(draw_graph(view))))
