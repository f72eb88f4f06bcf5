"""`mainspring tenants`: who owns work, and what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Noun, Printing, Reach, limited, prints, prints_rows, reaches_server, watched

if TYPE_CHECKING:
    from mainspring.cli.render.sharing_details import Facts
    from mainspring.cli.render.sharing_tables import TenantLine
    from mainspring.client.client import Client
    from mainspring.protocol.rest.admin import TenantView
    from mainspring.protocol.rest.sharing import GrantView

_name = click.argument("name", shell_complete=candidates.tenants)
_pool = click.option("--pool", shell_complete=candidates.pools, help="Which pool; where runs usually go, unless said.")
_why = click.option("--why", default="", help="Why; it is kept with the deed.")


@click.group("tenants", cls=Noun, invoke_without_command=True)
@_pool
@watched
@limited(100)
@prints_rows
@reaches_server
@click.pass_context
def tenants(ctx: click.Context, /, reach: Reach, printing: Printing, pool: str | None, watch: bool, limit: int) -> None:
    """List tenants: everybody who has a job, a schedule or a token, or was described; and what each uses of a pool.

    The share of a tenant is the largest part that it has of any resource, and what it is entitled to follows from its
    weight and from who else has work there. `burst` says that it uses more than it is guaranteed.

    \b
    Examples:
      mainspring tenants
      mainspring tenants --pool gpu --sort -share
      mainspring tenants describe acme --title "Acme Inc." --contact ops@acme.example
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import TENANTS

    with reach.client() as client:
        show_list(lambda: _read_lines(client, pool, limit), TENANTS, printing, watch=watch, limit=limit)


@tenants.command("show")
@_name
@_pool
@prints
@reaches_server
def show(reach: Reach, printing: Printing, name: str, pool: str | None) -> None:
    """Show tenant NAME, and what it uses of a pool against its quota there.

    \b
    Examples:
      mainspring tenants show acme
      mainspring tenants show acme --pool gpu
    """
    from msgspec.structs import asdict

    from mainspring.cli.render.sharing_details import grant_facts, read_use, use_facts
    from mainspring.cli.render.sharing_tables import TenantLine

    with reach.client() as client:
        tenant = client.tenant_named(name)
        line = TenantLine(**asdict(tenant), use=read_use(client, name, pool), p0=_read_grants(client).get(name))
    used = [] if line.use is None else use_facts(line.use)
    _print_tenant(line, printing, [*grant_facts(line.p0, printing), *used])


@tenants.command("describe")
@_name
@click.option("--title", help="Its name for people.")
@click.option("--contact", help="Whom to ask.")
@click.option("--note", help="What else there is to say.")
@prints
@reaches_server
def describe(
    reach: Reach, printing: Printing, name: str, title: str | None, contact: str | None, note: str | None
) -> None:
    """Describe tenant NAME, also one that has nothing yet. What is not said stays as it is.

    \b
    Examples:
      mainspring tenants describe acme --title "Acme Inc." --contact ops@acme.example
    """
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.admin import TenantRequest

    said = {"title": title, "contact": contact, "note": note}
    if all(text is None for text in said.values()):
        raise click.UsageError("say --title, --contact or --note")
    with reach.client() as client:
        try:
            was: TenantView | None = client.tenant_named(name)
        except NotFound:
            was = None
        wish = TenantRequest(
            **{field: text if text is not None else getattr(was, field, "") for field, text in said.items()}
        )
        described = client.put_tenant(name, wish, if_match=None if was is None else was.version)
    _print_tenant(described, printing)


@tenants.command(name="grant-p0")
@_name
@click.option("--for", "length", metavar="LENGTH", help="For how long, such as 4h; until it is revoked unless said.")
@_why
@prints
@reaches_server
def grant_p0(reach: Reach, printing: Printing, name: str, length: str | None, why: str) -> None:
    """Let tenant NAME ask for P0: it waits for no quota, and may preempt what others run at P1 and P2.

    \b
    Examples:
      mainspring tenants grant-p0 acme --for 4h --why "an incident"
    """
    from mainspring.cli.render.facts import print_facts
    from mainspring.cli.render.output import print_one
    from mainspring.cli.render.sharing_details import grant_facts
    from mainspring.cli.render.times import read_length
    from mainspring.protocol.rest.sharing import GrantRequest

    seconds = None if length is None else read_length(length, "--for")
    with reach.client() as client:
        grant = client.grant_p0(name, GrantRequest(seconds=seconds, why=why))
    print_one(grant, name, printing, lambda: print_facts(("tenant", name), *grant_facts(grant, printing)))


@tenants.command(name="revoke-p0")
@_name
@_why
@prints
@reaches_server
def revoke_p0(reach: Reach, printing: Printing, name: str, why: str) -> None:
    """Let tenant NAME ask for P0 no more; what it has asked for stays as it is.

    \b
    Examples:
      mainspring tenants revoke-p0 acme
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(name, "revoke-p0", client.revoke_p0(name, why))], printing)


def _read_lines(client: Client, pool: str | None, limit: int) -> list[TenantLine]:
    """The tenants with what they use, as far as somebody leads the pool who can tell."""
    from msgspec.structs import asdict

    from mainspring.cli.render.sharing_tables import TenantLine
    from mainspring.protocol.errors import Unavailable

    listed = list(client.tenants(limit=limit))
    granted = _read_grants(client)
    try:
        uses = {use.tenant: use for use in client.use(pool)}
    except Unavailable:
        # Who leads the pool counts what is in use. The names are worth having without it.
        uses = {}
    return [TenantLine(**asdict(tenant), use=uses.get(tenant.name), p0=granted.get(tenant.name)) for tenant in listed]


def _read_grants(client: Client) -> dict[str, GrantView]:
    return {grant.tenant: grant for grant in client.p0_grants()}


def _print_tenant(tenant: TenantView, printing: Printing, more: Facts | None = None) -> None:
    from mainspring.cli.render.facts import print_facts, say_when
    from mainspring.cli.render.output import print_one

    def for_people() -> None:
        print_facts(
            ("tenant", tenant.name),
            ("title", tenant.title),
            ("contact", tenant.contact),
            ("note", tenant.note),
            ("version", tenant.version or None),
            ("created", say_when(tenant.created_at, printing)),
            ("updated", say_when(tenant.updated_at, printing)),
            ("updated by", tenant.updated_by),
            *(more or []),
        )

    print_one(tenant, tenant.name, printing, for_people)
