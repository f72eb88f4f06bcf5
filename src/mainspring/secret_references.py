"""Secrets by reference: `env:NAME`, an environment variable, or `file:/path`, the content of a file.

Used by servers (alert channels, URLs of webhooks), workers (secrets of tasks) and the command line (configuration).
Values never appear in errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mainspring.core.text.urls import fault_of_url
from mainspring.protocol.errors import Refused

FORMS = "env:NAME or file:/path"
MAX_SECRET_BYTES = 64 * 1024


class Secret(msgspec.Struct, frozen=True):
    """A value that is not shown in logs and errors."""

    value: str

    def __repr__(self) -> str:
        return "Secret(***)"


def is_reference(text: str) -> bool:
    """Return whether a text is a secret reference."""
    return text.startswith(("env:", "file:"))


def resolve_reference(reference: str, environment: Mapping[str, str]) -> Secret:
    """Resolve a reference. Raises Refused, also for an empty value; its message can follow the name of a field."""
    source, _, place = reference.partition(":")
    match source:
        case "env":
            if not environment.get(place):
                raise Refused(f"environment variable {place} is not set")
            return Secret(environment[place])
        case "file":
            try:
                value = read_secret(Path(place))
            except Refused as refused:
                raise Refused(f"{place} {refused}") from None
            if not value:
                raise Refused(f"{place} is empty")
            return Secret(value)
        case _:
            raise Refused(f"must be a secret reference, {FORMS}")


def resolve_url_reference(reference: str, environment: Mapping[str, str]) -> Secret:
    """Resolve a reference to a URL. Raises Refused."""
    found = resolve_reference(reference, environment)
    fault = fault_of_url(found.value)
    if fault is not None:
        raise Refused(f"{reference} {fault}")
    return found


def read_secret(path: Path) -> str:
    """Read the file of a secret. Raises Refused; its message can follow the path."""
    try:
        with path.open("rb") as file:
            return decode_secret(file.read(MAX_SECRET_BYTES + 1))
    except OSError as error:
        raise Refused(f"can't be read: {error.strerror}") from None


def decode_secret(content: bytes) -> str:
    """Decode a secret, without its trailing newline. Raises Refused; its message can follow the name of its source."""
    if len(content) > MAX_SECRET_BYTES:
        raise Refused(f"is larger than {MAX_SECRET_BYTES >> 10} KiB")
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Refused("is not UTF-8 text") from None
