"""Acts on all runs that a filter finds: listed with --dry-run, asked about with their number, done in one request.

@click.command()
@takes_filter
def cancel(reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, ..) -> None:
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import rich_click as click

from mainspring.cli.options import Printing, Reach, agreed

if TYPE_CHECKING:
    from mainspring.protocol.rest.runs import BulkActRequest

Call = TypeVar("Call", bound=Callable[..., object])
_REFUSED = 4
_VERBS = {"priority": "promote"}
"""Where a command has another name than the act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """All runs that a filter finds."""

    q: str
    dry_run: bool

    def act(
        self,
        reach: Reach,
        printing: Printing,
        act: Literal["cancel", "pause", "resume", "retry", "priority"],
        *,
        why: str,
        yes: bool,
        priority: str | None = None,
    ) -> None:
        """Do it to all of them, or only list them. Exits with 4 if it was refused for one."""
        from mainspring.protocol.rest.runs import BulkActRequest

        _act(
            reach,
            printing,
            BulkActRequest(act=act, q=self.q, priority=priority, dry_run=self.dry_run, why=why),
            yes=yes,
        )


def filtered(command: Call) -> Call:
    """For a list that can be narrowed down by a filter, as `q`."""
    return click.option("-f", "--filter", "q", metavar="FILTER", help="Only what it finds: 'state:failed job:etl-*'.")(
        command
    )


def takes_filter(command: Call) -> Call:
    """For an act on runs: it takes `ids`, or a filter as `chosen`, and one of them must be said."""
    options = (
        click.option("-f", "--filter", "q", metavar="FILTER", help="All runs that it finds: 'state:failed job:etl-*'."),
        click.option("--dry-run", is_flag=True, help="With --filter: list the runs, and do nothing."),
    )

    @functools.wraps(command)
    def call(*args: object, ids: tuple[str, ...], q: str | None, dry_run: bool, **rest: object) -> object:
        if bool(ids) is (q is not None):
            raise click.UsageError("say which, by their ids or by --filter")
        if dry_run and q is None:
            raise click.UsageError("--dry-run is for --filter")
        chosen = None if q is None else Filtered(q=q, dry_run=dry_run)
        return command(*args, ids=ids, chosen=chosen, **rest)

    for option in reversed(options):
        call = option(call)
    return call  # type: ignore[return-value]  # it takes what its options give, not what the command does


def _act(reach: Reach, printing: Printing, wish: BulkActRequest, *, yes: bool) -> None:
    import msgspec

    from mainspring.cli.render.bulk import with_bar
    from mainspring.cli.render.output import print_rows, say_hint
    from mainspring.cli.render.tables import BULK_ACTS

    with reach.client() as client:
        found = list(client.act_on_runs(msgspec.structs.replace(wish, dry_run=True)))
        if wish.dry_run or not found:
            print_rows(found, BULK_ACTS, printing)
            say_hint("" if found else "no run fits the filter")
            return
        verb = _VERBS.get(wish.act, wish.act)
        if not agreed(f"{verb} {len(found)} run{'s' if len(found) > 1 else ''}?", yes=yes):
            raise click.Abort
        done = list(with_bar(client.act_on_runs(wish), verb, len(found)))
    print_rows(done, BULK_ACTS, printing)
    if any(line.problem is not None for line in done):
        sys.exit(_REFUSED)
