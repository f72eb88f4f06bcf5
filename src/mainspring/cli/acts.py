"""`mainspring cancel`, `retry`, `extend`, `clear`, `pause`, `resume`: what people want of what goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import Printing, Reach, agreed, prints, reaches_server

if TYPE_CHECKING:
    from mainspring.rest import Done
    from mainspring.sdk.client import Client

_why = click.option("--why", default="", help="Why; it is kept with the deed.")
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask before acting on several.")


@click.command()
@click.argument("ids", nargs=-1, required=True)
@_why
@_yes
@prints
@reaches_server
def cancel(reach: Reach, printing: Printing, ids: tuple[str, ...], why: str, yes: bool) -> None:
    """Stop runs or tasks: what has not started will not, what runs is asked to stop.

    \b
    Examples:
      mainspring cancel @latest
      mainspring cancel run_018f3c2e9a41-9d2c44e1f0a7b35c --why "wrong day"
      mainspring runs -q --state RUNNING | xargs mainspring cancel --yes
    """
    _act_on_each(reach, printing, ids, yes=yes, verb="cancel", act=lambda client, word: _cancel(client, word, why))


@click.command()
@click.argument("ids", nargs=-1, required=True)
@click.option(
    "--all", "whole", is_flag=True, help="Of a run: run all of it again, as a new run with the same parameters."
)
@_why
@_yes
@prints
@reaches_server
def retry(reach: Reach, printing: Printing, ids: tuple[str, ...], whole: bool, why: str, yes: bool) -> None:
    """Run again what did not succeed: a task, or a run from where it failed on; with --all a whole run.

    \b
    Examples:
      mainspring retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring retry @latest
      mainspring retry @latest --all
    """
    _act_on_each(
        reach, printing, ids, yes=yes, verb="retry", act=lambda client, word: _retry(client, word, why, whole=whole)
    )


@click.command()
@click.argument("task")
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
    from mainspring.cli.references import find_task
    from mainspring.sdk.quantities import seconds_of

    try:
        seconds = seconds_of(length)
    except ValueError as error:
        raise click.UsageError(f"{length}: {error}") from error

    def act(client: Client, word: str) -> tuple[str, Done]:
        found = find_task(client, word)
        return found, client.extend(found, seconds, why)

    _act_on_each(reach, printing, (task,), yes=True, verb="extend", act=act)


@click.command()
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True)
@_why
@_yes
@prints
@reaches_server
def clear(reach: Reach, printing: Printing, tasks: tuple[str, ...], why: str, yes: bool) -> None:
    """Let tasks run again that are quarantined because they looked poisonous.

    \b
    Examples:
      mainspring clear @latest/load --why "the input is mended"
      mainspring tasks -q --state QUARANTINED | xargs mainspring clear --yes
    """
    from mainspring.cli.references import find_task

    def act(client: Client, word: str) -> tuple[str, Done]:
        found = find_task(client, word)
        return found, client.clear_task(found, why)

    _act_on_each(reach, printing, tasks, yes=yes, verb="clear", act=act)


@click.command()
@click.argument("names", metavar="SCHEDULE_OR_RUN...", nargs=-1, required=True)
@_why
@_yes
@prints
@reaches_server
def pause(reach: Reach, printing: Printing, names: tuple[str, ...], why: str, yes: bool) -> None:
    """Fire schedules no more, or start no further task of runs; what runs goes on.

    \b
    Examples:
      mainspring pause nightly --why "warehouse move"
      mainspring pause @latest
    """

    def act(client: Client, word: str) -> tuple[str, Done]:
        run = _run_if_any(client, word)
        return (run, client.pause_run(run, why)) if run else (word, client.pause_schedule(word, why))

    _act_on_each(reach, printing, names, yes=yes, verb="pause", act=act)


@click.command()
@click.argument("names", metavar="SCHEDULE_OR_RUN...", nargs=-1, required=True)
@_why
@_yes
@prints
@reaches_server
def resume(reach: Reach, printing: Printing, names: tuple[str, ...], why: str, yes: bool) -> None:
    """Go on with schedules that were paused or disabled, or with runs that were paused or held for a fault.

    \b
    Examples:
      mainspring resume nightly
      mainspring resume @latest
    """

    def act(client: Client, word: str) -> tuple[str, Done]:
        run = _run_if_any(client, word)
        return (run, client.resume_run(run, why)) if run else (word, client.resume_schedule(word, why))

    _act_on_each(reach, printing, names, yes=yes, verb="resume", act=act)


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
    from mainspring.cli.deeds import Deed, print_deeds

    if len(ids) > 1 and not agreed(f"{verb} {len(ids)} things?", yes=yes):
        raise click.Abort
    with reach.client() as client:
        deeds = [Deed.of(named, verb, done) for named, done in (act(client, word) for word in ids)]
    print_deeds(deeds, printing)


def _cancel(client: Client, word: str, why: str) -> tuple[str, Done]:
    from mainspring.cli.references import find_task, is_run

    if is_run(word) and "/" not in word:
        run = _run(client, word)
        return run, client.cancel_run(run, why)
    task = find_task(client, word)
    return task, client.cancel_task(task, why)


def _retry(client: Client, word: str, why: str, *, whole: bool) -> tuple[str, Done]:
    """What is printed of a whole run that runs again is the new one."""
    from mainspring.cli.references import find_task, is_run
    from mainspring.rest import Done

    if is_run(word) and "/" not in word:
        run = _run(client, word)
        if not whole:
            return run, client.retry_run(run, why)
        again = client.rerun(run, why)
        return again.run_id, Done(changed=True, detail=f"repeats {run}")
    if whole:
        raise click.UsageError(f"--all is for runs, and {word} is none")
    task = find_task(client, word)
    return task, client.retry_task(task, why)


def _run_if_any(client: Client, word: str) -> str | None:
    """The run that a word means; None if it can't mean a run, but a schedule."""
    from mainspring.cli.references import is_run, without_address

    return _run(client, word) if is_run(without_address(word)) else None


def _run(client: Client, word: str) -> str:
    from mainspring.cli.references import find_run

    return find_run(client, word)
