"""Formats of sizes, lengths and responses in the page of limits."""

from __future__ import annotations

REFUSED, TOO_LARGE = "422 `refused`", "413 `too_large`"


def size(count: int) -> str:
    """Format a number of bytes."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count:,} bytes"


def characters(count: int) -> str:
    """Format the length of a text."""
    return f"{count:,} characters"


def days(seconds: float) -> str:
    """Format a duration."""
    return f"{seconds / 86_400:g} days"
