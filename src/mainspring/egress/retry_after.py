"""When somebody who can't answer now wants to be asked again: the `Retry-After` of an HTTP answer."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 7 * 86_400.0
"""Nobody is waited for longer (`core/lifecycle/failures.py`)."""
_DIGITS = 9


def seconds_in(said: str, now: datetime) -> float | None:
    """How long to wait, by a number of seconds or a date; None if neither is said."""
    said = said.strip()
    if said.isascii() and said.isdecimal():
        return min(float(said[:_DIGITS]), LONGEST_SECONDS)
    try:
        until = parsedate_to_datetime(said)
    except (ValueError, TypeError):
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return min(max(0.0, (until - now).total_seconds()), LONGEST_SECONDS)
