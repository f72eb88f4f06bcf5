"""Parse and format durations: `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)? ?(?:ms|[smhdw]) ?)+")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|[smhdw])")


def parse_seconds(value: object) -> float:
    """Parse a duration into seconds: a number of seconds, or `90s`, `10m`, `1h30m`, `2d`. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(value))
    raise ValueError("must be a duration such as 90s, 10m or 1h30m, or a number of seconds")


def format_seconds(seconds: float) -> str:
    """Format a duration in at most two units: `0.3s`, `42s`, `4m 07s`, `1h 04m`, `3d 02h`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3_600}h {whole % 3_600 // 60:02d}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3_600:02d}h"
