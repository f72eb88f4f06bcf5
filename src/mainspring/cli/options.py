"""What commands have in common on the command line: how to reach the server, how to print, and how to ask first.

    @click.command()
    @reaches_server
    @prints_rows
    def workers(reach: Reach, printing: Printing) -> None:

Only click is imported here: the rest comes when a command runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import rich_click as click
from click.core import ParameterSource

from mainspring.cli.completion import candidates

if TYPE_CHECKING:
    from datetime import tzinfo

    from mainspring.client.client import Client

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")
OUTPUT = "mainspring.output"
"""Where a command's context has the form that was asked for: errors take the same."""

Call = TypeVar("Call", bound=Callable[..., object])
_PATIENCE_SECONDS = 1.0
"""Somebody waits at the prompt: an address where nobody is should be told soon."""
_WATCHING_PATIENCE_SECONDS = 60.0
_TIMEOUT_SECONDS = 30.0
_NO_INPUT = "mainspring.no_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printing:
    """How results are to be printed."""

    output: str = "table"
    headers: bool = True
    columns: tuple[str, ...] = ()
    sort: str | None = None
    color: str = "auto"
    zone: tzinfo | None = None
    """In which zone people are shown times; None for that of this machine."""

    @property
    def is_for_people(self) -> bool:
        """Whether it is a table, and not for a program."""
        return self.output in {"table", "wide"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which server, and as whom."""

    server: str | None = None
    token_file: Path | None = None
    tenant: str | None = None
    context: str | None = None
    ca_cert: Path | None = None

    def client(self, patience: float = _PATIENCE_SECONDS, timeout_seconds: float = _TIMEOUT_SECONDS) -> Client:
        """A client for it. What the command does not say is found elsewhere (`cli/config/connection_settings.py`)."""
        from mainspring.cli.config.connection_settings import find_whereabouts
        from mainspring.cli.config.secret_references import expand
        from mainspring.client.client import Client

        found = find_whereabouts(self)
        token = None if found.token.value is None else expand(found.token.value)
        return Client(
            found.server.value,
            token=token,
            tenant=found.tenant.value,
            timeout_seconds=timeout_seconds,
            patience=patience,
            ca_cert=self.ca_cert,
        )

    def watching_client(self) -> Client:
        """A client for somebody who watches: a server that restarts or moves ends no view."""
        return self.client(_WATCHING_PATIENCE_SECONDS)


def prints(command: Call) -> Call:
    """For a command that prints one thing."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
        ctx.meta[OUTPUT] = value
        return value

    options = (
        click.option(
            "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, callback=note,
            help="The form: a table for people, wide for all columns, the others for programs; name is ids only.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print ids only, as -o name does."),
        click.option(
            "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
            help="Colours: auto is on a terminal only, and heeds NO_COLOR and FORCE_COLOR.",
        ),
        click.option("--utc", is_flag=True, help="Show times in UTC, not in the zone of this machine."),
        click.option("--tz", metavar="ZONE", callback=_zone, help="Show times in this zone, such as Europe/Paris."),
    )  # fmt: skip

    @functools.wraps(command)
    def call(
        *args: object,
        output: str,
        quiet: bool,
        color: str,
        utc: bool,
        tz: tzinfo | None,
        no_headers: bool = False,
        columns: str | None = None,
        sort: str | None = None,
        **rest: object,
    ) -> object:
        printing = Printing(
            output="name" if quiet else output,
            headers=not no_headers,
            columns=tuple(filter(None, (columns or "").split(","))),
            sort=sort,
            color=color,
            zone=UTC if utc else tz,
        )
        return command(*args, printing=printing, **rest)

    return _with(call, options)  # type: ignore[return-value]  # it takes what its options give, not what the command does


def prints_rows(command: Call) -> Call:
    """For a command that prints a list."""
    options = (
        click.option("--no-headers", is_flag=True, help="Leave the line with the names of the columns out."),
        click.option("--columns", metavar="A,B", help="Which columns a table has, in which order."),
        click.option("--sort", metavar="COLUMN", help="Sort by a column; -COLUMN for the other way round."),
    )
    return _with(prints(command), options)


def limited(default: int) -> Callable[[Call], Call]:
    """For a list that may be long."""
    return click.option(
        "--limit", type=click.IntRange(min=1), default=default, show_default=True, help="How many to list at most."
    )


def reaches_server(command: Call) -> Call:
    """For a command that asks a server."""
    options = (
        click.option("--server", metavar="URL", help="Where the server is; MAINSPRING_SERVER_URL if not said."),
        click.option(
            "--token-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A file with the token; MAINSPRING_API_KEY if not said.",
        ),
        click.option("-t", "--tenant", help="Whose work; the token's tenant or MAINSPRING_TENANT if not said."),
        click.option(
            "--context", metavar="NAME", shell_complete=candidates.contexts,
            help="A server by name, of those in `mainspring context ls`; the one in use if not said.",
        ),
        click.option(
            "--ca-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The certificate that the server's is signed with; MAINSPRING_CA_CERT if not said.",
        ),
    )  # fmt: skip

    @functools.wraps(command)
    def call(
        *args: object,
        server: str | None,
        token_file: Path | None,
        tenant: str | None,
        context: str | None,
        ca_cert: Path | None,
        **rest: object,
    ) -> object:
        reach = Reach(server=server, token_file=token_file, tenant=tenant, context=context, ca_cert=ca_cert)
        return command(*args, reach=reach, **rest)

    return _with(call, options)  # type: ignore[return-value]  # as above


def watched(command: Call) -> Call:
    """For a list that changes."""
    return click.option("-w", "--watch", is_flag=True, help="Go on, and show what changes.")(command)


def asks_first(command: Call) -> Call:
    """For a command that asks before it does something to several things, or to all: it takes `yes`, for `agreed`."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.meta[_NO_INPUT] = value

    options = (
        click.option("-y", "--yes", is_flag=True, help="Do not ask first."),
        click.option(
            "--no-input", is_flag=True, expose_value=False, callback=note,
            help="Never ask: what would need an answer is refused.",
        ),
    )  # fmt: skip
    return _with(command, options)


class Listing(click.RichCommand):
    """A kind of thing without verbs: it lists what there is, also as `ls` or `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words."""
        return super().parse_args(ctx, without_ls(args))


class Noun(click.RichGroup):
    """A kind of thing: by itself it lists what there is, as with `ls` or `list`; a verb does something else.

    Made with `invoke_without_command=True`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words."""
        return super().parse_args(ctx, without_ls(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb. What is said before it would not reach it: another server or tenant than was meant."""
        for parameter in self.get_params(ctx):
            if parameter.name and ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"say {parameter.opts[-1]} after `{args[0]}`, not before", ctx)
        return super().resolve_command(ctx, args)


def without_ls(args: list[str]) -> list[str]:
    """The words without the one that only says that a list is wanted."""
    return args[1:] if args[:1] in (["ls"], ["list"]) else args


def agreed(question: str, *, yes: bool) -> bool:
    """Whether the user wants it: said before with --yes, or asked now, but only at a terminal."""
    if yes:
        return True
    if not sys.stdin.isatty() or _no_input():
        raise click.UsageError(f"{question} Say --yes: there is nobody to ask")
    return click.confirm(question, err=True)


def named_values(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """The callback of an option that is given as NAME=VALUE, several times."""
    named = {}
    for value in values:
        name, sign, content = value.partition("=")
        if not name or not sign:
            raise click.BadParameter(f"{value!r} must be NAME=VALUE", ctx, parameter)
        named[name] = content
    return named


def _no_input() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_NO_INPUT))


def _with(command: Call, options: tuple[Callable[[Call], Call], ...]) -> Call:
    for option in reversed(options):
        command = option(command)
    return command


def _zone(ctx: click.Context, parameter: click.Parameter, name: str | None) -> tzinfo | None:
    """The zone of this name."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise click.BadParameter(f"there is no zone {name}; one is called Europe/Paris", ctx, parameter) from error
