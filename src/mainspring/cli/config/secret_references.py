"""Secrets by reference: `${env:NAME}`, a variable, or `${file:/path}`, a file's content. They are never shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

HIDDEN = "••••"
FORMS = "${env:NAME} or ${file:/path}"
_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
_PASSWORD = re.compile(r"(://[^:/@]*:)[^@/]+@")


def is_reference(text: str) -> bool:
    """Whether a text is a reference, and nothing beside it."""
    return _REFERENCE.fullmatch(text) is not None


def expand(text: str) -> str:
    """A text with the values in place of its references. Raises Refused for one that leads nowhere."""
    return _REFERENCE.sub(lambda found: _look_up(found[1], found[2]), text)


def hide(value: str) -> str:
    """A value that may have secrets in it, as it may be shown."""
    return _PASSWORD.sub(rf"\1{HIDDEN}@", _REFERENCE.sub(HIDDEN, value))


def _look_up(source: str, place: str) -> str:
    from mainspring.protocol.errors import Refused

    if source == "env":
        value = os.environ.get(place, "")
        if not value:
            raise Refused(f"${{env:{place}}}: there is no variable {place}")
        return value
    try:
        value = Path(place).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Refused(f"${{file:{place}}} can't be read: {why}") from None
    if not value:
        raise Refused(f"${{file:{place}}} has nothing in it")
    return value
