"""`mainspring tenants`: tenants and their usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup, pool_option
from mainspring.cli.resource import Listing, Outcome, Session, action, listing, why_option, with_session

if TYPE_CHECKING:
    from mainspring.cli.render.sharing_tables import TenantRow
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import GrantView

_name = click.argument("name", shell_complete=candidates.tenants)
_pool = pool_option("Pool to show; the server's default pool if omitted.")


@click.group("tenants", cls=ResourceGroup)
@_pool
@listing(100)
def tenants(session: Session, pool: str | None, limit: int) -> Listing[TenantRow]:
    """List tenants and their usage of a pool.

    SHARE is the dominant resource share of a tenant; FAIR SHARE is its entitlement by weight among the tenants with
    work in the pool. BURST marks tenants that use more than their guarantee.

    \b
    Examples:
      mainspring tenants
      mainspring tenants --pool gpu --sort -share
      mainspring tenants describe acme --title "Acme Inc." --contact ops@acme.example
    """
    from mainspring.cli.render.sharing_tables import TENANTS

    return TENANTS, lambda: _read_rows(session.client, pool, limit)


@tenants.command("show")
@_name
@_pool
@with_session
def show(session: Session, name: str, pool: str | None) -> None:
    """Show tenant NAME and its usage and quota in a pool.

    \b
    Examples:
      mainspring tenants show acme
      mainspring tenants show acme --pool gpu
    """
    from msgspec.structs import asdict

    from mainspring.cli.render.sharing_tables import TENANT_FACTS, TenantRow, grant_facts, read_use, use_facts

    client = session.client
    tenant = client.tenant_named(name)
    row = TenantRow(**asdict(tenant), use=read_use(client, name, pool), p0=_read_grants(client).get(name))
    used = [] if row.use is None else use_facts(row.use)
    session.print_details(row, TENANT_FACTS, [*grant_facts(row.p0, session.printing), *used])


@tenants.command("describe")
@_name
@click.option("--title", help="Display name.")
@click.option("--contact", help="Contact, such as an e-mail address.")
@click.option("--note", metavar="TEXT", help="Note, shown in lists.")
@with_session
def describe(session: Session, name: str, **given: str | None) -> None:
    """Set the description of tenant NAME.

    The tenant may be new. Omitted options are unchanged.

    \b
    Examples:
      mainspring tenants describe acme --title "Acme Inc." --contact ops@acme.example
    """
    from mainspring.cli.render.sharing_tables import TENANT_FACTS
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.admin import TenantRequest

    if all(text is None for text in given.values()):
        raise click.UsageError("use at least one of --title, --contact and --note")
    try:
        was = session.client.tenant_named(name)
    except NotFound:
        was = None
    request = TenantRequest(
        **{field: getattr(was, field, "") if text is None else text for field, text in given.items()}
    )
    described = session.client.put_tenant(name, request, if_match=None if was is None else was.version)
    session.print_details(described, TENANT_FACTS)


@tenants.command("grant-p0")
@_name
@click.option("--for", "length", metavar="DURATION", help="Duration, such as 4h; until revoked if omitted.")
@why_option()
@with_session
def grant_p0(session: Session, name: str, length: str | None, why: str) -> None:
    """Grant priority P0 to tenant NAME.

    P0 bypasses quotas and may preempt P1 and P2 tasks of other tenants.

    \b
    Examples:
      mainspring tenants grant-p0 acme --for 4h --why "an incident"
    """
    from mainspring.cli.render.output import print_facts
    from mainspring.cli.render.sharing_tables import grant_facts
    from mainspring.cli.render.times import parse_duration
    from mainspring.protocol.rest.sharing import GrantRequest

    seconds = None if length is None else parse_duration(length, "--for")
    grant = session.client.grant_p0(name, GrantRequest(seconds=seconds, why=why))
    session.print_one(grant, name, lambda: print_facts(("tenant", name), *grant_facts(grant, session.printing)))


@tenants.command("revoke-p0")
@_name
@action()
def revoke_p0(session: Session, name: str, why: str) -> Outcome:
    """Revoke the P0 grant of tenant NAME.

    Submitted runs keep their priority.

    \b
    Examples:
      mainspring tenants revoke-p0 acme
    """
    return name, session.client.revoke_p0(name, why)


def _read_rows(client: Client, pool: str | None, limit: int) -> list[TenantRow]:
    """List the tenants, with usage if the pool has a leader."""
    from msgspec.structs import asdict

    from mainspring.cli.render.sharing_tables import TenantRow
    from mainspring.protocol.errors import Unavailable

    listed = list(client.tenants(limit=limit))
    granted = _read_grants(client)
    try:
        uses = {use.tenant: use for use in client.use(pool)}
    except Unavailable:
        # Only the leader knows the usage; list the tenants without it.
        uses = {}
    return [TenantRow(**asdict(tenant), use=uses.get(tenant.name), p0=granted.get(tenant.name)) for tenant in listed]


def _read_grants(client: Client) -> dict[str, GrantView]:
    return {grant.tenant: grant for grant in client.p0_grants()}
