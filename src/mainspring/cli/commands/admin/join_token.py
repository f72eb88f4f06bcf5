"""`mainspring join-token`: tokens that enroll workers."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
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


@click.group(cls=ResourceGroup, invoke_without_command=True, name="join-token")
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
@click.pass_context
def join_token(
    ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int
) -> None:
    """List join tokens, which enroll workers; create and revoke them. Secrets are not shown.

    \b
    Examples:
      mainspring join-token
      mainspring join-token create --pool gpu > join
    """
    if ctx.invoked_subcommand is not None:
        return
    from itertools import islice

    from mainspring.cli.render.admin_tables import JOIN_TOKENS
    from mainspring.cli.render.listing import show_list

    with connection.client() as client:
        show_list(lambda: islice(client.join_tokens(), limit), JOIN_TOKENS, printing, watch=watch, limit=limit)


@join_token.command("create")
@click.argument("name", default="worker")
@click.option(
    "--pool", "pools", multiple=True, default=("default",), show_default=True, shell_complete=candidates.pools,
    help="Pool that enrolled workers may serve. Repeatable.",
)  # fmt: skip
@click.option("--expires", metavar="DURATION", default="1h", show_default=True, help="Lifetime of the token.")
@click.option(
    "--uses", type=click.IntRange(min=1), default=1, show_default=True, help="Number of workers that may enroll."
)
@with_output_options
@with_connection_options
def create(
    connection: ConnectionOptions, printing: Printing, name: str, pools: tuple[str, ...], expires: str, uses: int
) -> None:
    """Create a join token and print it. It is shown only once.

    \b
    Examples:
      mainspring join-token create > join
      mainspring join-token create rack-7 --pool gpu --pool default --uses 20 --expires 1d
    """
    from mainspring.cli.render.output import print_one
    from mainspring.core.text.durations import parse_seconds
    from mainspring.protocol.rest.admin import JoinTokenRequest

    try:
        seconds = parse_seconds(expires)
    except ValueError as error:
        raise click.UsageError(f"--expires {error}") from error
    request = JoinTokenRequest(name=name, pools=pools, uses=uses, expires_in_seconds=seconds)
    with connection.client() as client:
        made = client.create_join_token(request)
    print_one(made, made.id, printing, lambda: click.echo(made.token))


@join_token.command("revoke")
@click.argument("ids", nargs=-1, required=True)
@with_confirmation
@with_output_options
@with_connection_options
def revoke(connection: ConnectionOptions, printing: Printing, ids: tuple[str, ...], yes: bool) -> None:
    """Revoke join tokens by id. Enrolled workers are not affected; see `mainspring workers revoke`.

    \b
    Examples:
      mainspring join-token revoke 3f9c2a71d0e4b856
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    if len(ids) > 1 and not confirmed(f"revoke {len(ids)} join tokens?", yes=yes):
        raise click.Abort
    with connection.client() as client:
        print_action_outcomes(
            [ActionOutcome.of(word, "revoke", client.revoke_join_token(word)) for word in ids], printing
        )
