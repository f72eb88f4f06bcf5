"""Actions on runs, tasks and schedules: `cancel`, `retry`, `rerun`, `promote`, `kill`, `extend`, `clear`, `pause` ..

An action on runs takes ids, or a filter: --dry-run lists the matching runs, otherwise one request acts on all of them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import rich_click as click
from click.globals import get_current_context

from mainspring.cli.completion import candidates
from mainspring.cli.options import Call, confirm, priority_option, with_confirmation
from mainspring.cli.resource import Outcome, Session, act_on_each, action, action_on_each, why_option, with_session

if TYPE_CHECKING:
    from mainspring.cli.completion.candidates import Completion
    from mainspring.protocol.rest.runs import BulkActionRequest

_REFUSED = 4
_task = click.argument("task", shell_complete=candidates.tasks)


def _ids(metavar: str, completion: Completion) -> Callable[[Call], Call]:
    return click.argument("ids", metavar=metavar, nargs=-1, shell_complete=completion)


def _with_filter(command: Call) -> Call:
    """Add a filter, as an alternative to ids."""
    filtered = click.option("--dry-run", is_flag=True, help="With --filter: only list the runs.")(command)
    about = "All runs that match: 'state:failed job:etl-*'."
    return click.option("-f", "--filter", "q", metavar="FILTER", help=about)(filtered)


def _action_on_runs(bulk: str) -> Callable[[Callable[..., Outcome]], Callable[..., None]]:
    """Make a function that returns the `Outcome` for one id an action on ids or on all runs that match a filter.

    `bulk` is the name of the bulk action.
    """

    def decorate(command: Callable[..., Outcome]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(
            session: Session, ids: tuple[str, ...], q: str | None, dry_run: bool, yes: bool, **rest: object
        ) -> None:
            if bool(ids) is (q is not None):
                raise click.UsageError("name runs by id or use --filter, but not both")
            if dry_run and q is None:
                raise click.UsageError("--dry-run requires --filter")
            if q is None:
                act_on_each(session, command, ids, "items", yes=yes, **rest)
                return
            if rest.pop("rerun_all", False):
                raise click.UsageError("--all can't be used with --filter")
            import msgspec

            from mainspring.protocol.rest.runs import BulkActionRequest

            request = msgspec.convert({"action": bulk, "q": q, "dry_run": dry_run, **rest}, BulkActionRequest)
            _act_on_all(session, request, yes=yes)

        return why_option()(with_confirmation(with_session(call)))

    return decorate


def _act_on_all(session: Session, request: BulkActionRequest, *, yes: bool) -> None:
    """Perform an action on all runs that match a filter, or only list them. Exits with 4 if any was rejected."""
    import msgspec

    from mainspring.cli.render.output import format_number, print_hint
    from mainspring.cli.render.tables import BULK_ACTS
    from mainspring.cli.render.terminal import with_progress_bar

    client = session.client
    found = list(client.act_on_runs(msgspec.structs.replace(request, dry_run=True)))
    if request.dry_run or not found:
        session.print_rows(found, BULK_ACTS)
        print_hint("" if found else "no run matches the filter")
        return
    verb = get_current_context().command.name or request.action
    confirm(f"{verb} {format_number(len(found), 'run')}?", yes=yes)
    done = list(with_progress_bar(client.act_on_runs(request), verb, len(found)))
    session.print_rows(done, BULK_ACTS)
    if any(line.problem is not None for line in done):
        sys.exit(_REFUSED)


@click.command("cancel")
@_ids("RUN_OR_TASK...", candidates.runs_or_tasks)
@_with_filter
@_action_on_runs("cancel")
def cancel(session: Session, id: str, why: str) -> Outcome:
    """Cancel runs or tasks. Running tasks are asked to stop.

    \b
    Examples:
      mainspring cancel @latest
      mainspring cancel run_018f3c2e9a41-9d2c44e1f0a7b35c --why "wrong day"
      mainspring cancel --filter 'job:etl-* state:running' --dry-run
    """
    from mainspring.cli.resource_ids import find_run_or_task

    is_run, found = find_run_or_task(session.client, id)
    return found, (session.client.cancel_run if is_run else session.client.cancel_task)(found, why)


@click.command("retry")
@_ids("RUN_OR_TASK...", candidates.runs_or_tasks)
@_with_filter
@click.option("--all", "rerun_all", is_flag=True, help="Rerun the whole run as a new run with the same parameters.")
@_action_on_runs("retry")
def retry(session: Session, id: str, rerun_all: bool, why: str) -> Outcome:
    """Retry a failed task, or the failed tasks of a run.

    With --all, the whole run is rerun as a new run.

    \b
    Examples:
      mainspring retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring retry @latest
      mainspring retry @latest --all
      mainspring retry --filter 'job:etl-* state:failed created>2026-11-15'
    """
    from mainspring.cli.resource_ids import find_run_or_task

    is_run, found = find_run_or_task(session.client, id)
    if not rerun_all:
        return found, (session.client.retry_run if is_run else session.client.retry_task)(found, why)
    if not is_run:
        raise click.UsageError(f"--all requires a run; {id} is not one")
    return _rerun(session, found, why)


@click.command("rerun")
@click.argument("runs", metavar="RUN_ID...", nargs=-1, required=True, shell_complete=candidates.runs)
@action_on_each("items", argument="runs")
def rerun(session: Session, run: str, why: str) -> Outcome:
    """Rerun runs, each as a new run.

    A new run has the same job version and the same parameters.

    \b
    Examples:
      mainspring rerun @latest
    """
    from mainspring.cli.resource_ids import find_run

    return _rerun(session, find_run(session.client, run), why)


@click.command("promote")
@_ids("RUN_ID...", candidates.runs)
@priority_option("New priority. P0 needs a grant: `mainspring tenants grant-p0`.", "P1")
@_with_filter
@_action_on_runs("priority")
def promote(session: Session, id: str, priority: str, why: str) -> Outcome:
    """Change the priority of runs.

    Running tasks continue; queued tasks are reordered.

    \b
    Examples:
      mainspring promote @latest --priority P0 --why "the board waits"
      mainspring promote --filter 'job:report-* state:pending'
    """
    from mainspring.cli.resource_ids import find_run

    run = find_run(session.client, id)
    return run, session.client.set_priority(run, priority, why)


@click.command("kill")
@_task
@click.option("--again", is_flag=True, help="Reschedule the task instead of cancelling it.")
@click.option("--grace", metavar="DURATION", default="0s", show_default=True, help="Time between SIGTERM and SIGKILL.")
@action()
def kill(session: Session, task: str, again: bool, grace: str, why: str) -> Outcome:
    """Kill the process of a running TASK.

    The task is cancelled, or rescheduled with --again.

    \b
    Examples:
      mainspring kill @latest/load --why "it hangs"
      mainspring kill @latest/load --again --grace 10s
    """
    from mainspring.cli.render.times import parse_duration
    from mainspring.cli.resource_ids import find_task

    grace_seconds = parse_duration(grace, "--grace")
    found = find_task(session.client, task)
    return found, session.client.kill(found, why, grace_seconds=grace_seconds, again=again)


@click.command("extend")
@_task
@click.argument("length", metavar="DURATION")
@action()
def extend(session: Session, task: str, length: str, why: str) -> Outcome:
    """Extend the timeout of a running TASK by DURATION, such as 30m.

    \b
    Examples:
      mainspring extend @latest/load 30m --why "the disk is slow today"
    """
    from mainspring.cli.render.times import parse_duration
    from mainspring.cli.resource_ids import find_task

    seconds = parse_duration(length, "DURATION")
    found = find_task(session.client, task)
    return found, session.client.extend(found, seconds, why)


@click.command("clear")
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True, shell_complete=candidates.tasks)
@action_on_each("items", argument="tasks")
def clear(session: Session, task: str, why: str) -> Outcome:
    """Release quarantined tasks.

    \b
    Examples:
      mainspring clear @latest/load --why "the input is fixed"
      mainspring tasks -q --state QUARANTINED | xargs mainspring clear --yes
    """
    from mainspring.cli.resource_ids import find_task

    found = find_task(session.client, task)
    return found, session.client.clear_task(found, why)


@click.command("pause")
@_ids("SCHEDULE_OR_RUN...", candidates.schedules_or_runs)
@_with_filter
@_action_on_runs("pause")
def pause(session: Session, id: str, why: str) -> Outcome:
    """Pause schedules or runs. Running tasks continue.

    \b
    Examples:
      mainspring pause nightly --why "warehouse move"
      mainspring pause @latest
      mainspring pause --filter 'job:etl-*'
    """
    from mainspring.cli.resource_ids import find_run_or_schedule

    is_run, found = find_run_or_schedule(session.client, id)
    pause_one = session.client.pause_run if is_run else session.client.pause_schedule
    return found if is_run else id, pause_one(found, why)


@click.command("resume")
@_ids("SCHEDULE_OR_RUN...", candidates.schedules_or_runs)
@_with_filter
@_action_on_runs("resume")
def resume(session: Session, id: str, why: str) -> Outcome:
    """Resume paused schedules or runs.

    Also resumes disabled schedules, and runs held after a fault.

    \b
    Examples:
      mainspring resume nightly
      mainspring resume @latest
      mainspring resume --filter 'job:etl-*'
    """
    from mainspring.cli.resource_ids import find_run_or_schedule

    is_run, found = find_run_or_schedule(session.client, id)
    resume_one = session.client.resume_run if is_run else session.client.resume_schedule
    return found if is_run else id, resume_one(found, why)


def _rerun(session: Session, run: str, why: str) -> Outcome:
    """Rerun a run. The outcome has the id of the new run."""
    from mainspring.protocol.rest.runs import ActionResult

    return session.client.rerun(run, why).run_id, ActionResult(changed=True, detail=f"rerun of {run}")
