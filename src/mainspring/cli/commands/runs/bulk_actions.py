"""Bulk actions on all runs that match a filter: --dry-run lists them, otherwise one request after confirmation.

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
"""Commands whose name differs from the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """All runs that match a filter."""

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
        """Perform an action on all of them, or only list them. Exits with 4 if any was rejected."""
        from mainspring.protocol.rest.runs import BulkActRequest

        _act(
            reach,
            printing,
            BulkActRequest(act=act, q=self.q, priority=priority, dry_run=self.dry_run, why=why),
            yes=yes,
        )


def filtered(command: Call) -> Call:
    """Add --filter to a list; the command gets it as `q`."""
    return click.option("-f", "--filter", "q", metavar="FILTER", help="Filter expression: 'state:failed job:etl-*'.")(
        command
    )


def takes_filter(command: Call) -> Call:
    """Add the targets of an action on runs: `ids`, or a filter as `chosen`, of which exactly one is required."""
    options = (
        click.option("-f", "--filter", "q", metavar="FILTER", help="All runs that match: 'state:failed job:etl-*'."),
        click.option("--dry-run", is_flag=True, help="With --filter: only list the runs."),
    )

    @functools.wraps(command)
    def call(*args: object, ids: tuple[str, ...], q: str | None, dry_run: bool, **rest: object) -> object:
        if bool(ids) is (q is not None):
            raise click.UsageError("name runs by id or use --filter, but not both")
        if dry_run and q is None:
            raise click.UsageError("--dry-run requires --filter")
        chosen = None if q is None else Filtered(q=q, dry_run=dry_run)
        return command(*args, ids=ids, chosen=chosen, **rest)

    for option in reversed(options):
        call = option(call)
    return call  # type: ignore[return-value]  # the wrapper has a different signature


def _act(reach: Reach, printing: Printing, wish: BulkActRequest, *, yes: bool) -> None:
    import msgspec

    from mainspring.cli.render.bulk import with_bar
    from mainspring.cli.render.output import print_rows, say_hint
    from mainspring.cli.render.tables import BULK_ACTS

    with reach.client() as client:
        found = list(client.act_on_runs(msgspec.structs.replace(wish, dry_run=True)))
        if wish.dry_run or not found:
            print_rows(found, BULK_ACTS, printing)
            say_hint("" if found else "no run matches the filter")
            return
        verb = _VERBS.get(wish.act, wish.act)
        if not agreed(f"{verb} {len(found)} run{'s' if len(found) > 1 else ''}?", yes=yes):
            raise click.Abort
        done = list(with_bar(client.act_on_runs(wish), verb, len(found)))
    print_rows(done, BULK_ACTS, printing)
    if any(line.problem is not None for line in done):
        sys.exit(_REFUSED)
