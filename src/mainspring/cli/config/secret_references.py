"""Secret references: `${env:NAME}` for a variable, `${file:/path}` for a file. Values are never printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mainspring.protocol.errors import Refused
from mainspring.secret_references import resolve_reference

HIDDEN = "••••"
FORMS = "${env:NAME} or ${file:/path}"
_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
_PASSWORD = re.compile(r"(://[^:/@]*:)[^@/]+@")


def is_reference(text: str) -> bool:
    """Whether a string is exactly one reference."""
    return _REFERENCE.fullmatch(text) is not None


def expand(text: str) -> str:
    """Replace references by their values. Raises Refused for one that can't be resolved."""
    return _REFERENCE.sub(lambda found: _resolve(found[1], found[2]), text)


def redact(value: str) -> str:
    """Mask references and passwords in a value."""
    return _PASSWORD.sub(rf"\1{HIDDEN}@", _REFERENCE.sub(HIDDEN, value))


def _resolve(source: str, place: str) -> str:
    path = str(Path(place).expanduser()) if source == "file" else place
    try:
        return resolve_reference(f"{source}:{path}", os.environ).value.strip()
    except Refused as refused:
        raise Refused(f"${{{source}:{place}}}: {refused}") from None
