"""What can go wrong, sorted by what the caller does next.

Four families, and nothing is raised that belongs to none of them:

    Refused      the request is wrong and stays wrong      fix it, don't repeat it
    Conflict     the world moved since you looked          look again, then decide again
    Unavailable  nothing is wrong with the request         repeat it later, with backoff
    Broken       an invariant does not hold                stop, a person must look

Every class has a stable public `code`. When you add one, list it in docs/reference/errors.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

UNKNOWN_JOB = "unknown_job"
"""Code of the fault of a request that names a job that does not exist."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a request: where, and why."""

    where: str
    """A path into the request, such as `tasks[3].needs[0]`."""
    why: str
    code: str = ""
    """A stable code, for faults that clients act on; otherwise empty."""


class MainspringError(Exception):
    """The root of all errors that Mainspring raises on purpose."""

    code: ClassVar[str] = "error"
    reason: str = ""
    """What went wrong, as a code, where one class has several reasons that programs or tests tell apart."""
    hint: str = ""
    """What the caller can do about it, where there is more to say than the family does."""
    problem: msgspec.Struct | None = None
    """The server's own words (`rest.Problem`), if a client got the error as an answer."""


class Refused(MainspringError):
    """The request is wrong and stays wrong: fix it, don't repeat it. Names every fault, not just the first."""

    code = "refused"

    def __init__(self, summary: str, faults: Sequence[Fault] = (), *, reason: str = "") -> None:
        lines = [summary, *(f"  {fault.where}: {fault.why}" for fault in faults)]
        super().__init__("\n".join(lines))
        self.faults = tuple(faults)
        self.reason = reason


class Rejected(Refused):
    """The store refuses the content of a batch (a NUL in a text is enough for PostgreSQL). Nothing was written."""

    code = "rejected"


class StoreInUse(Refused):
    """Another process has this SQLite file open. One process at a time may."""

    code = "store_in_use"


class StoreUnfit(Refused):
    """The store can't be used as it is: a schema from the future, a network file system, a missing privilege."""

    code = "store_unfit"


class NotFound(Refused):
    """There is no such thing, or it is not yours to see: the two answers are the same."""

    code = "not_found"


class Unauthenticated(Refused):
    """The request does not say who asks, or the token it brings is unknown, expired or revoked."""

    code = "unauthenticated"


class Forbidden(Refused):
    """Whoever asks may not do this."""

    code = "forbidden"


class TooLarge(Refused):
    """The request is larger than is allowed."""

    code = "too_large"


class InvalidFile(Refused):
    """A file of the user's can't be read as what it should be: the message quotes the lines."""

    code = "invalid_file"


class Conflict(MainspringError):
    """The world moved since you looked: look again, then decide again."""

    code = "conflict"


class SchedulerLockError(Conflict):
    """Another scheduler has this folder. The message says who, and since when."""

    code = "scheduler_locked"


class Fenced(Conflict):
    """This term is over: somebody else leads the shard, or the store went back in time. Nothing was written."""

    code = "fenced"


class KeyReused(Conflict):
    """The idempotency key was used before, for another body."""

    code = "key_reused"


class ClaimExpired(Conflict):
    """What was claimed was not started in time, or was called back: it comes again under another id, to anybody."""

    code = "claim_expired"


class AttemptOver(Conflict):
    """The attempt has ended, or was given up: stop what you do for it. What you said of it changed nothing."""

    code = "attempt_over"


class NotYours(Conflict):
    """The attempt is another worker's."""

    code = "not_yours"


class Outdated(Conflict):
    """Something was changed since the caller looked: the version that they name is not the one that it has."""

    code = "outdated"


class JobMissing(Conflict):
    """The store does not have a run's job, or has lost it: submit the job again. No run was made."""

    code = "job_missing"

    def __init__(self, summary: str, jobs: Sequence[str] = ()) -> None:
        super().__init__(summary)
        self.jobs = tuple(jobs)
        """The ids of all that are missing."""

    @classmethod
    def of(cls, jobs: Sequence[str]) -> JobMissing:
        """These are missing."""
        return cls(f"there is no job {', '.join(jobs[:3])}{', ..' if len(jobs) > 3 else ''}: submit it again", jobs)


class Unavailable(MainspringError):
    """Nothing is wrong with the request: repeat it later, with backoff."""

    code = "unavailable"

    def __init__(self, *words: object, retry_after_seconds: float | None = None, reason: str = "") -> None:
        super().__init__(*words)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        """When it is worth trying again, if that is known."""


class Overloaded(Unavailable):
    """More is waiting than may wait. The request was not taken."""

    code = "overloaded"


class Closed(Unavailable):
    """The pool takes nothing new at the moment: nobody leads it, or the store can't be reached (HA-5)."""

    code = "closed"


class NotLeading(Unavailable):
    """No leader of this shard is here at the moment."""

    code = "not_leading"


class NotReady(Unavailable):
    """A background loop of this server keeps failing. The message names the loop and the code of its last error."""

    code = "not_ready"


class Unreachable(Unavailable):
    """The server could not be reached: it may not run, or the address is wrong."""

    code = "unreachable"


class Broken(MainspringError):
    """An invariant does not hold: stop, a person must look."""

    code = "broken"


class IllegalTransition(Broken):
    """Somebody asked for a change of state that the table of transitions does not have."""

    code = "illegal_transition"


class StoreDamaged(Broken):
    """The file of a store is no database, or not a whole one. The message names it."""

    code = "store_damaged"


class StaleWrite(Broken):
    """A compare-and-swap found another state than the shard's memory has: the memory must be loaded again."""

    code = "stale_write"


class TaskError(MainspringError):
    """Raised by a task that knows what kind of failure this is, and so what helps (RTY-1)."""

    code = "task_error"
    FAILURES: ClassVar[tuple[str, ...]] = ("transient", "permanent", "resource", "timeout", "rate_limited")

    def __init__(self, message: str, *, failure: str = "permanent", retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        if failure not in self.FAILURES:
            raise ValueError(f"a failure is one of {', '.join(self.FAILURES)}, not {failure!r}")
        self.failure = failure
        self.retry_after_seconds = retry_after_seconds
        """Not before that it is worth another try, if the other side said so."""


class ExpressionFailed(MainspringError):
    """A condition or template could not be evaluated: the text is wrong, or it cost too much. Fails the one task."""

    code = "expression_failed"
