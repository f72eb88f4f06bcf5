"""`mainspring freeze`, `unfreeze`, and `freezes`: nothing new of something starts, and what runs goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    Listing,
    Printing,
    Reach,
    agreed,
    asks_first,
    limited,
    prints,
    prints_rows,
    reaches_server,
    watched,
)

if TYPE_CHECKING:
    from mainspring.cli.completion.candidates import Items
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import FreezeView

Kind = Literal["all", "tenant", "pool", "job"]

_KINDS = get_args(Kind)
_why = click.option("--why", default="", help="Why; it is shown with what waits.")
_kind = click.argument("kind", metavar="|".join(_KINDS), type=click.Choice(_KINDS))


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Names of the kind that was said."""
    known = {"tenant": candidates.tenants, "pool": candidates.pools, "job": candidates.jobs}
    offer = known.get(ctx.params.get("kind", ""))
    return [] if offer is None else offer(ctx, parameter, incomplete)


_name = click.argument("name", default="", shell_complete=_names)


@click.command("freezes", cls=Listing)
@watched
@limited(200)
@prints_rows
@reaches_server
def freezes(reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
    """List what is frozen, by whom, and until when.

    \b
    Examples:
      mainspring freezes
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import FREEZES

    with reach.client() as client:
        show_list(lambda: client.freezes(limit=limit), FREEZES, printing, watch=watch, limit=limit)


@click.command("freeze")
@_kind
@_name
@click.option("--for", "length", metavar="LENGTH", help="For how long, such as 2h; until it is unfrozen unless said.")
@_why
@asks_first
@prints
@reaches_server
def freeze(reach: Reach, printing: Printing, kind: Kind, name: str, length: str | None, why: str, yes: bool) -> None:
    """Let nothing new start: of a tenant, in a pool, of a job, or of all; what runs goes on.

    Runs are taken as ever, and wait. A job is NAME, or TENANT/NAME. To freeze all is asked about.

    \b
    Examples:
      mainspring freeze job nightly-etl --why "the warehouse moves"
      mainspring freeze tenant acme --for 2h
      mainspring freeze pool gpu --why "new drivers"
      mainspring freeze all --why "the store is full" --yes
    """
    from mainspring.cli.render.output import print_one
    from mainspring.cli.render.sharing_tables import FREEZES
    from mainspring.cli.render.times import read_length
    from mainspring.protocol.rest.sharing import FreezeRequest

    seconds = None if length is None else read_length(length, "--for")
    _check_name(kind, name)
    if kind == "all" and not agreed("freeze all? Nothing new starts, of any tenant, in any pool.", yes=yes):
        raise click.Abort
    with reach.client() as client:
        subject = _subject(client, kind, name)
        frozen = client.freeze(FreezeRequest(kind=kind, subject=subject, why=why, seconds=seconds))
    print_one(frozen, FREEZES.id(frozen), printing, lambda: click.echo(_say(frozen, printing)))


@click.command("unfreeze")
@_kind
@_name
@_why
@prints
@reaches_server
def unfreeze(reach: Reach, printing: Printing, kind: str, name: str, why: str) -> None:
    """Let it go on: a tenant, a pool, a job, or all. What is frozen by another freeze stays so.

    \b
    Examples:
      mainspring unfreeze job nightly-etl
      mainspring unfreeze all
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    _check_name(kind, name)
    with reach.client() as client:
        subject = _subject(client, kind, name)
        done = client.unfreeze(kind, subject, why)
    print_deeds([Deed.of(f"{kind} {subject}".rstrip(), "unfreeze", done)], printing)


def _check_name(kind: str, name: str) -> None:
    """Raises UsageError if there is a name too few or too many."""
    if kind == "all" and name:
        raise click.UsageError(f"all is all: {name} is too much")
    if kind != "all" and not name:
        raise click.UsageError(f"say which {kind}")


def _subject(client: Client, kind: str, name: str) -> str:
    """What the server calls it: a job goes with its tenant, which may be left out if it is one's own."""
    return f"{client.tenant}/{name}" if kind == "job" and client.tenant and "/" not in name else name


def _say(frozen: FreezeView, printing: Printing) -> str:
    from mainspring.cli.render.facts import say_when

    what = "everything" if frozen.kind == "all" else f"{frozen.kind} {frozen.subject}"
    until = "until somebody unfreezes it" if frozen.until is None else f"until {say_when(frozen.until, printing)}"
    return f"{what} is frozen {until}: what runs goes on, nothing new starts"
