"""Graceful shutdown of a worker (WRK-9): finish running attempts for a while, stop the rest, exit.

requested ──drain_seconds──► stopping ──grace──► exit          second request: stop at once, with a short grace period

Results that no server has acknowledged by then stay in the spool: the next agent on the same directory delivers them.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from mainspring.worker.agent.instructions import Instruction
from mainspring.worker.agent.state_machine import StateMachine
from mainspring.worker.supervisor.supervisor_wire import EndAttempt

log = structlog.get_logger()

GRACE_SECONDS = 10.0
EXPEDITED_GRACE_SECONDS = 1.0
ANSWER_TIMEOUT_SECONDS = 3.0
"""Time to wait for acknowledgements after the last process has ended."""


class Drain:
    """Shutdown of one worker."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._requests = 0
        self._expedited = False
        self._stop_at = 0.0
        self._exit_at: float | None = None

    def request(self) -> None:
        """Request the shutdown; a second call expedites it."""
        self._requests += 1

    def next(self, state_machine: StateMachine, now: float) -> list[Instruction]:
        """Return the instructions that are due now."""
        if not self._requests:
            return []
        instructions: list[Instruction] = []
        if not state_machine.leaving:
            instructions += state_machine.leave()
            self._stop_at = now + self._seconds
            log.info("worker.leaving", unfinished=len(state_machine.unfinished()), seconds=self._seconds)
        expedite = self._requests > 1 and not self._expedited
        if expedite or (now >= self._stop_at and self._exit_at is None):
            self._expedited = self._expedited or expedite
            grace = EXPEDITED_GRACE_SECONDS if expedite else GRACE_SECONDS
            self._exit_at = now + ANSWER_TIMEOUT_SECONDS + (grace if state_machine.unfinished() else 0.0)
            instructions += [EndAttempt(attempt, grace) for attempt in state_machine.unfinished()]
        return instructions

    def is_done(self, state_machine: StateMachine, is_shipped: Callable[[], bool], now: float) -> bool:
        """Whether the agent may exit: no attempts are left, or the time is up."""
        if not state_machine.leaving:
            return False
        if self._exit_at is not None and now >= self._exit_at:
            return True
        return not state_machine.holds() and is_shipped()
