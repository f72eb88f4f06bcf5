"""Rejections of HTTP requests: their failure class, and the `Retry-After` header."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_SECONDS = 7 * 86_400.0
"""Longer waits are capped (`core/lifecycle/failures.py`)."""
_DIGITS = 9
_RATE_LIMITED = 429
_TRY_LATER = frozenset({408, 425})
_SERVER_ERRORS = 500


def failure_of_status(status: int, retry_after: str, now: datetime) -> tuple[str, float | None]:
    """Return the failure class of a rejected request (RTY-1), and the seconds to wait, if the response names them."""
    if status == _RATE_LIMITED:
        return "rate_limited", parse_retry_after(retry_after, now)
    if status >= _SERVER_ERRORS or status in _TRY_LATER:
        return "transient", parse_retry_after(retry_after, now)
    return "permanent", None


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
