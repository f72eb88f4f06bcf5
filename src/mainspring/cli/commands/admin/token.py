"""`mainspring token` and `join-token`: API tokens, and tokens that enroll workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, ResourceGroup, number_option
from mainspring.cli.resource import Listing, Outcome, Session, action_on_each, listing, with_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.admin import JoinTokenView
    from mainspring.protocol.rest.runs import TokenView

ROLES = ("viewer", "submitter", "operator", "approver", "admin", "worker")


@click.group("token", cls=ResourceGroup)
@listing(200)
def token(session: Session, limit: int) -> Listing[TokenView]:
    """List API tokens; create and revoke them. Secrets are not shown.

    \b
    Examples:
      mainspring token ls --sort expires
      mainspring token create ci --role submitter
    """
    from itertools import islice

    from mainspring.cli.render.tables import TOKENS

    return TOKENS, lambda: islice(session.client.tokens(), limit)


@token.command("create")
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="Role of the token. Repeatable."
)
@click.option("--expires", metavar="DURATION", default="90d", show_default=True, help="Lifetime of the token.")
@click.option("--store", metavar="URL", help="Create it directly in this store; for the first token.")
@with_session
def create(session: Session, name: str, roles: tuple[str, ...], expires: str, store: str | None) -> None:
    """Create a token and print it. It is shown only once.

    --store needs no token, but SQLite stores can be opened by one process only: stop the server first.

    \b
    Examples:
      mainspring token create ops --role admin --store sqlite:///.mainspring/mainspring.db > token
      mainspring token create ci --role submitter --tenant acme --expires 30d
    """
    from mainspring.cli.render.times import parse_duration

    seconds = parse_duration(expires, "--expires")
    tenant = session.connection.tenant
    if store is not None:
        _create_in_store(store, name, roles, tenant, seconds, session.printing)
        return
    from mainspring.protocol.rest.runs import TokenRequest

    request = TokenRequest(name=name, roles=list(roles), tenant=tenant, expires_in_seconds=seconds)
    made = session.client.create_token(request)
    session.print_line(made, made.id, made.token or "")


@token.command("revoke")
@click.argument("ids", metavar="TOKEN_ID...", nargs=-1, required=True)
@action_on_each("tokens", why=False)
def revoke(session: Session, id: str) -> Outcome:
    """Revoke tokens by id.

    \b
    Examples:
      mainspring token revoke 3f9c2a71d0e4b856
    """
    return id, session.client.revoke_token(id)


def _create_in_store(
    store: str, name: str, roles: tuple[str, ...], tenant: str | None, seconds: float, printing: Printing
) -> None:
    from datetime import timedelta

    import msgspec

    from mainspring.app.build import create_token
    from mainspring.cli.render.output import print_one

    expires = timedelta(seconds=seconds)
    if tenant is None:
        made = create_token(store, name, roles, expires=expires)
    else:
        made = create_token(store, name, roles, tenant, expires)
    print_one(msgspec.Raw(msgspec.json.encode({"token": made})), made, printing, lambda: click.echo(made))


@click.group("join-token", cls=ResourceGroup)
@listing(200)
def join_token(session: Session, limit: int) -> Listing[JoinTokenView]:
    """List join tokens, which enroll workers; create and revoke them.

    Secrets are not shown.

    \b
    Examples:
      mainspring join-token
      mainspring join-token create --pool gpu > join
    """
    from itertools import islice

    from mainspring.cli.render.tables import JOIN_TOKENS

    return JOIN_TOKENS, lambda: islice(session.client.join_tokens(), limit)


@join_token.command("create")
@click.argument("name", default="worker")
@click.option(
    "--pool", "pools", metavar="NAME", multiple=True, default=("default",), show_default=True,
    shell_complete=candidates.pools, help="Pool that enrolled workers may serve. Repeatable.",
)  # fmt: skip
@click.option("--expires", metavar="DURATION", default="1h", show_default=True, help="Lifetime of the token.")
@number_option("--uses", "Number of workers that may enroll.", 1)
@with_session
def create_join_token(session: Session, name: str, pools: tuple[str, ...], expires: str, uses: int) -> None:
    """Create a join token and print it. It is shown only once.

    \b
    Examples:
      mainspring join-token create > join
      mainspring join-token create rack-7 --pool gpu --pool default --uses 20 --expires 1d
    """
    from mainspring.cli.render.times import parse_duration
    from mainspring.protocol.rest.admin import JoinTokenRequest

    seconds = parse_duration(expires, "--expires")
    made = session.client.create_join_token(
        JoinTokenRequest(name=name, pools=pools, uses=uses, expires_in_seconds=seconds)
    )
    session.print_line(made, made.id, made.token or "")


@join_token.command("revoke")
@click.argument("ids", metavar="TOKEN_ID...", nargs=-1, required=True)
@action_on_each("join tokens", why=False)
def revoke_join_token(session: Session, id: str) -> Outcome:
    """Revoke join tokens by id.

    Enrolled workers are not affected; see `mainspring workers revoke`.

    \b
    Examples:
      mainspring join-token revoke 3f9c2a71d0e4b856
    """
    return id, session.client.revoke_join_token(id)
