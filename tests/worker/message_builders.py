"""Builders of messages, and filters for lists of instructions."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.protocol.wire import Assign, Assignment, Credit, FromWorker, Offer, Register, Welcome
from mainspring.worker.agent.instructions import Instruction, Mark, Persist, Record, Send
from mainspring.worker.agent.state_machine import StateMachine
from mainspring.worker.supervisor.supervisor_wire import EndAttempt, LaunchRequest, WithdrawAttempts

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


def connected(credit: int = 100, state_machine: StateMachine | None = None, session: str = "s1") -> StateMachine:
    """A state machine with an open session."""
    state_machine = state_machine or StateMachine()
    state_machine.register(hello(session))
    state_machine.take(Welcome(session))
    if credit:
        state_machine.take(Credit(credit))
    return state_machine


def said(instructions: Sequence[Instruction]) -> list[FromWorker]:
    """Return the messages to send."""
    return [instruction.message for instruction in instructions if isinstance(instruction, Send)]


def started(instructions: Sequence[Instruction]) -> list[str]:
    """Return the attempts to start."""
    return [instruction.assignment.attempt for instruction in instructions if isinstance(instruction, LaunchRequest)]


def taken_back(instructions: Sequence[Instruction]) -> list[str]:
    """Return the attempts to withdraw."""
    return [
        attempt
        for instruction in instructions
        if isinstance(instruction, WithdrawAttempts)
        for attempt in instruction.attempts
    ]


def killed(instructions: Sequence[Instruction]) -> list[str]:
    """Return the attempts to stop."""
    return [instruction.attempt for instruction in instructions if isinstance(instruction, EndAttempt)]


def kept(instructions: Sequence[Instruction]) -> list[Record]:
    """Return the spool records."""
    return [instruction.record for instruction in instructions if isinstance(instruction, Persist)]


def marks(instructions: Sequence[Instruction]) -> list[tuple[Mark, str]]:
    """Return the spool records as mark and attempt."""
    return [(record.mark, record.attempt) for record in kept(instructions)]
