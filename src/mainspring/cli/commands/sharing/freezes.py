"""`mainspring freeze`, `unfreeze` and `freezes`: stop new tasks of a scope; running tasks continue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ListCommand, confirm, with_confirmation
from mainspring.cli.resource import Listing, Outcome, Session, action, listing, why_option, with_session

if TYPE_CHECKING:
    from mainspring.cli.completion.candidates import Items
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import FreezeView

Kind = Literal["all", "tenant", "pool", "job"]

_KINDS = get_args(Kind)
_WHY = "Reason, shown with waiting tasks."
_kind = click.argument("kind", metavar="|".join(_KINDS), type=click.Choice(_KINDS))


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete names of the selected kind."""
    known = {"tenant": candidates.tenants, "pool": candidates.pools, "job": candidates.jobs}
    offer = known.get(ctx.params.get("kind", ""))
    return [] if offer is None else offer(ctx, parameter, incomplete)


_name = click.argument("name", default="", shell_complete=_names)


@click.command("freezes", cls=ListCommand)
@listing(200)
def freezes(session: Session, limit: int) -> Listing[FreezeView]:
    """List active freezes.

    \b
    Examples:
      mainspring freezes
    """
    from mainspring.cli.render.sharing_tables import FREEZES

    return FREEZES, lambda: session.client.freezes(limit=limit)


@click.command("freeze")
@_kind
@_name
@click.option("--for", "length", metavar="DURATION", help="Duration, such as 2h; until unfrozen if omitted.")
@why_option(_WHY)
@with_confirmation
@with_session
def freeze(session: Session, kind: Kind, name: str, length: str | None, why: str, yes: bool) -> None:
    """Freeze a tenant, pool, job or everything: no new tasks start.

    Running tasks continue. Runs can still be submitted and wait. A job is NAME or TENANT/NAME. `freeze all` asks
    for confirmation.

    \b
    Examples:
      mainspring freeze job nightly-etl --why "the warehouse moves"
      mainspring freeze tenant acme --for 2h
      mainspring freeze pool gpu --why "new drivers"
      mainspring freeze all --why "the store is full" --yes
    """
    from mainspring.cli.render.output import format_when
    from mainspring.cli.render.sharing_tables import FREEZES
    from mainspring.cli.render.times import parse_duration
    from mainspring.protocol.rest.sharing import FreezeRequest

    seconds = None if length is None else parse_duration(length, "--for")
    _check_name(kind, name)
    if kind == "all":
        confirm("freeze all? No new tasks will start in any pool for any tenant.", yes=yes)
    subject = _subject(session.client, kind, name)
    frozen = session.client.freeze(FreezeRequest(kind=kind, subject=subject, why=why, seconds=seconds))
    what = "everything" if frozen.kind == "all" else f"{frozen.kind} {frozen.subject}"
    until = "" if frozen.until is None else f" until {format_when(frozen.until, session.printing)}"
    text = f"{what} is frozen{until}: no new tasks start, running tasks continue"
    session.print_line(frozen, FREEZES.id(frozen), text)


@click.command("unfreeze")
@_kind
@_name
@action(_WHY)
def unfreeze(session: Session, kind: str, name: str, why: str) -> Outcome:
    """Unfreeze a tenant, pool, job or everything.

    Other freezes remain in effect.

    \b
    Examples:
      mainspring unfreeze job nightly-etl
      mainspring unfreeze all
    """
    _check_name(kind, name)
    subject = _subject(session.client, kind, name)
    return f"{kind} {subject}".rstrip(), session.client.unfreeze(kind, subject, why)


def _check_name(kind: str, name: str) -> None:
    """Raise UsageError for a missing or superfluous name."""
    if kind == "all" and name:
        raise click.UsageError(f"`all` takes no name: {name}")
    if kind != "all" and not name:
        raise click.UsageError(f"missing name of the {kind}")


def _subject(client: Client, kind: str, name: str) -> str:
    """Return the server's name of the scope: jobs are qualified by tenant, the caller's by default."""
    return f"{client.tenant}/{name}" if kind == "job" and client.tenant and "/" not in name else name
