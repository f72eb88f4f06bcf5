"""`mainspring runs`, `tasks`, `show`, `graph`, `logs`, `decisions` and `dead-letters`: list and show runs and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ListCommand,
    ResourceGroup,
    confirm,
    filter_option,
    number_option,
    priority_option,
    with_confirmation,
)
from mainspring.cli.resource import Listing, Outcome, Session, listing, why_option, with_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.decisions import DecisionView
    from mainspring.protocol.rest.runs import RunView, TaskView
    from mainspring.protocol.rest.schedules import DeadLetterView

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


@click.command("logs")
@click.argument("what", metavar="TASK_OR_RUN", default="@latest", shell_complete=candidates.runs_or_tasks)
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the end.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines of each task.")
@number_option("--attempt", "Attempt number; the latest if omitted.")
@click.option("--failed", is_flag=True, help="Print only failed and timed-out tasks of a run.")
@with_session
def logs(session: Session, what: str, follow: bool, tail: int | None, attempt: int | None, failed: bool) -> None:
    """Print the logs of a task, or of all tasks of a run.

    In the logs of a run, each line starts with the name of its task.

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


DECISION_KINDS = ("placed", "preempts", "no_capacity")


@click.command("decisions", cls=ListCommand)
@click.argument("task", required=False, shell_complete=candidates.tasks)
@click.option("--run", metavar="RUN_ID", help="Filter by run.", shell_complete=candidates.runs)
@click.option("--worker", metavar="NAME", help="Filter by chosen worker.", shell_complete=candidates.workers)
@click.option("--kind", type=click.Choice(DECISION_KINDS), help="Filter by kind of decision.")
@click.option("--from", "since", metavar="TIME", help="Only decisions at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only decisions before this time.")
@listing(50)
def decisions(
    session: Session, task: str | None, run: str | None, worker: str | None, kind: str | None, since: str | None,
    before: str | None, limit: int,
) -> Listing[DecisionView]:  # fmt: skip
    """List scheduling decisions and their reasons, newest first.

    With TASK, only its decisions are listed. All preemptions are recorded, and a sample of the placements: the setting
    decisions_sampled_per_1000 sets the rate.

    \b
    Examples:
      mainspring decisions task_018f3c2e9a41-9d2c44e1f0a7b35c.0
      mainspring decisions @latest/train -o wide
      mainspring decisions --kind preempts --from 2026-11-15
    """
    from mainspring.cli.render.sharing_tables import DECISIONS
    from mainspring.cli.resource_ids import find_run, find_task

    filters = {"--run": run, "--worker": worker, "--kind": kind, "--from": since, "--to": before}
    used = [option for option, value in filters.items() if value is not None]
    if task is not None and used:
        raise click.UsageError(f"TASK and {used[0]} are mutually exclusive")
    start, end = session.time(since, "--from"), session.time(before, "--to")
    client = session.client
    if task is not None:
        task_id = find_task(client, task)
        return DECISIONS, lambda: client.task_decisions(task_id, limit=limit)
    run_id = None if run is None else find_run(client, run)
    return DECISIONS, lambda: client.decisions(
        run=run_id, worker=worker, kind=kind, since=start, before=end, limit=limit
    )


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
    from mainspring.cli.render.tables import DEAD_LETTERS

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
