"""`mainspring context`: named servers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.config.contexts import (
    Context,
    Contexts,
    is_name,
    keep_token,
    read_contexts,
    token_path,
    write_contexts,
)
from mainspring.cli.config.secret_references import FORMS, HIDDEN, is_reference
from mainspring.cli.options import Printing, ResourceGroup, with_output_options, with_table_options
from mainspring.cli.render.output import ActionOutcome, Table, print_one, print_outcomes, print_rows
from mainspring.protocol.errors import Conflict, NotFound

_STDIN = "-"


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    """A context."""

    name: str
    server: str
    tenant: str | None
    token: str | None
    """Masked; None if there is no token."""
    token_from: str | None
    """Reference to the token."""
    current: bool


CONTEXTS = Table.of(
    ContextView,
    "current name server tenant token",
    wide="token_from",
    current=lambda one, _: "*" if one.current else None,
    id=lambda one: one.name,
)


@click.group("context", cls=ResourceGroup)
@with_table_options
@click.pass_context
def context(ctx: click.Context, /, printing: Printing) -> None:
    """List contexts; add, use, show or remove one.

    `*` marks the current one.

    \b
    Examples:
      mainspring context add prod --server https://mainspring.example.org --token '${env:PROD_TOKEN}'
      mainspring context use prod
      mainspring context ls
    """
    if ctx.invoked_subcommand is not None:
        return

    contexts = read_contexts()
    print_rows([_view(one, contexts) for _, one in sorted(contexts.known.items())], CONTEXTS, printing)


@context.command("use")
@click.argument("name", shell_complete=candidates.contexts)
@with_output_options
def use(printing: Printing, name: str) -> None:
    """Make NAME the current context.

    \b
    Examples:
      mainspring context use prod
    """
    contexts = read_contexts()
    contexts.named(name)
    write_contexts(replace(contexts, current=name))
    _print_one(name, printing)


@context.command("add")
@click.argument("name")
@click.option("--server", metavar="URL", required=True, help="Server URL.")
@click.option("--tenant", "-t", metavar="NAME", help="Tenant, if not the token's.")
@click.option(
    "--token", metavar="REFERENCE",
    help="Token reference, ${env:NAME} or ${file:/path}; - for stdin.",
)  # fmt: skip
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the token.")
@click.option("--replace", "replace_existing", is_flag=True, help="Replace an existing context.")
@with_output_options
def add(
    printing: Printing, name: str, server: str, tenant: str | None, token: str | None, token_file: Path | None,
    replace_existing: bool,
) -> None:  # fmt: skip
    """Add context NAME. The first one becomes the current context.

    \b
    Examples:
      mainspring context add local --server http://127.0.0.1:8484
      mainspring context add prod --server https://mainspring.example.org --token '${env:PROD_TOKEN}'
      mainspring context add prod --server https://mainspring.example.org --token - < token
    """
    if not is_name(name):
        raise click.UsageError(f"invalid name {name}: use letters, digits, ., _ and -")
    if token is not None and token_file is not None:
        raise click.UsageError("--token and --token-file are mutually exclusive")
    contexts = read_contexts()
    if name in contexts.known and not replace_existing:
        conflict = Conflict(f"context {name} already exists")
        conflict.hint = "use --replace to overwrite it"
        raise conflict
    where = f"${{file:{token_file.absolute()}}}" if token_file is not None else _reference(name, token)
    known = {**contexts.known, name: Context(name=name, server=server, tenant=tenant, token=where)}
    write_contexts(replace(contexts, current=contexts.current or name, known=known))
    _print_one(name, printing)


@context.command("remove")
@click.argument("name", shell_complete=candidates.contexts)
@with_output_options
def remove(printing: Printing, name: str) -> None:
    """Remove context NAME and its stored token.

    \b
    Examples:
      mainspring context remove staging
    """
    contexts = read_contexts()
    contexts.named(name)
    known = {other: one for other, one in contexts.known.items() if other != name}
    write_contexts(replace(contexts, current=None if contexts.current == name else contexts.current, known=known))
    token_path(name).unlink(missing_ok=True)
    print_outcomes([ActionOutcome(id=name, action="remove", changed=True)], printing)


@context.command("show")
@click.argument("name", required=False, shell_complete=candidates.contexts)
@with_output_options
def show(printing: Printing, name: str | None) -> None:
    """Show context NAME, or the current one. The token is masked.

    \b
    Examples:
      mainspring context show
      mainspring context show prod -o json
    """
    name = name or read_contexts().current
    if name is None:
        missing = NotFound("there is no current context")
        missing.hint = "select one with `mainspring context use`, or create one with `mainspring context add`"
        raise missing
    _print_one(name, printing)


def _reference(name: str, token: str | None) -> str | None:
    """Return a reference to the token. A literal token is rejected: it would stay in the shell's history."""

    if token is None or is_reference(token):
        return token
    if token != _STDIN:
        raise click.UsageError(f"--token takes a reference, not the token: {FORMS}, or - for stdin")
    given = click.prompt("token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    if not given.strip():
        raise click.UsageError("--token -: stdin is empty")
    return keep_token(name, given.strip())


def _view(context: Context, contexts: Contexts) -> ContextView:
    """Return the view of a context."""
    return ContextView(
        name=context.name, server=context.server, tenant=context.tenant, token=HIDDEN if context.token else None,
        token_from=context.token, current=context.name == contexts.current,
    )  # fmt: skip


def _print_one(name: str, printing: Printing) -> None:

    contexts = read_contexts()
    one = contexts.named(name)
    shown = _view(one, contexts)

    def print_text() -> None:
        click.echo(f"{one.name} is {one.server}{' (current)' if shown.current else ''}")
        if one.tenant:
            click.echo(f"tenant  {one.tenant}")
        if shown.token:
            click.echo(f"token   {shown.token} from {shown.token_from}")

    print_one(shown, one.name, printing, print_text)
