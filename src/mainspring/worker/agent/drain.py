"""How a worker leaves (WRK-9): finish what runs, for a while; then stop it; then go.

    asked ──drain_seconds──► stopping ──grace──► gone          asked again: stopping at once, with little grace

Results that no server has taken by then stay in the journal: the next agent on the same directory delivers them.
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
"""How long answers are waited for after the last process is gone."""


class Drain:
    """The end of one worker."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked = 0
        self._hurried = False
        self._stop_at = 0.0
        self._gone_at: float | None = None

    def ask(self) -> None:
        """Somebody wants the worker to leave; or, the second time, to hurry."""
        self._asked += 1

    def next(self, duties: Duties, now: float) -> list[Step]:
        """What is to be done about it now."""
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
        """May the agent end? Yes if nothing is in its hands, or nothing more can be waited for."""
        if not duties.leaving:
            return False
        if self._gone_at is not None and now >= self._gone_at:
            return True
        return not duties.holds() and is_shipped()
