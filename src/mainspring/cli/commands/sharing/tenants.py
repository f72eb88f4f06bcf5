"""`mainspring tenants`: tenants and their usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    limit_option,
    watch_option,
    with_connection_options,
    with_output_options,
    with_table_options,
)

if TYPE_CHECKING:
    from mainspring.cli.render.sharing_details import Facts
    from mainspring.cli.render.sharing_tables import TenantRow
    from mainspring.client.client import Client
    from mainspring.protocol.rest.admin import TenantView
    from mainspring.protocol.rest.sharing import GrantView

_name = click.argument("name", shell_complete=candidates.tenants)
_pool = click.option(
    "--pool", shell_complete=candidates.pools, help="Pool to show; the server's default pool if omitted."
)
_why = click.option("--why", default="", help="Reason, recorded in the audit log.")


@click.group("tenants", cls=ResourceGroup, invoke_without_command=True)
@_pool
@watch_option
@limit_option(100)
@with_table_options
@with_connection_options
@click.pass_context
def tenants(
    ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, pool: str | None, watch: bool, limit: int
) -> None:
    """List tenants and their usage of a pool.

    SHARE is the dominant resource share of a tenant; FAIR SHARE is its entitlement by weight among the tenants with
    work in the pool. BURST marks tenants that use more than their guarantee.

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

    with connection.client() as client:
        show_list(lambda: _read_lines(client, pool, limit), TENANTS, printing, watch=watch, limit=limit)


@tenants.command("show")
@_name
@_pool
@with_output_options
@with_connection_options
def show(connection: ConnectionOptions, printing: Printing, name: str, pool: str | None) -> None:
    """Show tenant NAME and its usage and quota in a pool.

    \b
    Examples:
      mainspring tenants show acme
      mainspring tenants show acme --pool gpu
    """
    from msgspec.structs import asdict

    from mainspring.cli.render.sharing_details import grant_facts, read_use, use_facts
    from mainspring.cli.render.sharing_tables import TenantRow

    with connection.client() as client:
        tenant = client.tenant_named(name)
        line = TenantRow(**asdict(tenant), use=read_use(client, name, pool), p0=_read_grants(client).get(name))
    used = [] if line.use is None else use_facts(line.use)
    _print_tenant(line, printing, [*grant_facts(line.p0, printing), *used])


@tenants.command("describe")
@_name
@click.option("--title", help="Display name.")
@click.option("--contact", help="Contact, such as an e-mail address.")
@click.option("--note", help="Note.")
@with_output_options
@with_connection_options
def describe(
    connection: ConnectionOptions,
    printing: Printing,
    name: str,
    title: str | None,
    contact: str | None,
    note: str | None,
) -> None:
    """Set the description of tenant NAME, which may be new. Omitted options are unchanged.

    \b
    Examples:
      mainspring tenants describe acme --title "Acme Inc." --contact ops@acme.example
    """
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.admin import TenantRequest

    said = {"title": title, "contact": contact, "note": note}
    if all(text is None for text in said.values()):
        raise click.UsageError("use at least one of --title, --contact and --note")
    with connection.client() as client:
        try:
            was: TenantView | None = client.tenant_named(name)
        except NotFound:
            was = None
        request = TenantRequest(
            **{field: text if text is not None else getattr(was, field, "") for field, text in said.items()}
        )
        described = client.put_tenant(name, request, if_match=None if was is None else was.version)
    _print_tenant(described, printing)


@tenants.command(name="grant-p0")
@_name
@click.option("--for", "length", metavar="DURATION", help="Duration, such as 4h; until revoked if omitted.")
@_why
@with_output_options
@with_connection_options
def grant_p0(connection: ConnectionOptions, printing: Printing, name: str, length: str | None, why: str) -> None:
    """Grant priority P0 to tenant NAME.

    P0 bypasses quotas and may preempt P1 and P2 tasks of other tenants.

    \b
    Examples:
      mainspring tenants grant-p0 acme --for 4h --why "an incident"
    """
    from mainspring.cli.render.facts import print_facts
    from mainspring.cli.render.output import print_one
    from mainspring.cli.render.sharing_details import grant_facts
    from mainspring.cli.render.times import parse_duration
    from mainspring.protocol.rest.sharing import GrantRequest

    seconds = None if length is None else parse_duration(length, "--for")
    with connection.client() as client:
        grant = client.grant_p0(name, GrantRequest(seconds=seconds, why=why))
    print_one(grant, name, printing, lambda: print_facts(("tenant", name), *grant_facts(grant, printing)))


@tenants.command(name="revoke-p0")
@_name
@_why
@with_output_options
@with_connection_options
def revoke_p0(connection: ConnectionOptions, printing: Printing, name: str, why: str) -> None:
    """Revoke the P0 grant of tenant NAME. Submitted runs keep their priority.

    \b
    Examples:
      mainspring tenants revoke-p0 acme
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(name, "revoke-p0", client.revoke_p0(name, why))], printing)


def _read_lines(client: Client, pool: str | None, limit: int) -> list[TenantRow]:
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


def _print_tenant(tenant: TenantView, printing: Printing, more: Facts | None = None) -> None:
    from mainspring.cli.render.facts import format_when, print_facts
    from mainspring.cli.render.output import print_one

    def print_text() -> None:
        print_facts(
            ("tenant", tenant.name),
            ("title", tenant.title),
            ("contact", tenant.contact),
            ("note", tenant.note),
            ("version", tenant.version or None),
            ("created", format_when(tenant.created_at, printing)),
            ("updated", format_when(tenant.updated_at, printing)),
            ("updated by", tenant.updated_by),
            *(more or []),
        )

    print_one(tenant, tenant.name, printing, print_text)
