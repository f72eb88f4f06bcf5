"""`mainspring config`: the effective configuration: each setting with its value and origin."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import rich_click as click
from click.core import ParameterSource

from mainspring.cli.commands.processes.server import server
from mainspring.cli.commands.processes.worker import worker
from mainspring.cli.config.connection_settings import Setting, resolve_connection_settings
from mainspring.cli.config.contexts import contexts_path
from mainspring.cli.config.process_options import ProcessCommand, option_key
from mainspring.cli.config.project_file import ProjectFile, find_project_file
from mainspring.cli.config.secret_references import HIDDEN, is_reference, redact
from mainspring.cli.options import ConnectionOptions, Printing, with_output_options
from mainspring.cli.render.output import Table, print_rows
from mainspring.cli.resource import Session, with_table_session
from mainspring.client.api_calls import DEFAULT_SERVER
from mainspring.core.text.suggestions import did_you_mean


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A setting with its value and origin."""

    name: str
    value: str | None
    origin: str


class ReadFile(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration file, which may not exist."""

    what: str
    path: str
    exists: bool


VALUES = Table.of(Value, "name value", wide="origin", id=lambda value: value.name)
VALUES_WITH_ORIGIN = Table.of(Value, "name value origin", id=lambda value: value.name)
FILES = Table.of(ReadFile, "what exists path", id=lambda file: file.path)


@click.group("config")
def config() -> None:
    """Show the effective configuration and its files.

    \b
    Examples:
      mainspring config show --origin
      mainspring config path
    """


@config.command("show")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--origin", is_flag=True, help="Show the origin: option, variable, context or file.")
@with_table_session
def show(session: Session, names: tuple[str, ...], origin: bool) -> None:
    """Show the effective settings of commands, server and worker.

    Secrets are masked.

    \b
    Examples:
      mainspring config show
      mainspring config show --origin server.port server.store
      mainspring config show --origin --context prod server_url
    """
    found = effective_values(session.connection)
    if unknown := set(names) - {value.name for value in found}:
        name = min(unknown)
        raise click.UsageError(f"unknown setting {name}{did_you_mean(name, (value.name for value in found))}")
    table = VALUES_WITH_ORIGIN if origin else VALUES
    session.print_rows([value for value in found if not names or value.name in names], table)


@config.command("path")
@with_output_options
def path(printing: Printing) -> None:
    """List the configuration files: contexts and project file.

    \b
    Examples:
      mainspring config path
    """
    print_rows(files(), FILES, printing)


def effective_values(connection: ConnectionOptions) -> list[Value]:
    """Return all settings that apply in this directory."""
    found = resolve_connection_settings(connection)
    project = find_project_file()
    server_url = found.server if found.server.value else replace(found.server, value=DEFAULT_SERVER)
    return [
        Value(name="context", value=found.context, origin=f"{contexts_path()}" if found.context else "default"),
        Value(name="server_url", value=server_url.value, origin=server_url.origin),
        Value(name="api_key", value=HIDDEN if found.token.value else None, origin=_token_origin(found.token)),
        Value(name="tenant", value=found.tenant.value, origin=found.tenant.origin),
        *_of_process(server, project),
        *_of_process(worker, project),
    ]


def files() -> list[ReadFile]:
    """Return the configuration files."""
    project = find_project_file()
    return [
        ReadFile(what="contexts", path=str(contexts_path()), exists=contexts_path().exists()),
        *([] if project is None else [ReadFile(what="project", path=str(project.path), exists=True)]),
    ]


def _of_process(command: click.Command, project: ProjectFile | None) -> Iterator[Value]:
    """Yield the options that a server or worker would have if started here without arguments."""
    assert isinstance(command, ProcessCommand), "server and worker are process commands"
    ctx = click.Context(command, default_map=command.options_from(project, reveal=False))
    for option in command.params:
        if not isinstance(option, click.Option) or option.envvar is None:
            continue
        value, source = option.consume_value(ctx, {})
        match source:
            case ParameterSource.ENVIRONMENT:
                short = f"MAINSPRING_{(option.name or '').upper()}"
                origin = next((name for name in option.envvar or () if os.environ.get(name)), short)
            case ParameterSource.DEFAULT_MAP:
                origin = str(project.path) if project is not None else ""
            case _:
                value, origin = option.get_default(ctx, call=True), "default"
        yield Value(name=f"{command.name}.{option_key(option)}", value=_format_value(value), origin=origin)


def _format_value(value: object) -> str | None:
    """Format a value on one line with secrets masked."""
    match value:
        case None | "" | () | []:
            return None
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return " ".join(redact(str(one)) for one in value)
        case str() | int() | float() | os.PathLike():
            return redact(str(value))
        case _:
            # click's sentinel for an unset value.
            return None


def _token_origin(token: Setting) -> str:
    """Describe the origin of the token, with its reference, which is not secret."""
    if token.value is not None and is_reference(token.value) and not token.origin.startswith("--"):
        return f"{token.origin}, {token.value}"
    return token.origin
