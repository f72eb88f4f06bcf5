"""CPU budget of read-only introspection (why, what-if, status) on the leaders of one process.

Introspection of a large pool takes up to some tenths of a second, during which no leader of the process decides
anything. The time taken is a debt, paid off with SHARE of each second that passes. While the debt exceeds
MAX_DEBT_SECONDS, requests are rejected with Overloaded. So leaders make progress however many requests arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Overloaded

SHARE = 0.2
MAX_DEBT_SECONDS = 1.0


class IntrospectionBudget:
    """The introspection debt of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._debt = 0.0
        self._at = clock.monotonic()

    @contextmanager
    def charge(self) -> Iterator[None]:
        """Charge the time of the block, which runs on the event loop. Raises Overloaded."""
        began = self._clock.monotonic()
        self._debt = max(0.0, self._debt - SHARE * (began - self._at))
        self._at = began
        if self._debt > MAX_DEBT_SECONDS:
            wait = (self._debt - MAX_DEBT_SECONDS) / SHARE
            raise Overloaded("too many status and diagnosis requests", retry_after_seconds=wait)
        try:
            yield
        finally:
            self._debt += self._clock.monotonic() - began
