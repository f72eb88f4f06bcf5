"""Restart policy of background loops (`background.py` runs them).

    running ──fails──> backoff: 1 s, doubled with each consecutive failure, at most 15 s ──> running
    running for 30 s ──> healthy: the failure count is reset

A loop is failing after 5 consecutive failures, or once they span a minute. A server with a failing loop is not ready;
it is ready again as soon as the loop is healthy.

1. The maximum backoff is shorter than the time after which a loop is healthy: a backoff never hides a failure.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 15.0
HEALTHY_AFTER_SECONDS = 30.0
FAILING_AFTER_FAILURES = 5
FAILING_AFTER_SECONDS = 60.0


class LoopHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Health of a background loop. Times are of the monotonic clock."""

    failures: int = 0
    """Consecutive failures."""
    failing_since: float | None = None
    """Time of the first of them."""
    started_at: float | None = None
    """Time of the last start; None during a backoff."""
    code: str = ""
    """The code of the last error."""

    def started(self, now: float) -> LoopHealth:
        """Record a start."""
        return replace(self, started_at=now)

    def failed(self, code: str, now: float) -> LoopHealth:
        """Record that the loop ended with this error code."""
        before = LoopHealth() if self.is_healthy(now) else self
        since = now if before.failing_since is None else before.failing_since
        return LoopHealth(failures=before.failures + 1, failing_since=since, code=code)

    def is_healthy(self, now: float) -> bool:
        """Return whether the loop never failed, or has run for long enough since."""
        if self.failing_since is None:
            return True
        return self.started_at is not None and now - self.started_at >= HEALTHY_AFTER_SECONDS

    def is_failing(self, now: float) -> bool:
        """Return whether the loop keeps failing."""
        if self.failing_since is None or self.is_healthy(now):
            return False
        is_persistent = self.failures > 1 and now - self.failing_since >= FAILING_AFTER_SECONDS
        return is_persistent or self.failures >= FAILING_AFTER_FAILURES

    def backoff_seconds(self) -> float:
        """Return the delay before the next start."""
        return min(FIRST_BACKOFF_SECONDS * 2.0 ** (min(self.failures, 10) - 1), MAX_BACKOFF_SECONDS)
