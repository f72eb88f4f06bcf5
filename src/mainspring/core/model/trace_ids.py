"""Trace and span ids, derived from run and attempt ids.

A worker can pass a task its trace context (`TRACEPARENT`, W3C Trace Context) without a request, and any server can
report spans of a run that another server began.
"""

from __future__ import annotations

import hashlib


def trace_of(run_id: str) -> int:
    """Return the trace id of a run: 16 bytes, never 0."""
    return int.from_bytes(_digest(run_id)[:16]) or 1


def span_of(id: str) -> int:
    """Return the span id of a run or an attempt: 8 bytes, never 0."""
    return int.from_bytes(_digest(id)[16:24]) or 1


def traceparent(run_id: str, attempt_id: str) -> str:
    """Return TRACEPARENT of an attempt: its spans are children of the attempt's span."""
    return f"00-{trace_of(run_id):032x}-{span_of(attempt_id):016x}-01"


def uuid_text(run_id: str) -> str:
    """Return a UUID for a run."""
    digits = _digest(run_id)[:16].hex()
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _digest(id: str) -> bytes:
    return hashlib.sha256(id.encode()).digest()
