"""Which server, as whom, and for whom: found in several places, the first one that says it counts.

1. the options of the command: --server, --token-file, --tenant; then the context that --context names
2. the environment: MAINSPRING_SERVER_URL, MAINSPRING_API_KEY, MAINSPRING_TENANT
3. the context in use, if the server was not said before: its token goes to its own server only
4. the project's file
5. what the client takes if nobody says anything: this machine, no token, and the token's tenant
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mainspring.cli.config.contexts import Context, read_contexts
from mainspring.cli.config.project_file import find_project_file

if TYPE_CHECKING:
    from mainspring.cli.options import Reach

_VARIABLES = {"server": "MAINSPRING_SERVER_URL", "token": "MAINSPRING_API_KEY", "tenant": "MAINSPRING_TENANT"}
_IN_FILE = {"server": "server_url", "tenant": "tenant"}


@dataclass(frozen=True, slots=True)
class Said:
    """A value, and who said it."""

    value: str | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """What a command needs to know to reach a server."""

    server: Said
    token: Said
    """The token itself, or a reference to it."""
    tenant: Said
    context: str | None
    """The context that has a part in it."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One place that may say some of it."""

    origin: str
    server: str | None = None
    token: str | None = None
    tenant: str | None = None


def find_whereabouts(reach: Reach) -> Whereabouts:
    """Everything that there is to know, with where it is from. Raises NotFound for a context that is not there."""
    layers = list(_layers(reach))

    def first(field: str) -> Said:
        for layer in layers:
            if value := getattr(layer, field):
                return Said(value, _origin(layer, field))
        return Said(None, "default")

    contexts = [layer.origin.removeprefix("context ") for layer in layers if layer.origin.startswith("context ")]
    return Whereabouts(
        server=first("server"), token=first("token"), tenant=first("tenant"), context=next(iter(contexts), None)
    )


def _layers(reach: Reach) -> Iterator[_Layer]:
    token = None if reach.token_file is None else f"${{file:{reach.token_file}}}"
    flags = _Layer("flag", reach.server, token, reach.tenant)
    environment = _Layer("environment", **{field: os.environ.get(name) for field, name in _VARIABLES.items()})
    yield flags
    if reach.context is not None:
        yield _of(read_contexts().named(reach.context))
    yield environment
    if reach.context is None and not flags.server and not environment.server:
        contexts = read_contexts()
        if contexts.current is not None:
            yield _of(contexts.named(contexts.current))
    if (project := find_project_file()) is not None:
        said = {field: project.text(key) for field, key in _IN_FILE.items()}
        yield _Layer(str(project.path), **said)


def _of(context: Context) -> _Layer:
    return _Layer(f"context {context.name}", context.server, context.token, context.tenant)


def _origin(layer: _Layer, field: str) -> str:
    """The words for it: an option and a variable by their names."""
    match layer.origin:
        case "flag":
            return "--token-file" if field == "token" else f"--{field}"
        case "environment":
            return _VARIABLES[field]
        case origin:
            return origin
