"""Instructions of the state machine, and the spool records that some of them write."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.protocol.wire import Assignment, FromWorker, Offer, Result

NO_RESOURCES = Offer(0, 0)


class Mark(StrEnum):
    """What a spool record says about an attempt."""

    RECEIVED = "received"
    STARTED = "started"
    SAVED = "saved"
    ENDED = "ended"
    FORGOTTEN = "forgotten"
    UNKNOWN = "unknown"


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One spool record."""

    mark: Mark
    attempt: str
    pid: int = 0
    """Process id, or 0 if unknown; `created` is when that process was started."""
    created: float = 0.0
    document: str = ""
    """The saved checkpoint."""
    result: Result | None = None


class Instruction(msgspec.Struct, frozen=True, gc=False):
    """Base class of instructions."""


class Persist(Instruction, frozen=True):
    """Write this record to the spool, durably, before executing later instructions."""

    record: Record


class Send(Instruction, frozen=True):
    """Send this to the server, if there is a session."""

    message: FromWorker


class Start(Instruction, frozen=True):
    """Run this attempt after the earlier ones of its lease. Then call `started`, then `ended`."""

    assignment: Assignment
    lease: str
    needs: Offer = NO_RESOURCES
    """The reserved resources."""


class Withdraw(Instruction, frozen=True):
    """Withdraw those of these attempts that have not started. Then call `withdrawn` with them."""

    attempts: tuple[str, ...]


class Prolong(Instruction, frozen=True):
    """Tell the attempt how long it may run from now on."""

    attempt: str
    seconds: float
    because: str
    """Why the limit was not raised."""


class RunFileProbe(Instruction, frozen=True):
    """Check whether the file exists, and reply with `FileProbed`."""

    question: str
    path: str


class StopAttempt(Instruction, frozen=True):
    """End this attempt: SIGTERM, grace period, SIGKILL. Then call `ended`."""

    attempt: str
    grace_seconds: float
