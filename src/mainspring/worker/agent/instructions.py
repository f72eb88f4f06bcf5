"""Instructions of the state machine, and the spool records that some of them write.

Persist             write a record to the spool
Send                send a message to the server
LaunchRequest       run the attempt after the earlier ones of its lease; then call `started`, then `ended`
WithdrawAttempts    withdraw those that have not started; then call `withdrawn` with them
EndAttempt          SIGTERM, grace period, SIGKILL; then call `ended`
Extended            tell the attempt how long it may run from now on
ProbeFile           check whether the file exists, and reply with `FileProbed`
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.protocol.wire import Extended, FromWorker, ProbeFile, Result
from mainspring.worker.supervisor.supervisor_wire import EndAttempt, LaunchRequest, WithdrawAttempts


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


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Write this record to the spool, durably, before executing later instructions."""

    record: Record


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send this to the server, if there is a session."""

    message: FromWorker


Instruction = Persist | Send | LaunchRequest | WithdrawAttempts | EndAttempt | Extended | ProbeFile
