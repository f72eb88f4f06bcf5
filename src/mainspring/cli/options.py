"""Options shared by commands: connection, output and confirmation.

    @click.command()
    @with_table_options
    @with_connection_options
    def workers(connection: ConnectionOptions, printing: Printing) -> None:

Only click is imported at the top; everything else is imported when a command runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import rich_click as click
from click.core import ParameterSource
from click.globals import get_current_context

from mainspring.cli.completion import candidates

if TYPE_CHECKING:
    from datetime import tzinfo
    from typing import Any

    from mainspring.client.client import Client

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")
OUTPUT = "mainspring.output"
"""Key of the requested output format in the click context; errors use the same format."""

Call = TypeVar("Call", bound=Callable[..., object])
_RETRY_WINDOW_SECONDS = 1.0
"""Interactive use: report an unreachable server soon."""
_WATCH_RETRY_WINDOW_SECONDS = 60.0
_TIMEOUT_SECONDS = 30.0
_NO_INPUT = "mainspring.no_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printing:
    """Output options."""

    output: str = "table"
    headers: bool = True
    columns: tuple[str, ...] = ()
    sort: str | None = None
    color: str = "auto"
    zone: tzinfo | None = None
    """Time zone of times in tables; None for the local zone."""

    @property
    def is_human_readable(self) -> bool:
        """Whether the output is a table rather than machine-readable."""
        return self.output in {"table", "wide"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Connection options: server, token and tenant."""

    server: str | None = None
    token_file: Path | None = None
    tenant: str | None = None
    context: str | None = None
    ca_cert: Path | None = None

    def client(
        self, retry_timeout_seconds: float = _RETRY_WINDOW_SECONDS, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> Client:
        """Return a client. Missing options are resolved by `cli/config/connection_settings.py`."""
        from mainspring.cli.config.connection_settings import resolve_connection_settings
        from mainspring.cli.config.secret_references import expand
        from mainspring.client.client import Client

        found = resolve_connection_settings(self)
        token = None if found.token.value is None else expand(found.token.value)
        return Client(
            found.server.value,
            token=token,
            tenant=found.tenant.value,
            timeout_seconds=timeout_seconds,
            retry_timeout_seconds=retry_timeout_seconds,
            ca_cert=self.ca_cert,
        )

    def watch_client(self) -> Client:
        """Return a client for live views, which survive a restart or failover of the server."""
        return self.client(_WATCH_RETRY_WINDOW_SECONDS)


color_option = click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="When to use color; auto respects NO_COLOR and FORCE_COLOR.",
)  # fmt: skip


def with_output_options(command: Call) -> Call:
    """Add output options to a command that prints one resource."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
        ctx.meta[OUTPUT] = value
        return value

    options = (
        click.option(
            "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, callback=note,
            help="Output format.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print only ids, same as -o name."),
        color_option,
        click.option("--utc", is_flag=True, help="Show times in UTC instead of the local zone."),
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

    return with_options(*options)(call)  # type: ignore[return-value]  # the wrapper has a different signature


def with_table_options(command: Call) -> Call:
    """Add output and table options to a command that prints a list."""
    options = (
        click.option("--no-headers", is_flag=True, help="Omit the header line."),
        click.option("--columns", metavar="A,B", help="Columns to show, in this order."),
        click.option("--sort", metavar="COLUMN", help="Sort by a column; prefix with - for descending."),
    )
    return with_options(*options)(with_output_options(command))


def number_option(
    name: str, about: str, default: int | None = None, *, most: int | None = None
) -> Callable[[Call], Call]:
    """Add an option with a positive number."""
    number = click.IntRange(1, most)
    return click.option(name, type=number, metavar="NUMBER", default=default, show_default=True, help=about)


def limit_option(default: int) -> Callable[[Call], Call]:
    """Add --limit to a list."""
    return number_option("--limit", "Maximum number of rows.", default)


def pool_option(about: str, default: str | None = None) -> Callable[[Call], Call]:
    """Add --pool."""
    return click.option("--pool", metavar="NAME", default=default, shell_complete=candidates.pools, help=about)


def with_connection_options(command: Call) -> Call:
    """Add connection options to a command that calls a server."""
    options = (
        click.option("--server", metavar="URL", help="Server URL [env: MAINSPRING_SERVER_URL]."),
        click.option(
            "--token-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File with the API token [env: MAINSPRING_API_KEY].",
        ),
        click.option("-t", "--tenant", metavar="NAME", help="Tenant; default: the token's [env: MAINSPRING_TENANT]."),
        click.option(
            "--context", metavar="NAME", shell_complete=candidates.contexts,
            help="Use this context instead of the current one.",
        ),
        click.option(
            "--ca-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="CA certificate of the server [env: MAINSPRING_CA_CERT].",
        ),
    )  # fmt: skip

    @functools.wraps(command)
    def call(*args: object, **rest: Any) -> object:
        connection = ConnectionOptions(**{field.name: rest.pop(field.name) for field in fields(ConnectionOptions)})
        return command(*args, connection=connection, **rest)

    return with_options(*options)(call)  # type: ignore[return-value]  # the wrapper has a different signature


def watch_option(command: Call) -> Call:
    """Add --watch to a list."""
    return click.option("-w", "--watch", is_flag=True, help="Watch for changes.")(command)


def filter_option(command: Call) -> Call:
    """Add --filter to a list; the command gets it as `q`."""
    about = "Filter expression: 'state:failed job:etl-*'."
    return click.option("-f", "--filter", "q", metavar="FILTER", help=about)(command)


def priority_option(about: str, default: str | None = None) -> Callable[[Call], Call]:
    """Add --priority. Without the metavar, the help has the priorities in lower case."""
    return click.option(
        "--priority", type=click.Choice(["P0", "P1", "P2"], case_sensitive=False), metavar="[P0|P1|P2]",
        default=default, show_default=True, help=about,
    )  # fmt: skip


def params_option(command: Call) -> Call:
    """Add the parameters of a run; the command parses them with `parse_params`."""
    return click.option(
        "-p", "--param", "params", metavar="NAME=VALUE", multiple=True,
        help="Run parameter (parsed as JSON, falls back to string).",
    )(command)  # fmt: skip


def with_confirmation(command: Call) -> Call:
    """Add --yes and --no-input to a command that asks for confirmation; it passes `yes` to `confirm`."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.meta[_NO_INPUT] = value

    options = (
        click.option("-y", "--yes", is_flag=True, help="Skip the confirmation prompt."),
        click.option(
            "--no-input", is_flag=True, expose_value=False, callback=note,
            help="Never prompt; fail if confirmation is required.",
        ),
    )  # fmt: skip
    return with_options(*options)(command)


class ListCommand(click.RichCommand):
    """A list command without subcommands; `ls` and `list` are accepted as no-ops."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        return super().parse_args(ctx, strip_ls(args))


class ResourceGroup(click.RichGroup):
    """A resource: without a subcommand, or with `ls` or `list`, it lists the resources."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"invoke_without_command": True, **kwargs})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        return super().parse_args(ctx, strip_ls(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the subcommand. Options before it are rejected: they would not apply to it."""
        for parameter in self.get_params(ctx):
            if parameter.name and ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{parameter.opts[-1]} must come after `{args[0]}`", ctx)
        return super().resolve_command(ctx, args)


def strip_ls(args: list[str]) -> list[str]:
    """Return the arguments without a leading `ls` or `list`."""
    return args[1:] if args[:1] in (["ls"], ["list"]) else args


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user to confirm unless --yes is given. Raises Abort, or UsageError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty() or get_current_context().meta.get(_NO_INPUT):
        raise click.UsageError(f"{question} Confirmation required; use --yes in non-interactive mode")
    click.confirm(question, abort=True, err=True)


def named_values(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Callback of a repeatable NAME=VALUE option."""
    named = {}
    for value in values:
        name, sign, content = value.partition("=")
        if not name or not sign:
            raise click.BadParameter(f"{value!r} must be NAME=VALUE", ctx, parameter)
        named[name] = content
    return named


def with_options(*options: Callable[[Call], Call]) -> Callable[[Call], Call]:
    """Add options to a command, in this order."""

    def decorate(command: Call) -> Call:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _zone(ctx: click.Context, parameter: click.Parameter, name: str | None) -> tzinfo | None:
    """Callback of a time zone option."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise click.BadParameter(
            f"unknown time zone {name}; use an IANA name such as Europe/Paris", ctx, parameter
        ) from error
