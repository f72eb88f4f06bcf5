"""The `Retry-After` header of HTTP responses."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_SECONDS = 7 * 86_400.0
"""Longer waits are capped (`core/lifecycle/failures.py`)."""
_DIGITS = 9


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds to wait, from a number of seconds or a date; None if it is neither."""
    value = value.strip()
    if value.isascii() and value.isdecimal():
        return min(float(value[:_DIGITS]), MAX_SECONDS)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return min(max(0.0, (until - now).total_seconds()), MAX_SECONDS)
