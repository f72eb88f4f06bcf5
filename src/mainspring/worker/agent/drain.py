"""Graceful shutdown of a worker (WRK-9): finish running attempts for a while, stop the rest, exit.

requested ──drain_seconds──► stopping ──grace──► exit          second request: stop at once, with a short grace period

Results that no server has acknowledged by then stay in the spool: the next agent on the same directory delivers them.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from mainspring.worker.agent.instructions import Kill, Step
from mainspring.worker.agent.state_machine import Duties

log = structlog.get_logger()

GRACE_SECONDS = 10.0
HURRIED_GRACE_SECONDS = 1.0
ANSWER_SECONDS = 3.0
"""Time to wait for acknowledgements after the last process has ended."""


class Drain:
    """Shutdown of one worker."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked = 0
        self._hurried = False
        self._stop_at = 0.0
        self._gone_at: float | None = None

    def ask(self) -> None:
        """Request the shutdown; a second call expedites it."""
        self._asked += 1

    def next(self, duties: Duties, now: float) -> list[Step]:
        """Return the instructions that are due now."""
        if not self._asked:
            return []
        steps: list[Step] = []
        if not duties.leaving:
            steps += duties.leave()
            self._stop_at = now + self._seconds
            log.info("worker.leaving", unfinished=len(duties.unfinished()), seconds=self._seconds)
        hurry = self._asked > 1 and not self._hurried
        if hurry or (now >= self._stop_at and self._gone_at is None):
            self._hurried = self._hurried or hurry
            grace = HURRIED_GRACE_SECONDS if hurry else GRACE_SECONDS
            self._gone_at = now + ANSWER_SECONDS + (grace if duties.unfinished() else 0.0)
            steps += [Kill(attempt, grace) for attempt in duties.unfinished()]
        return steps

    def is_through(self, duties: Duties, is_shipped: Callable[[], bool], now: float) -> bool:
        """Whether the agent may exit: no attempts are left, or the time is up."""
        if not duties.leaving:
            return False
        if self._gone_at is not None and now >= self._gone_at:
            return True
        return not duties.holds() and is_shipped()
