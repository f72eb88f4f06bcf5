"""Secrets by reference: `env:NAME`, an environment variable of the server, or `file:/path`, the content of a file.

References of channels are resolved once, at the start of the server, those of webhook URLs at each delivery. Values
never appear in errors, or in the output of channels and webhooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mainspring.core.text.urls import fault_of_url
from mainspring.protocol.errors import Refused

FORMS = "env:NAME or file:/path"
_MAX_BYTES = 64 * 1024


class Secret(msgspec.Struct, frozen=True):
    """A value that is not shown in logs and errors."""

    value: str

    def __repr__(self) -> str:
        return "Secret(***)"


def is_reference(text: str) -> bool:
    """Return whether a text is a secret reference."""
    return text.startswith(("env:", "file:"))


def resolve_reference(reference: str, environment: Mapping[str, str]) -> Secret:
    """Resolve a reference. Raises Refused; its message can follow the name of a field."""
    source, _, place = reference.partition(":")
    match source:
        case "env":
            if not environment.get(place):
                raise Refused(f"environment variable {place} of the server is not set")
            return Secret(environment[place])
        case "file":
            return Secret(_read(Path(place)))
        case _:
            raise Refused(f"must be a secret reference, {FORMS}")


def resolve_url_reference(reference: str, environment: Mapping[str, str]) -> Secret:
    """Resolve a reference to a URL. Raises Refused."""
    found = resolve_reference(reference, environment)
    fault = fault_of_url(found.value)
    if fault is not None:
        raise Refused(f"{reference} {fault}")
    return found


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        value = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text") from None
    if not value or len(content) > _MAX_BYTES:
        raise Refused(f"{path} must be between 1 byte and {_MAX_BYTES >> 10} KiB")
    return value
