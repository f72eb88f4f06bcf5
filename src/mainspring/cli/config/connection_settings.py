"""Resolve server, token and tenant. Sources in order of precedence:

1. command options: --server, --token-file, --tenant; then the context named by --context
2. environment: MAINSPRING_SERVER_URL, MAINSPRING_API_KEY, MAINSPRING_TENANT
3. the current context, unless the server is already set: a context's token is sent only to its own server
4. the project file
5. the client's defaults: this machine, no token, the token's tenant
"""

from __future__ import annotations

import os
from dataclasses import dataclass
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


def resolve_connection_settings(connection: ConnectionOptions) -> ConnectionSettings:
    """Resolve all settings with their origins. Raises NotFound for an unknown context."""
    token = None if connection.token_file is None else f"${{file:{connection.token_file}}}"
    options = {
        "server": Setting(connection.server, "--server"),
        "token": Setting(token, "--token-file"),
        "tenant": Setting(connection.tenant, "--tenant"),
    }
    environment = {field: Setting(os.environ.get(name), name) for field, name in _VARIABLES.items()}
    has_server = bool(options["server"].value or environment["server"].value)
    context = _context(connection.context, has_server=has_server)
    of_context = {}
    if context is not None:
        of_context = {field: Setting(getattr(context, field), f"context {context.name}") for field in _VARIABLES}
    is_named = connection.context is not None
    layers = [options, of_context, environment] if is_named else [options, environment, of_context]
    if (project := find_project_file()) is not None:
        layers.append({field: Setting(project.text(key), str(project.path)) for field, key in _FILE_KEYS.items()})

    def first(field: str) -> Setting:
        known = (layer[field] for layer in layers if field in layer)
        return next((setting for setting in known if setting.value), Setting(None, "default"))

    return ConnectionSettings(
        server=first("server"),
        token=first("token"),
        tenant=first("tenant"),
        context=None if context is None else context.name,
    )


def _context(name: str | None, *, has_server: bool) -> Context | None:
    """Return the named context, or the current one unless the server is already set. Raises NotFound."""
    if name is None and has_server:
        return None
    contexts = read_contexts()
    name = contexts.current if name is None else name
    return None if name is None else contexts.named(name)
