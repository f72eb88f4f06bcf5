"""Actions on runs, tasks and schedules: `cancel`, `retry`, `rerun`, `promote`, `kill`, `extend`, `clear`, `pause` .."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.commands.runs.bulk_actions import RunFilter, with_run_targets
from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    confirmed,
    with_confirmation,
    with_connection_options,
    with_output_options,
)

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import ActionResult

_why = click.option("--why", default="", help="Reason, recorded in the audit log.")


@click.command("cancel")
@click.argument("ids", metavar="RUN_OR_TASK...", nargs=-1, shell_complete=candidates.runs_or_tasks)
@with_run_targets
@_why
@with_confirmation
@with_output_options
@with_connection_options
def cancel(
    connection: ConnectionOptions,
    printing: Printing,
    ids: tuple[str, ...],
    run_filter: RunFilter | None,
    why: str,
    yes: bool,
) -> None:
    """Cancel runs or tasks. Running tasks are asked to stop.

    \b
    Examples:
      mainspring cancel @latest
      mainspring cancel run_018f3c2e9a41-9d2c44e1f0a7b35c --why "wrong day"
      mainspring cancel --filter 'job:etl-* state:running' --dry-run
    """
    if run_filter is not None:
        run_filter.action(connection, printing, "cancel", why=why, yes=yes)
        return
    _act_on_each(
        connection, printing, ids, yes=yes, verb="cancel", action=lambda client, word: _cancel(client, word, why)
    )


@click.command("retry")
@click.argument("ids", metavar="RUN_OR_TASK...", nargs=-1, shell_complete=candidates.runs_or_tasks)
@with_run_targets
@click.option("--all", "rerun_all", is_flag=True, help="Rerun the whole run as a new run with the same parameters.")
@_why
@with_confirmation
@with_output_options
@with_connection_options
def retry(
    connection: ConnectionOptions,
    printing: Printing,
    ids: tuple[str, ...],
    run_filter: RunFilter | None,
    rerun_all: bool,
    why: str,
    yes: bool,
) -> None:
    """Retry a failed task, or the failed tasks of a run; with --all, rerun the whole run.

    \b
    Examples:
      mainspring retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring retry @latest
      mainspring retry @latest --all
      mainspring retry --filter 'job:etl-* state:failed created>2026-11-15'
    """
    if run_filter is not None:
        if rerun_all:
            raise click.UsageError("--all can't be used with --filter")
        run_filter.action(connection, printing, "retry", why=why, yes=yes)
        return
    _act_on_each(
        connection,
        printing,
        ids,
        yes=yes,
        verb="retry",
        action=lambda client, word: _retry(client, word, why, rerun_all=rerun_all),
    )


@click.command("rerun")
@click.argument("runs", metavar="RUN_ID...", nargs=-1, required=True, shell_complete=candidates.runs)
@_why
@with_confirmation
@with_output_options
@with_connection_options
def rerun(connection: ConnectionOptions, printing: Printing, runs: tuple[str, ...], why: str, yes: bool) -> None:
    """Rerun runs, each as a new run of the same job version with the same parameters.

    \b
    Examples:
      mainspring rerun @latest
    """
    _act_on_each(
        connection,
        printing,
        runs,
        yes=yes,
        verb="rerun",
        action=lambda client, word: _rerun(client, _run(client, word), why),
    )


@click.command("promote")
@click.argument("ids", metavar="RUN_ID...", nargs=-1, shell_complete=candidates.runs)
@click.option(
    "--priority", type=click.Choice(["P0", "P1", "P2"], case_sensitive=False), default="P1", show_default=True,
    help="New priority. P0 needs a grant: `mainspring tenants grant-p0`.",
)  # fmt: skip
@with_run_targets
@_why
@with_confirmation
@with_output_options
@with_connection_options
def promote(
    connection: ConnectionOptions,
    printing: Printing,
    ids: tuple[str, ...],
    run_filter: RunFilter | None,
    priority: str,
    why: str,
    yes: bool,
) -> None:
    """Change the priority of runs. Running tasks continue; queued tasks are reordered.

    \b
    Examples:
      mainspring promote @latest --priority P0 --why "the board waits"
      mainspring promote --filter 'job:report-* state:pending'
    """
    if run_filter is not None:
        run_filter.action(connection, printing, "priority", priority=priority, why=why, yes=yes)
        return

    def action(client: Client, word: str) -> tuple[str, ActionResult]:
        run = _run(client, word)
        return run, client.set_priority(run, priority, why)

    _act_on_each(connection, printing, ids, yes=yes, verb="promote", action=action)


@click.command("kill")
@click.argument("task", shell_complete=candidates.tasks)
@click.option("--again", is_flag=True, help="Reschedule the task instead of cancelling it.")
@click.option("--grace", metavar="DURATION", default="0s", show_default=True, help="Time between SIGTERM and SIGKILL.")
@_why
@with_output_options
@with_connection_options
def kill(connection: ConnectionOptions, printing: Printing, task: str, again: bool, grace: str, why: str) -> None:
    """Kill the process of a running TASK, and cancel or reschedule the task.

    \b
    Examples:
      mainspring kill @latest/load --why "it hangs"
      mainspring kill @latest/load --again --grace 10s
    """
    from mainspring.cli.render.times import parse_duration
    from mainspring.cli.resource_ids import find_task

    grace_seconds = parse_duration(grace, "--grace")

    def action(client: Client, word: str) -> tuple[str, ActionResult]:
        found = find_task(client, word)
        return found, client.kill(found, why, grace_seconds=grace_seconds, again=again)

    _act_on_each(connection, printing, (task,), yes=True, verb="kill", action=action)


@click.command("extend")
@click.argument("task", shell_complete=candidates.tasks)
@click.argument("length", metavar="DURATION")
@_why
@with_output_options
@with_connection_options
def extend(connection: ConnectionOptions, printing: Printing, task: str, length: str, why: str) -> None:
    """Extend the timeout of a running TASK by DURATION, such as 30m.

    \b
    Examples:
      mainspring extend @latest/load 30m --why "the disk is slow today"
    """
    from mainspring.cli.render.times import parse_duration
    from mainspring.cli.resource_ids import find_task

    seconds = parse_duration(length, "DURATION")

    def action(client: Client, word: str) -> tuple[str, ActionResult]:
        found = find_task(client, word)
        return found, client.extend(found, seconds, why)

    _act_on_each(connection, printing, (task,), yes=True, verb="extend", action=action)


@click.command("clear")
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True, shell_complete=candidates.tasks)
@_why
@with_confirmation
@with_output_options
@with_connection_options
def clear(connection: ConnectionOptions, printing: Printing, tasks: tuple[str, ...], why: str, yes: bool) -> None:
    """Release quarantined tasks.

    \b
    Examples:
      mainspring clear @latest/load --why "the input is fixed"
      mainspring tasks -q --state QUARANTINED | xargs mainspring clear --yes
    """
    from mainspring.cli.resource_ids import find_task

    def action(client: Client, word: str) -> tuple[str, ActionResult]:
        found = find_task(client, word)
        return found, client.clear_task(found, why)

    _act_on_each(connection, printing, tasks, yes=yes, verb="clear", action=action)


@click.command("pause")
@click.argument("ids", metavar="SCHEDULE_OR_RUN...", nargs=-1, shell_complete=candidates.schedules_or_runs)
@with_run_targets
@_why
@with_confirmation
@with_output_options
@with_connection_options
def pause(
    connection: ConnectionOptions,
    printing: Printing,
    ids: tuple[str, ...],
    run_filter: RunFilter | None,
    why: str,
    yes: bool,
) -> None:
    """Pause schedules or runs. Running tasks continue.

    \b
    Examples:
      mainspring pause nightly --why "warehouse move"
      mainspring pause @latest
      mainspring pause --filter 'job:etl-*'
    """
    from mainspring.cli.resource_ids import find_schedule

    if run_filter is not None:
        run_filter.action(connection, printing, "pause", why=why, yes=yes)
        return

    def action(client: Client, word: str) -> tuple[str, ActionResult]:
        run = _run_if_any(client, word)
        if run:
            return run, client.pause_run(run, why)
        return word, client.pause_schedule(find_schedule(client, word).id, why)

    _act_on_each(connection, printing, ids, yes=yes, verb="pause", action=action)


@click.command("resume")
@click.argument("ids", metavar="SCHEDULE_OR_RUN...", nargs=-1, shell_complete=candidates.schedules_or_runs)
@with_run_targets
@_why
@with_confirmation
@with_output_options
@with_connection_options
def resume(
    connection: ConnectionOptions,
    printing: Printing,
    ids: tuple[str, ...],
    run_filter: RunFilter | None,
    why: str,
    yes: bool,
) -> None:
    """Resume paused or disabled schedules, or runs that were paused or held after a fault.

    \b
    Examples:
      mainspring resume nightly
      mainspring resume @latest
      mainspring resume --filter 'job:etl-*'
    """
    from mainspring.cli.resource_ids import find_schedule

    if run_filter is not None:
        run_filter.action(connection, printing, "resume", why=why, yes=yes)
        return

    def action(client: Client, word: str) -> tuple[str, ActionResult]:
        run = _run_if_any(client, word)
        if run:
            return run, client.resume_run(run, why)
        return word, client.resume_schedule(find_schedule(client, word).id, why)

    _act_on_each(connection, printing, ids, yes=yes, verb="resume", action=action)


def _act_on_each(
    connection: ConnectionOptions,
    printing: Printing,
    ids: tuple[str, ...],
    *,
    yes: bool,
    verb: str,
    action: Callable[[Client, str], tuple[str, ActionResult]],
) -> None:
    """Perform an action on each id and print the outcomes. Asks for confirmation if there are several."""
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    if len(ids) > 1 and not confirmed(f"{verb} {len(ids)} items?", yes=yes):
        raise click.Abort
    with connection.client() as client:
        outcomes = [ActionOutcome.of(named, verb, done) for named, done in (action(client, word) for word in ids)]
    print_action_outcomes(outcomes, printing)


def _cancel(client: Client, word: str, why: str) -> tuple[str, ActionResult]:
    from mainspring.cli.resource_ids import find_task, is_run

    if is_run(word) and "/" not in word:
        run = _run(client, word)
        return run, client.cancel_run(run, why)
    task = find_task(client, word)
    return task, client.cancel_task(task, why)


def _retry(client: Client, word: str, why: str, *, rerun_all: bool) -> tuple[str, ActionResult]:
    from mainspring.cli.resource_ids import find_task, is_run

    if is_run(word) and "/" not in word:
        run = _run(client, word)
        if not rerun_all:
            return run, client.retry_run(run, why)
        return _rerun(client, run, why)
    if rerun_all:
        raise click.UsageError(f"--all requires a run; {word} is not one")
    task = find_task(client, word)
    return task, client.retry_task(task, why)


def _rerun(client: Client, run: str, why: str) -> tuple[str, ActionResult]:
    """Rerun a run. The outcome has the id of the new run."""
    from mainspring.protocol.rest.runs import ActionResult

    return client.rerun(run, why).run_id, ActionResult(changed=True, detail=f"rerun of {run}")


def _run_if_any(client: Client, word: str) -> str | None:
    """Resolve a reference to a run; None if it names a schedule."""
    from mainspring.cli.resource_ids import is_run, strip_url

    return _run(client, word) if is_run(strip_url(word)) else None


def _run(client: Client, word: str) -> str:
    from mainspring.cli.resource_ids import find_run

    return find_run(client, word)
