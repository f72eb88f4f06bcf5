"""The ids that runs and attempts have in traces, made from their own: whoever knows those knows these.

So a worker can tell a task its place in the trace (`TRACEPARENT`, W3C Trace Context) without asking anybody, and any
server can tell of a run that another one began.
"""

from __future__ import annotations

import hashlib


def trace_of(run_id: str) -> int:
    """The trace of a run: 16 bytes, never 0."""
    return int.from_bytes(_digest(run_id)[:16]) or 1


def span_of(id: str) -> int:
    """The span of a run or an attempt: 8 bytes, never 0."""
    return int.from_bytes(_digest(id)[16:24]) or 1


def traceparent(run_id: str, attempt_id: str) -> str:
    """What an attempt finds in TRACEPARENT: its spans are children of the attempt's."""
    return f"00-{trace_of(run_id):032x}-{span_of(attempt_id):016x}-01"


def uuid_text(run_id: str) -> str:
    """A run's id where only a UUID will do."""
    digits = _digest(run_id)[:16].hex()
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _digest(id: str) -> bytes:
    return hashlib.sha256(id.encode()).digest()
