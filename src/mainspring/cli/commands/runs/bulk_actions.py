"""Bulk actions on all runs that match a filter: --dry-run lists them, otherwise one request after confirmation.

@click.command()
@with_run_targets
def cancel(reach: Reach, printing: Printing, ids: tuple[str, ...], chosen: Filtered | None, ..) -> None:
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import rich_click as click

from mainspring.cli.options import ConnectionOptions, Printing, confirmed

if TYPE_CHECKING:
    from mainspring.protocol.rest.runs import BulkActionRequest

Call = TypeVar("Call", bound=Callable[..., object])
_REFUSED = 4
_VERBS = {"priority": "promote"}
"""Commands whose name differs from the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """All runs that match a filter."""

    q: str
    dry_run: bool

    def action(
        self,
        connection: ConnectionOptions,
        printing: Printing,
        action: Literal["cancel", "pause", "resume", "retry", "priority"],
        *,
        why: str,
        yes: bool,
        priority: str | None = None,
    ) -> None:
        """Perform an action on all of them, or only list them. Exits with 4 if any was rejected."""
        from mainspring.protocol.rest.runs import BulkActionRequest

        _act(
            connection,
            printing,
            BulkActionRequest(action=action, q=self.q, priority=priority, dry_run=self.dry_run, why=why),
            yes=yes,
        )


def filter_option(command: Call) -> Call:
    """Add --filter to a list; the command gets it as `q`."""
    return click.option("-f", "--filter", "q", metavar="FILTER", help="Filter expression: 'state:failed job:etl-*'.")(
        command
    )


def with_run_targets(command: Call) -> Call:
    """Add the targets of an action on runs: `ids`, or a filter as `run_filter`, of which exactly one is required."""
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
        run_filter = None if q is None else RunFilter(q=q, dry_run=dry_run)
        return command(*args, ids=ids, run_filter=run_filter, **rest)

    for option in reversed(options):
        call = option(call)
    return call  # type: ignore[return-value]  # the wrapper has a different signature


def _act(connection: ConnectionOptions, printing: Printing, request: BulkActionRequest, *, yes: bool) -> None:
    import msgspec

    from mainspring.cli.render.bulk import with_progress_bar
    from mainspring.cli.render.output import print_hint, print_rows
    from mainspring.cli.render.tables import BULK_ACTS

    with connection.client() as client:
        found = list(client.act_on_runs(msgspec.structs.replace(request, dry_run=True)))
        if request.dry_run or not found:
            print_rows(found, BULK_ACTS, printing)
            print_hint("" if found else "no run matches the filter")
            return
        verb = _VERBS.get(request.action, request.action)
        if not confirmed(f"{verb} {len(found)} run{'s' if len(found) > 1 else ''}?", yes=yes):
            raise click.Abort
        done = list(with_progress_bar(client.act_on_runs(request), verb, len(found)))
    print_rows(done, BULK_ACTS, printing)
    if any(line.problem is not None for line in done):
        sys.exit(_REFUSED)
