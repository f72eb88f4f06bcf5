"""Amounts as people write them: `512Mi`, `1.5G`, `0.5`, `500m`."""

from __future__ import annotations

import re
from math import isinf

_BYTES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BYTES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "K": 10**3}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGTP]?i?)B?")
_CPU = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m?)")


def bytes_of(value: object) -> int:
    """A size in bytes: a number of them, or `512Mi`, `1.5G`. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _BYTES:
        raise ValueError("must be a size such as 512Mi or 2G, or a number of bytes")
    return _rounded(float(match[1]) * _BYTES[match[2]])


def millis_of(value: object) -> int:
    """A share of processors in thousandths: `0.5`, `2` or `500m`. Raises ValueError."""
    match = _CPU.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match is None or isinstance(value, bool):
        raise ValueError("must be a number of processors such as 0.5 or 2, or thousandths such as 500m")
    return _rounded(float(match[1]) * (1 if match[2] else 1_000))


def _rounded(amount: float) -> int:
    if isinf(amount):
        raise ValueError("is more than anybody has")
    return round(amount)


def say_bytes(size: int) -> str:
    """A size in the largest unit that leaves a number above one: `512Mi`, `1.5Gi`."""
    amount, unit = float(size), ""
    for larger in ("Ki", "Mi", "Gi", "Ti", "Pi"):
        if amount < 1_024:
            break
        amount, unit = amount / 1_024, larger
    return f"{amount:.1f}".removesuffix(".0") + unit


def write_bytes(size: int) -> str:
    """The same if it can be read again as this size; else the number of bytes."""
    said = say_bytes(size)
    return said if bytes_of(said) == size else str(size)


def say_millis(millis: int) -> str:
    """A share of processors, as it is written: `0.5`, `2`."""
    return f"{millis / 1_000:.10g}"
