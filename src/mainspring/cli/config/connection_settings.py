"""Resolve server, token and tenant. Sources in order of precedence:

1. command options: --server, --token-file, --tenant; then the context named by --context
2. environment: MAINSPRING_SERVER_URL, MAINSPRING_API_KEY, MAINSPRING_TENANT
3. the current context, unless the server is already set: a context's token is sent only to its own server
4. the project file
5. the client's defaults: this machine, no token, the token's tenant
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from mainspring.cli.config.contexts import Context, read_contexts
from mainspring.cli.config.project_file import find_project_file

if TYPE_CHECKING:
    from mainspring.cli.options import ConnectionOptions

_VARIABLES = {"server": "MAINSPRING_SERVER_URL", "token": "MAINSPRING_API_KEY", "tenant": "MAINSPRING_TENANT"}
_FILE_KEYS = {"server": "server_url", "tenant": "tenant"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its origin."""

    value: str | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Resolved server, token and tenant."""

    server: Setting
    token: Setting
    """The token, or a reference to it."""
    tenant: Setting
    context: str | None
    """Name of the context that contributed, if any."""


class _Source(Enum):
    FLAG = "flag"
    ENVIRONMENT = "environment"
    CONTEXT = "context"
    PROJECT_FILE = "project_file"


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source of settings."""

    source: _Source
    origin: str = ""
    """The name of the context, or the path of the project file."""
    server: str | None = None
    token: str | None = None
    tenant: str | None = None


def resolve_connection_settings(connection: ConnectionOptions) -> ConnectionSettings:
    """Resolve all settings with their origins. Raises NotFound for an unknown context."""
    layers = list(_layers(connection))

    def first(field: str) -> Setting:
        for layer in layers:
            if value := getattr(layer, field):
                return Setting(value, _origin(layer, field))
        return Setting(None, "default")

    contexts = [layer.origin for layer in layers if layer.source is _Source.CONTEXT]
    return ConnectionSettings(
        server=first("server"), token=first("token"), tenant=first("tenant"), context=next(iter(contexts), None)
    )


def _layers(connection: ConnectionOptions) -> Iterator[_Layer]:
    token = None if connection.token_file is None else f"${{file:{connection.token_file}}}"
    flags = _Layer(_Source.FLAG, server=connection.server, token=token, tenant=connection.tenant)
    environment = _Layer(_Source.ENVIRONMENT, "", **{field: os.environ.get(name) for field, name in _VARIABLES.items()})
    yield flags
    if connection.context is not None:
        yield _of(read_contexts().named(connection.context))
    yield environment
    if connection.context is None and not flags.server and not environment.server:
        contexts = read_contexts()
        if contexts.current is not None:
            yield _of(contexts.named(contexts.current))
    if (project := find_project_file()) is not None:
        configured = {field: project.text(key) for field, key in _FILE_KEYS.items()}
        yield _Layer(_Source.PROJECT_FILE, str(project.path), **configured)


def _of(context: Context) -> _Layer:
    return _Layer(_Source.CONTEXT, context.name, context.server, context.token, context.tenant)


def _origin(layer: _Layer, field: str) -> str:
    """Describe where a value comes from; options and variables by name."""
    match layer.source:
        case _Source.FLAG:
            return "--token-file" if field == "token" else f"--{field}"
        case _Source.ENVIRONMENT:
            return _VARIABLES[field]
        case _Source.CONTEXT:
            return f"context {layer.origin}"
        case _Source.PROJECT_FILE:
            return layer.origin
