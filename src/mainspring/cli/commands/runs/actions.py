"""`mainspring cancel`, `retry`, `pause`, `resume`, `promote`, and acts on tasks: what people want of what goes on."""

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

_why = click.option("--why", default="", help="Why; it is kept with the deed.")


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
    """Stop runs or tasks: what has not started will not, what runs is asked to stop.

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
@click.option(
    "--all", "whole", is_flag=True, help="Of a run: run all of it again, as a new run with the same parameters."
)
@_why
@asks_first
@prints
@reaches_server
def retry(
    reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, whole: bool, why: str, yes: bool
) -> None:
    """Run again what did not succeed: a task, or a run from where it failed on; with --all a whole run.

    \b
    Examples:
      mainspring retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring retry @latest
      mainspring retry @latest --all
      mainspring retry --filter 'job:etl-* state:failed created>2026-11-15'
    """
    if chosen is not None:
        if whole:
            raise click.UsageError("--all is for runs that are named")
        chosen.act(reach, printing, "retry", why=why, yes=yes)
        return
    _act_on_each(
        reach, printing, ids, yes=yes, verb="retry", act=lambda client, word: _retry(client, word, why, whole=whole)
    )


@click.command("rerun")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=candidates.runs)
@_why
@asks_first
@prints
@reaches_server
def rerun(reach: Reach, printing: Printing, runs: tuple[str, ...], why: str, yes: bool) -> None:
    """Run whole runs again, each as a new run of the same job version with the same parameters.

    \b
    Examples:
      mainspring rerun @latest
    """
    _act_on_each(
        reach, printing, runs, yes=yes, verb="rerun", act=lambda client, word: _rerun(client, _run(client, word), why)
    )


@click.command("promote")
@click.argument("ids", metavar="RUN...", nargs=-1, shell_complete=candidates.runs)
@click.option(
    "--priority", type=click.Choice(["P0", "P1", "P2"], case_sensitive=False), default="P1", show_default=True,
    help="Which; P2 is the lowest. P0 needs a grant: `mainspring tenants grant-p0`.",
)  # fmt: skip
@takes_filter
@_why
@asks_first
@prints
@reaches_server
def promote(
    reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, priority: str, why: str, yes: bool
) -> None:
    """Give runs another priority; what runs of them goes on, what is queued is placed by it from now on.

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
@click.option("--again", is_flag=True, help="Run it again, elsewhere if possible; otherwise it is cancelled.")
@click.option("--grace", metavar="LENGTH", default="0s", show_default=True, help="From being asked to being killed.")
@_why
@prints
@reaches_server
def kill(reach: Reach, printing: Printing, task: str, again: bool, grace: str, why: str) -> None:
    """End the process of a running TASK, and cancel the task or run it again.

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
@click.argument("length")
@_why
@prints
@reaches_server
def extend(reach: Reach, printing: Printing, task: str, length: str, why: str) -> None:
    """Give a running TASK more time, such as 30m.

    \b
    Examples:
      mainspring extend @latest/load 30m --why "the disk is slow today"
    """
    from mainspring.cli.render.times import read_length
    from mainspring.cli.resource_ids import find_task

    seconds = read_length(length, "LENGTH")

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
    """Let tasks run again that are quarantined because they looked poisonous.

    \b
    Examples:
      mainspring clear @latest/load --why "the input is mended"
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
    """Fire schedules no more, or start no further task of runs; what runs goes on.

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
    """Go on with schedules that were paused or disabled, or with runs that were paused or held for a fault.

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
    """Do it to each, and say what became of it. Several are asked about first."""
    from mainspring.cli.render.actions import Deed, print_deeds

    if len(ids) > 1 and not agreed(f"{verb} {len(ids)} things?", yes=yes):
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
        raise click.UsageError(f"--all is for runs, and {word} is none")
    task = find_task(client, word)
    return task, client.retry_task(task, why)


def _rerun(client: Client, run: str, why: str) -> tuple[str, Done]:
    """What is printed of a whole run that runs again is the new one."""
    from mainspring.protocol.rest.runs import Done

    return client.rerun(run, why).run_id, Done(changed=True, detail=f"repeats {run}")


def _run_if_any(client: Client, word: str) -> str | None:
    """The run that a word means; None if it can't mean a run, but a schedule."""
    from mainspring.cli.resource_ids import is_run, without_address

    return _run(client, word) if is_run(without_address(word)) else None


def _run(client: Client, word: str) -> str:
    from mainspring.cli.resource_ids import find_run

    return find_run(client, word)
