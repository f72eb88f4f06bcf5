"""`mainspring cancel`, `pause`, `resume`, `retry`: what people want of runs and tasks."""

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
@_why
@_yes
@prints
@reaches_server
def retry(reach: Reach, printing: Printing, ids: tuple[str, ...], why: str, yes: bool) -> None:
    """Run again what did not succeed: a task, or all such tasks of a run.

    \b
    Examples:
      mainspring retry task_018f3c2e9a41-9d2c44e1f0a7b35c.2
      mainspring retry @latest
    """
    from mainspring.cli.references import find_run, find_task, is_run

    with reach.client() as client:
        tasks: list[str] = []
        for word in ids:
            if is_run(word) and "/" not in word:
                failed = client.tasks(run=find_run(client, word), states=["FAILED", "TIMED_OUT"])
                tasks.extend(task.id for task in failed)
            else:
                tasks.append(find_task(client, word))
    if not tasks:
        from mainspring.errors import Refused

        raise Refused("nothing failed there")
    _act_on_each(
        reach,
        printing,
        tuple(tasks),
        yes=yes,
        verb="retry",
        act=lambda client, task: (task, client.retry_task(task, why)),
    )


@click.command()
@click.argument("ids", metavar="RUN...", nargs=-1, required=True)
@_why
@_yes
@prints
@reaches_server
def pause(reach: Reach, printing: Printing, ids: tuple[str, ...], why: str, yes: bool) -> None:
    """Start no further task of runs; what runs goes on.

    \b
    Examples:
      mainspring pause @latest
    """

    def act(client: Client, id: str) -> tuple[str, Done]:
        run = _run(client, id)
        return run, client.pause_run(run, why)

    _act_on_each(reach, printing, ids, yes=yes, verb="pause", act=act)


@click.command()
@click.argument("ids", metavar="RUN...", nargs=-1, required=True)
@_why
@_yes
@prints
@reaches_server
def resume(reach: Reach, printing: Printing, ids: tuple[str, ...], why: str, yes: bool) -> None:
    """Go on with runs that were paused, or held for a fault.

    \b
    Examples:
      mainspring resume @latest
    """

    def act(client: Client, id: str) -> tuple[str, Done]:
        run = _run(client, id)
        return run, client.resume_run(run, why)

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


def _run(client: Client, word: str) -> str:
    from mainspring.cli.references import find_run

    return find_run(client, word)
