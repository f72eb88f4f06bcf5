"""`mainspring tenants`: who owns work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import Noun, Printing, Reach, limited, prints, prints_rows, reaches_server, watched

if TYPE_CHECKING:
    from mainspring.rest_admin import TenantView


@click.group(cls=Noun, invoke_without_command=True)
@watched
@limited(100)
@prints_rows
@reaches_server
@click.pass_context
def tenants(ctx: click.Context, /, reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
    """List tenants: everybody who has a job, a schedule or a token, or was described.

    \b
    Examples:
      mainspring tenants
      mainspring tenants describe acme --title "Acme Inc." --contact ops@acme.example
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.admin_tables import TENANTS
    from mainspring.cli.listing import show_list

    with reach.client() as client:
        show_list(lambda: client.tenants(limit=limit), TENANTS, printing, watch=watch, limit=limit)


@tenants.command()
@click.argument("name")
@prints
@reaches_server
def show(reach: Reach, printing: Printing, name: str) -> None:
    """Show tenant NAME.

    \b
    Examples:
      mainspring tenants show acme
    """
    with reach.client() as client:
        _print_tenant(client.tenant_named(name), printing)


@tenants.command()
@click.argument("name")
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
    from mainspring.errors import NotFound
    from mainspring.rest_admin import TenantRequest

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


def _print_tenant(tenant: TenantView, printing: Printing) -> None:
    from mainspring.cli.facts import print_facts, say_when
    from mainspring.cli.output import print_one

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
        )

    print_one(tenant, tenant.name, printing, for_people)
