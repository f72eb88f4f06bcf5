"""Contexts: named servers with tenant and token, in the user's configuration directory.

    HOME/contexts.toml       all contexts and the current one; tokens only as references
    HOME/tokens/NAME         a stored token

HOME is $MAINSPRING_HOME, or `mainspring` in the user's configuration directory ($XDG_CONFIG_HOME, ~/.config).

1. Both are readable only by their owner, from creation on.
2. Files are replaced atomically: readers see the old or the new content.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mainspring.atomic_files import write_atomically
from mainspring.cli.config.secret_references import FORMS, is_reference
from mainspring.cli.config.toml_files import TomlFile
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import NotFound

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FIELDS = ("server", "tenant", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A named server."""

    name: str
    server: str
    tenant: str | None = None
    token: str | None = None
    """Reference to the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """All contexts and the name of the current one."""

    current: str | None
    known: Mapping[str, Context]

    def named(self, name: str) -> Context:
        """Return a context. Raises NotFound with a suggestion."""
        if name in self.known:
            return self.known[name]
        missing = NotFound(f"there is no context {name}{did_you_mean(name, self.known)}")
        missing.hint = "list contexts with `mainspring context ls`, or create one with `mainspring context add`"
        raise missing


def home() -> Path:
    """Return the user's configuration directory."""
    own = os.environ.get("MAINSPRING_HOME")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "mainspring"


def contexts_path() -> Path:
    """Return the path of the contexts file."""
    return home() / "contexts.toml"


def read_contexts() -> Contexts:
    """Read the contexts. Raises InvalidFile."""
    path = contexts_path()
    if not path.exists():
        return Contexts(current=None, known={})
    file = TomlFile(path)
    file.check_keys((), ("current", "contexts"))
    known = {name: _read(file, name) for name in file.table("contexts")}
    current = file.text_at("current") or None
    if current is not None and current not in known:
        raise file.error_at(("current",), f"there is no context `{current}`")
    return Contexts(current=current, known=known)


def write_contexts(contexts: Contexts) -> None:
    """Write the contexts."""
    lines = [] if contexts.current is None else [f"current = {_quoted(contexts.current)}", ""]
    for context in sorted(contexts.known.values(), key=lambda one: one.name):
        lines.append(f"[contexts.{_quoted(context.name)}]")
        lines += [f"{field} = {_quoted(value)}" for field in _FIELDS if (value := getattr(context, field))]
        lines.append("")
    _write_private(contexts_path(), "\n".join(lines))


def token_path(name: str) -> Path:
    """Return the path of a context's stored token."""
    return home() / "tokens" / name


def keep_token(name: str, token: str) -> str:
    """Store a token and return the reference to it."""
    path = token_path(name).absolute()
    _write_private(path, f"{token}\n")
    return f"${{file:{path}}}"


def is_name(name: str) -> bool:
    """Whether a name is valid for a context, and so for its token file."""
    return _NAME.fullmatch(name) is not None


def _read(file: TomlFile, name: str) -> Context:
    table = ("contexts", name)
    file.check_keys(table, _FIELDS)
    server = file.text_at(*table, "server")
    token = file.text_at(*table, "token")
    if not server:
        raise file.error_at(table, "has no `server`")
    if token is not None and not is_reference(token):
        raise file.error_at((*table, "token"), "must not contain the token itself", f"use {FORMS}")
    return Context(name=name, server=server, tenant=file.text_at(*table, "tenant"), token=token)


def _quoted(text: str) -> str:
    """Quote a string for TOML: as in JSON except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, text.encode(), mode=0o600, suffix=f".{os.getpid()}")
