"""`mainspring token`: API tokens."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    confirmed,
    limit_option,
    watch_option,
    with_confirmation,
    with_connection_options,
    with_output_options,
    with_table_options,
)

ROLES = ("viewer", "submitter", "operator", "approver", "admin", "worker")


@click.group("token", cls=ResourceGroup, invoke_without_command=True)
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
@click.pass_context
def token(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List API tokens; create and revoke them. Secrets are not shown.

    \b
    Examples:
      mainspring token ls --sort expires
      mainspring token create ci --role submitter
    """
    if ctx.invoked_subcommand is not None:
        return
    from itertools import islice

    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.tables import TOKENS

    with connection.client() as client:
        show_list(lambda: islice(client.tokens(), limit), TOKENS, printing, watch=watch, limit=limit)


@token.command("create")
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="Role of the token. Repeatable."
)
@click.option("--expires", metavar="DURATION", default="90d", show_default=True, help="Lifetime of the token.")
@click.option("--store", metavar="URL", help="Create it directly in this store; for the first token.")
@with_output_options
@with_connection_options
def create(
    connection: ConnectionOptions,
    printing: Printing,
    name: str,
    roles: tuple[str, ...],
    expires: str,
    store: str | None,
) -> None:
    """Create a token and print it. It is shown only once.

    --store needs no token, but SQLite stores can be opened by one process only: stop the server first.

    \b
    Examples:
      mainspring token create ops --role admin --store sqlite:///.mainspring/mainspring.db > token
      mainspring token create ci --role submitter --tenant acme --expires 30d
    """
    from mainspring.core.text.durations import parse_seconds

    try:
        seconds = parse_seconds(expires)
    except ValueError as error:
        raise click.UsageError(f"--expires {error}") from error
    if store is not None:
        _create_in_store(store, name, roles, connection.tenant, seconds, printing)
        return
    from mainspring.cli.render.output import print_one
    from mainspring.protocol.rest.runs import TokenRequest

    request = TokenRequest(name=name, roles=list(roles), tenant=connection.tenant, expires_in_seconds=seconds)
    with connection.client() as client:
        made = client.create_token(request)
    print_one(made, made.id, printing, lambda: click.echo(made.token))


@token.command("revoke")
@click.argument("ids", nargs=-1, required=True)
@with_confirmation
@with_output_options
@with_connection_options
def revoke(connection: ConnectionOptions, printing: Printing, ids: tuple[str, ...], yes: bool) -> None:
    """Revoke tokens by id.

    \b
    Examples:
      mainspring token revoke 3f9c2a71d0e4b856
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    if len(ids) > 1 and not confirmed(f"revoke {len(ids)} tokens?", yes=yes):
        raise click.Abort
    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(word, "revoke", client.revoke_token(word)) for word in ids], printing)


def _create_in_store(
    store: str, name: str, roles: tuple[str, ...], tenant: str | None, seconds: float, printing: Printing
) -> None:
    from datetime import timedelta

    from mainspring.app.build import create_token

    expires = timedelta(seconds=seconds)
    if tenant is None:
        made = create_token(store, name, roles, expires=expires)
    else:
        made = create_token(store, name, roles, tenant, expires)
    match printing.output:
        case "json" | "jsonl":
            import msgspec

            click.echo(msgspec.json.encode({"token": made}))
        case "yaml":
            click.echo(f"token: {made}")
        case _:
            click.echo(made)
