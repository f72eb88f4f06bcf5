"""Parse and format quantities: `512Mi`, `1.5G`, `0.5`, `500m`."""

from __future__ import annotations

import re
from math import isinf

_BYTES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BYTES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "K": 10**3}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGTP]?i?)B?")
_CPU = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m?)")


def parse_bytes(value: object) -> int:
    """Parse a size into bytes: a number of bytes, or `512Mi`, `1.5G`. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _BYTES:
        raise ValueError("must be a size such as 512Mi or 2G, or a number of bytes")
    return _rounded(float(match[1]) * _BYTES[match[2]])


def parse_millis(value: object) -> int:
    """Parse a CPU quantity into millicores: `0.5`, `2` or `500m`. Raises ValueError."""
    match = _CPU.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match is None or isinstance(value, bool):
        raise ValueError("must be a number of cores such as 0.5 or 2, or millicores such as 500m")
    return _rounded(float(match[1]) * (1 if match[2] else 1_000))


def _rounded(amount: float) -> int:
    if isinf(amount):
        raise ValueError("is too large")
    return round(amount)


def format_bytes(size: int) -> str:
    """Format a size in the largest unit with a value of at least one: `512Mi`, `1.5Gi`."""
    amount, unit = float(size), ""
    for larger in ("Ki", "Mi", "Gi", "Ti", "Pi"):
        if amount < 1_024:
            break
        amount, unit = amount / 1_024, larger
    return f"{amount:.1f}".removesuffix(".0") + unit


def format_bytes_exactly(size: int) -> str:
    """Format a size so that parsing returns exactly this size: with a unit if possible, else in bytes."""
    formatted = format_bytes(size)
    return formatted if parse_bytes(formatted) == size else str(size)


def format_millis(millis: int) -> str:
    """Format millicores in cores: `0.5`, `2`."""
    return f"{millis / 1_000:.10g}"
