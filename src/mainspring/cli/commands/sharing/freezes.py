"""`mainspring freeze`, `unfreeze` and `freezes`: stop new tasks of a scope; running tasks continue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    ListCommand,
    Printing,
    confirmed,
    limit_option,
    watch_option,
    with_confirmation,
    with_connection_options,
    with_output_options,
    with_table_options,
)

if TYPE_CHECKING:
    from mainspring.cli.completion.candidates import Items
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import FreezeView

Kind = Literal["all", "tenant", "pool", "job"]

_KINDS = get_args(Kind)
_why = click.option("--why", default="", help="Reason, shown with waiting tasks.")
_kind = click.argument("kind", metavar="|".join(_KINDS), type=click.Choice(_KINDS))


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete names of the selected kind."""
    known = {"tenant": candidates.tenants, "pool": candidates.pools, "job": candidates.jobs}
    offer = known.get(ctx.params.get("kind", ""))
    return [] if offer is None else offer(ctx, parameter, incomplete)


_name = click.argument("name", default="", shell_complete=_names)


@click.command("freezes", cls=ListCommand)
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
def freezes(connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List active freezes.

    \b
    Examples:
      mainspring freezes
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import FREEZES

    with connection.client() as client:
        show_list(lambda: client.freezes(limit=limit), FREEZES, printing, watch=watch, limit=limit)


@click.command("freeze")
@_kind
@_name
@click.option("--for", "length", metavar="DURATION", help="Duration, such as 2h; until unfrozen if omitted.")
@_why
@with_confirmation
@with_output_options
@with_connection_options
def freeze(
    connection: ConnectionOptions, printing: Printing, kind: Kind, name: str, length: str | None, why: str, yes: bool
) -> None:
    """Freeze a tenant, pool or job, or everything: no new tasks start. Running tasks continue.

    Runs can still be submitted and wait. A job is NAME or TENANT/NAME. `freeze all` asks for confirmation.

    \b
    Examples:
      mainspring freeze job nightly-etl --why "the warehouse moves"
      mainspring freeze tenant acme --for 2h
      mainspring freeze pool gpu --why "new drivers"
      mainspring freeze all --why "the store is full" --yes
    """
    from mainspring.cli.render.output import print_one
    from mainspring.cli.render.sharing_tables import FREEZES
    from mainspring.cli.render.times import parse_duration
    from mainspring.protocol.rest.sharing import FreezeRequest

    seconds = None if length is None else parse_duration(length, "--for")
    _check_name(kind, name)
    if kind == "all" and not confirmed("freeze all? No new tasks will start in any pool for any tenant.", yes=yes):
        raise click.Abort
    with connection.client() as client:
        subject = _subject(client, kind, name)
        frozen = client.freeze(FreezeRequest(kind=kind, subject=subject, why=why, seconds=seconds))
    print_one(frozen, FREEZES.id(frozen), printing, lambda: click.echo(_format_freeze(frozen, printing)))


@click.command("unfreeze")
@_kind
@_name
@_why
@with_output_options
@with_connection_options
def unfreeze(connection: ConnectionOptions, printing: Printing, kind: str, name: str, why: str) -> None:
    """Unfreeze a tenant, pool or job, or everything. Other freezes remain in effect.

    \b
    Examples:
      mainspring unfreeze job nightly-etl
      mainspring unfreeze all
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    _check_name(kind, name)
    with connection.client() as client:
        subject = _subject(client, kind, name)
        done = client.unfreeze(kind, subject, why)
    print_action_outcomes([ActionOutcome.of(f"{kind} {subject}".rstrip(), "unfreeze", done)], printing)


def _check_name(kind: str, name: str) -> None:
    """Raise UsageError for a missing or superfluous name."""
    if kind == "all" and name:
        raise click.UsageError(f"`all` takes no name: {name}")
    if kind != "all" and not name:
        raise click.UsageError(f"missing name of the {kind}")


def _subject(client: Client, kind: str, name: str) -> str:
    """Return the server's name of the scope: jobs are qualified by tenant, the caller's by default."""
    return f"{client.tenant}/{name}" if kind == "job" and client.tenant and "/" not in name else name


def _format_freeze(frozen: FreezeView, printing: Printing) -> str:
    from mainspring.cli.render.facts import format_when

    what = "everything" if frozen.kind == "all" else f"{frozen.kind} {frozen.subject}"
    until = "until unfrozen" if frozen.until is None else f"until {format_when(frozen.until, printing)}"
    return f"{what} is frozen {until}: no new tasks start, running tasks continue"
