"""Failure modes shared by tasks, and the errors of their processes (RTY-1 to RTY-5).

A failure mode has a common external cause: a service that is down for a while, a wrong configuration, too little
memory, a rate limit, data that fails on every worker. Its name is in all of its failures, and in no others.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random

import msgspec

NAMES = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "willow")
MIB = 1024 * 1024


class Kind(StrEnum):
    """The failure class that it causes."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    RESOURCE = "resource"
    """Fails with less memory than it needs."""
    RATE_LIMITED = "rate_limited"
    POISON = "poison"
    """Fails on every worker, with an error that looks transient."""


class FailureMode(msgspec.Struct, frozen=True):
    """A common failure mode of the tasks of a job."""

    kind: Kind
    name: str
    until: float
    """When it is fixed, in simulated seconds."""
    memory_bytes: int = 0
    """Memory that a task needs."""

    def strikes(self, now: float, memory_bytes: int) -> bool:
        """Whether a process that ends now fails for this reason."""
        return now < self.until and (self.kind is not Kind.RESOURCE or memory_bytes < self.memory_bytes)

    def error(self, attempt: str) -> str:
        """The error of the process: the same except for variable parts."""
        type_, words = _SAYINGS[self.kind]
        said = {"class": "transient", "type": type_, "message": f"{self.name} {words}, says {attempt}"}
        return msgspec.json.encode(said).decode()


def draw_failure_mode(random: Random, calm_at: float, memory_bytes: int) -> FailureMode:
    """A failure mode of a job."""
    kind = random.choice((Kind.TRANSIENT, Kind.TRANSIENT, *Kind))
    return FailureMode(
        kind=kind,
        name=random.choice(NAMES),
        until=random.uniform(0.2, 1.0) * calm_at,
        memory_bytes=memory_bytes * random.choice((2, 4, 16)),
    )


def read_failure_mode(error: str | None) -> tuple[Kind, str] | None:
    """Return the failure mode of an error, if it has one."""
    for kind, (_, words) in _SAYINGS.items():
        if error is not None and f" {words}, says " in error:
            return kind, error.partition(f" {words}, says ")[0].rpartition('"')[2]
    return None


_SAYINGS = {
    Kind.TRANSIENT: ("ConnectionError", "is out of reach"),
    Kind.PERMANENT: ("INVALID_CONFIGURATION", "is unknown"),
    Kind.RESOURCE: ("MemoryError", "does not fit"),
    Kind.RATE_LIMITED: ("RATE_LIMIT_EXCEEDED", "is asked too often"),
    Kind.POISON: ("ValueError", "is garbled"),
}
"""Error type and message."""
