"""Fields shared by several kinds of work: import paths, and references to secrets."""

from __future__ import annotations

import re

SECRET_SOURCES = ("env", "file", "command")
_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def fault_in_import_path(text: str) -> str | None:
    """Return what is wrong with a function's import path, or None."""
    return None if _IMPORT_PATH.fullmatch(text) else "must be package.module:function"


def fault_in_secret(reference: str) -> str | None:
    """Return what is wrong with a secret reference, or None."""
    source, _, rest = reference.partition(":")
    return None if source in SECRET_SOURCES and rest else "must be env:NAME, file:/path or command:words"
