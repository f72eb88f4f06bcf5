"""Builders of messages, and filters for lists of instructions."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.protocol.wire import Assign, Assignment, Credit, FromWorker, Offer, Register, Welcome
from mainspring.worker.agent.instructions import Keep, Kill, Mark, Record, Say, Start, Step, TakeBack
from mainspring.worker.agent.state_machine import Duties

OFFER = Offer(4000, 1 << 30)


def assignment(attempt: str) -> Assignment:
    """An assignment."""
    return Assignment(attempt, f"task_{attempt}", "run_1", "acme", attempt, 1, "{}", "{}", {})


def assign(lease: str, *attempts: str) -> Assign:
    """A group of attempts that share a lease."""
    return Assign(lease, tuple(assignment(attempt) for attempt in attempts))


def hello(session: str) -> Register:
    """A registration."""
    return Register("w1", session, OFFER, {})


def connected(credit: int = 100, duties: Duties | None = None, session: str = "s1") -> Duties:
    """A state machine with an open session."""
    duties = duties or Duties()
    duties.register(hello(session))
    duties.take(Welcome(session))
    if credit:
        duties.take(Credit(credit))
    return duties


def said(steps: Sequence[Step]) -> list[FromWorker]:
    """Return the messages to send."""
    return [step.message for step in steps if isinstance(step, Say)]


def started(steps: Sequence[Step]) -> list[str]:
    """Return the attempts to start."""
    return [step.assignment.attempt for step in steps if isinstance(step, Start)]


def taken_back(steps: Sequence[Step]) -> list[str]:
    """Return the attempts to withdraw."""
    return [attempt for step in steps if isinstance(step, TakeBack) for attempt in step.attempts]


def killed(steps: Sequence[Step]) -> list[str]:
    """Return the attempts to stop."""
    return [step.attempt for step in steps if isinstance(step, Kill)]


def kept(steps: Sequence[Step]) -> list[Record]:
    """Return the spool records."""
    return [step.record for step in steps if isinstance(step, Keep)]


def marks(steps: Sequence[Step]) -> list[tuple[Mark, str]]:
    """Return the spool records as mark and attempt."""
    return [(record.mark, record.attempt) for record in kept(steps)]
