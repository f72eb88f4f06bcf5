"""How the page of limits says sizes, lengths and answers."""

from __future__ import annotations

REFUSED, TOO_LARGE = "422 `refused`", "413 `too_large`"


def size(count: int) -> str:
    """A number of bytes, as people say it."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count:,} bytes"


def characters(count: int) -> str:
    """The length of a text."""
    return f"{count:,} characters"


def days(seconds: float) -> str:
    """A length of time."""
    return f"{seconds / 86_400:g} days"
