"""Secrets by reference: `env:NAME`, a variable of the server, or `file:/path`, a file's content.

Those of channels are read once, when the server starts, addresses of webhooks whenever something is sent. No value gets
into an error, and none is shown where a channel or a webhook is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mainspring.core.text.urls import fault_of_url
from mainspring.protocol.errors import Refused

FORMS = "env:NAME or file:/path"
_LARGEST_BYTES = 64 * 1024


class Secret(msgspec.Struct, frozen=True):
    """A value that is not shown."""

    value: str

    def __repr__(self) -> str:
        return "Secret(***)"


def is_reference(text: str) -> bool:
    """Whether a text says where a secret is."""
    return text.startswith(("env:", "file:"))


def look_up(reference: str, environment: Mapping[str, str]) -> Secret:
    """The value behind a reference. Raises Refused, whose words can follow the name of a field."""
    source, _, place = reference.partition(":")
    match source:
        case "env":
            if not environment.get(place):
                raise Refused(f"the server has no variable {place}")
            return Secret(environment[place])
        case "file":
            return Secret(_read(Path(place)))
        case _:
            raise Refused(f"a secret does not stand in the file: must be {FORMS}")


def look_up_url(reference: str, environment: Mapping[str, str]) -> Secret:
    """The address that is kept behind a reference. Raises Refused."""
    found = look_up(reference, environment)
    fault = fault_of_url(found.value)
    if fault is not None:
        raise Refused(f"{reference} {fault}")
    return found


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
        value = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not text") from None
    if not value or len(content) > _LARGEST_BYTES:
        raise Refused(f"{path} must have something in it, at most {_LARGEST_BYTES >> 10} KiB")
    return value
