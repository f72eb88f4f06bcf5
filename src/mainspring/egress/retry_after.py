"""The `Retry-After` header of HTTP responses."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 7 * 86_400.0
"""Longer waits are capped (`core/lifecycle/failures.py`)."""
_DIGITS = 9


def seconds_in(said: str, now: datetime) -> float | None:
    """Return the seconds to wait, from a number of seconds or a date; None if it is neither."""
    said = said.strip()
    if said.isascii() and said.isdecimal():
        return min(float(said[:_DIGITS]), LONGEST_SECONDS)
    try:
        until = parsedate_to_datetime(said)
    except (ValueError, TypeError):
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return min(max(0.0, (until - now).total_seconds()), LONGEST_SECONDS)
