"""Actions on runs, tasks and schedules: `cancel`, `retry`, `rerun`, `promote`, `kill`, `extend`, `clear`, `pause` .."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.commands.runs.bulk_actions import Filtered, takes_filter
from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, agreed, asks_first, prints, reaches_server

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import Done

_why = click.option("--why", default="", help="Reason, recorded in the audit log.")


@click.command("cancel")
@click.argument("ids", metavar="RUN_OR_TASK...", nargs=-1, shell_complete=candidates.runs_or_tasks)
@takes_filter
@_why
@asks_first
@prints
@reaches_server
def cancel(
    reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, why: str, yes: bool
) -> None:
    """Cancel runs or tasks. Running tasks are asked to stop.

    \b
    Examples:
      mainspring cancel @latest
      mainspring cancel run_018f3c2e9a41-9d2c44e1f0a7b35c --why "wrong day"
      mainspring cancel --filter 'job:etl-* state:running' --dry-run
    """
    if chosen is not None:
        chosen.act(reach, printing, "cancel", why=why, yes=yes)
        return
    _act_on_each(reach, printing, ids, yes=yes, verb="cancel", act=lambda client, word: _cancel(client, word, why))


@click.command("retry")
@click.argument("ids", metavar="RUN_OR_TASK...", nargs=-1, shell_complete=candidates.runs_or_tasks)
@takes_filter
@click.option("--all", "whole", is_flag=True, help="Rerun the whole run as a new run with the same parameters.")
@_why
@asks_first
@prints
@reaches_server
def retry(
    reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, whole: bool, why: str, yes: bool
) -> None:
    """Retry a failed task, or the failed tasks of a run; with --all, rerun the whole run.

    \b
    Examples:
      mainspring retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring retry @latest
      mainspring retry @latest --all
      mainspring retry --filter 'job:etl-* state:failed created>2026-11-15'
    """
    if chosen is not None:
        if whole:
            raise click.UsageError("--all can't be used with --filter")
        chosen.act(reach, printing, "retry", why=why, yes=yes)
        return
    _act_on_each(
        reach, printing, ids, yes=yes, verb="retry", act=lambda client, word: _retry(client, word, why, whole=whole)
    )


@click.command("rerun")
@click.argument("runs", metavar="RUN_ID...", nargs=-1, required=True, shell_complete=candidates.runs)
@_why
@asks_first
@prints
@reaches_server
def rerun(reach: Reach, printing: Printing, runs: tuple[str, ...], why: str, yes: bool) -> None:
    """Rerun runs, each as a new run of the same job version with the same parameters.

    \b
    Examples:
      mainspring rerun @latest
    """
    _act_on_each(
        reach, printing, runs, yes=yes, verb="rerun", act=lambda client, word: _rerun(client, _run(client, word), why)
    )


@click.command("promote")
@click.argument("ids", metavar="RUN_ID...", nargs=-1, shell_complete=candidates.runs)
@click.option(
    "--priority", type=click.Choice(["P0", "P1", "P2"], case_sensitive=False), default="P1", show_default=True,
    help="New priority. P0 needs a grant: `mainspring tenants grant-p0`.",
)  # fmt: skip
@takes_filter
@_why
@asks_first
@prints
@reaches_server
def promote(
    reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, priority: str, why: str, yes: bool
) -> None:
    """Change the priority of runs. Running tasks continue; queued tasks are reordered.

    \b
    Examples:
      mainspring promote @latest --priority P0 --why "the board waits"
      mainspring promote --filter 'job:report-* state:pending'
    """
    if chosen is not None:
        chosen.act(reach, printing, "priority", priority=priority, why=why, yes=yes)
        return

    def act(client: Client, word: str) -> tuple[str, Done]:
        run = _run(client, word)
        return run, client.set_priority(run, priority, why)

    _act_on_each(reach, printing, ids, yes=yes, verb="promote", act=act)


@click.command("kill")
@click.argument("task", shell_complete=candidates.tasks)
@click.option("--again", is_flag=True, help="Reschedule the task instead of cancelling it.")
@click.option("--grace", metavar="DURATION", default="0s", show_default=True, help="Time between SIGTERM and SIGKILL.")
@_why
@prints
@reaches_server
def kill(reach: Reach, printing: Printing, task: str, again: bool, grace: str, why: str) -> None:
    """Kill the process of a running TASK, and cancel or reschedule the task.

    \b
    Examples:
      mainspring kill @latest/load --why "it hangs"
      mainspring kill @latest/load --again --grace 10s
    """
    from mainspring.cli.render.times import read_length
    from mainspring.cli.resource_ids import find_task

    grace_seconds = read_length(grace, "--grace")

    def act(client: Client, word: str) -> tuple[str, Done]:
        found = find_task(client, word)
        return found, client.kill(found, why, grace_seconds=grace_seconds, again=again)

    _act_on_each(reach, printing, (task,), yes=True, verb="kill", act=act)


@click.command("extend")
@click.argument("task", shell_complete=candidates.tasks)
@click.argument("length", metavar="DURATION")
@_why
@prints
@reaches_server
def extend(reach: Reach, printing: Printing, task: str, length: str, why: str) -> None:
    """Extend the timeout of a running TASK by DURATION, such as 30m.

    \b
    Examples:
      mainspring extend @latest/load 30m --why "the disk is slow today"
    """
    from mainspring.cli.render.times import read_length
    from mainspring.cli.resource_ids import find_task

    seconds = read_length(length, "DURATION")

    def act(client: Client, word: str) -> tuple[str, Done]:
        found = find_task(client, word)
        return found, client.extend(found, seconds, why)

    _act_on_each(reach, printing, (task,), yes=True, verb="extend", act=act)


@click.command("clear")
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True, shell_complete=candidates.tasks)
@_why
@asks_first
@prints
@reaches_server
def clear(reach: Reach, printing: Printing, tasks: tuple[str, ...], why: str, yes: bool) -> None:
    """Release quarantined tasks.

    \b
    Examples:
      mainspring clear @latest/load --why "the input is fixed"
      mainspring tasks -q --state QUARANTINED | xargs mainspring clear --yes
    """
    from mainspring.cli.resource_ids import find_task

    def act(client: Client, word: str) -> tuple[str, Done]:
        found = find_task(client, word)
        return found, client.clear_task(found, why)

    _act_on_each(reach, printing, tasks, yes=yes, verb="clear", act=act)


@click.command("pause")
@click.argument("ids", metavar="SCHEDULE_OR_RUN...", nargs=-1, shell_complete=candidates.schedules_or_runs)
@takes_filter
@_why
@asks_first
@prints
@reaches_server
def pause(reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, why: str, yes: bool) -> None:
    """Pause schedules or runs. Running tasks continue.

    \b
    Examples:
      mainspring pause nightly --why "warehouse move"
      mainspring pause @latest
      mainspring pause --filter 'job:etl-*'
    """
    from mainspring.cli.resource_ids import find_schedule

    if chosen is not None:
        chosen.act(reach, printing, "pause", why=why, yes=yes)
        return

    def act(client: Client, word: str) -> tuple[str, Done]:
        run = _run_if_any(client, word)
        if run:
            return run, client.pause_run(run, why)
        return word, client.pause_schedule(find_schedule(client, word).id, why)

    _act_on_each(reach, printing, ids, yes=yes, verb="pause", act=act)


@click.command("resume")
@click.argument("ids", metavar="SCHEDULE_OR_RUN...", nargs=-1, shell_complete=candidates.schedules_or_runs)
@takes_filter
@_why
@asks_first
@prints
@reaches_server
def resume(
    reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, why: str, yes: bool
) -> None:
    """Resume paused or disabled schedules, or runs that were paused or held after a fault.

    \b
    Examples:
      mainspring resume nightly
      mainspring resume @latest
      mainspring resume --filter 'job:etl-*'
    """
    from mainspring.cli.resource_ids import find_schedule

    if chosen is not None:
        chosen.act(reach, printing, "resume", why=why, yes=yes)
        return

    def act(client: Client, word: str) -> tuple[str, Done]:
        run = _run_if_any(client, word)
        if run:
            return run, client.resume_run(run, why)
        return word, client.resume_schedule(find_schedule(client, word).id, why)

    _act_on_each(reach, printing, ids, yes=yes, verb="resume", act=act)


def _act_on_each(
    reach: Reach,
    printing: Printing,
    ids: tuple[str, ...],
    *,
    yes: bool,
    verb: str,
    act: Callable[[Client, str], tuple[str, Done]],
) -> None:
    """Perform an action on each id and print the outcomes. Asks for confirmation if there are several."""
    from mainspring.cli.render.actions import Deed, print_deeds

    if len(ids) > 1 and not agreed(f"{verb} {len(ids)} items?", yes=yes):
        raise click.Abort
    with reach.client() as client:
        deeds = [Deed.of(named, verb, done) for named, done in (act(client, word) for word in ids)]
    print_deeds(deeds, printing)


def _cancel(client: Client, word: str, why: str) -> tuple[str, Done]:
    from mainspring.cli.resource_ids import find_task, is_run

    if is_run(word) and "/" not in word:
        run = _run(client, word)
        return run, client.cancel_run(run, why)
    task = find_task(client, word)
    return task, client.cancel_task(task, why)


def _retry(client: Client, word: str, why: str, *, whole: bool) -> tuple[str, Done]:
    from mainspring.cli.resource_ids import find_task, is_run

    if is_run(word) and "/" not in word:
        run = _run(client, word)
        if not whole:
            return run, client.retry_run(run, why)
        return _rerun(client, run, why)
    if whole:
        raise click.UsageError(f"--all requires a run; {word} is not one")
    task = find_task(client, word)
    return task, client.retry_task(task, why)


def _rerun(client: Client, run: str, why: str) -> tuple[str, Done]:
    """Rerun a run. The outcome has the id of the new run."""
    from mainspring.protocol.rest.runs import Done

    return client.rerun(run, why).run_id, Done(changed=True, detail=f"rerun of {run}")


def _run_if_any(client: Client, word: str) -> str | None:
    """Resolve a reference to a run; None if it names a schedule."""
    from mainspring.cli.resource_ids import is_run, without_address

    return _run(client, word) if is_run(without_address(word)) else None


def _run(client: Client, word: str) -> str:
    from mainspring.cli.resource_ids import find_run

    return find_run(client, word)
