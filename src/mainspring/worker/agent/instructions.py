"""What duties ask for, as steps, and the lines of the journal that some of them are."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.protocol.wire import Assignment, FromWorker, Offer, Result

NO_ROOM = Offer(0, 0)


class Mark(StrEnum):
    """What a line of the journal says of an attempt."""

    RECEIVED = "received"
    STARTED = "started"
    SAVED = "saved"
    ENDED = "ended"
    FORGOTTEN = "forgotten"
    ASIDE = "unknown"


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One line of the journal."""

    mark: Mark
    attempt: str
    pid: int = 0
    """Of the process that was started, or 0 if it is not known; with it, when that process was created."""
    created: float = 0.0
    document: str = ""
    """The checkpoint that was saved."""
    result: Result | None = None


class Step(msgspec.Struct, frozen=True, gc=False):
    """The root of what duties ask for."""


class Keep(Step, frozen=True):
    """Write this to the journal, durably, before going on."""

    record: Record


class Say(Step, frozen=True):
    """Send this to the server, if there is a session."""

    message: FromWorker


class Start(Step, frozen=True):
    """Have this attempt run, after those of its lease that were started before. Then call `started`, then `ended`."""

    assignment: Assignment
    lease: str
    needs: Offer = NO_ROOM
    """The room that it has."""


class TakeBack(Step, frozen=True):
    """Ask for those of these that have not begun. Call `unbegun` with them."""

    attempts: tuple[str, ...]


class Prolong(Step, frozen=True):
    """Let this attempt know how long it may run from now on."""

    attempt: str
    seconds: float
    because: str
    """Why it is no longer than before."""


class LookFor(Step, frozen=True):
    """Find out whether there is such a file, and answer the question with `Seen`."""

    question: str
    path: str


class Kill(Step, frozen=True):
    """End this attempt: ask it, wait so long, then kill it. Then call `ended`."""

    attempt: str
    grace_seconds: float
