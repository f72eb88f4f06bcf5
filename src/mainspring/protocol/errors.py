"""Errors, grouped by what the caller should do next.

Every error belongs to one of four families:

    Refused      invalid request                           fix it; not retryable
    Conflict     the state changed in the meantime         fetch the latest state, then decide again
    Unavailable  the request is fine                       retry later, with backoff
    Broken       an invariant is violated                  stop; needs investigation

Every class has a stable public `code`. When you add one, list it in docs/reference/errors.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

UNKNOWN_JOB = "unknown_job"
"""Code of the fault of a request that names a job that does not exist."""


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a request."""

    where: str
    """A path into the request, such as `tasks[3].needs[0]`."""
    why: str
    code: str = ""
    """A stable code, for faults that clients act on; otherwise empty."""


def faults_at(where: str, why: str | None) -> Sequence[Fault]:
    """Return the fault of a field, if there is one."""
    return () if why is None else (Fault(where, why),)


class MainspringError(Exception):
    """Base class of all errors that Mainspring raises on purpose."""

    code: ClassVar[str] = "error"
    reason: str = ""
    """Machine-readable reason, where programs or tests distinguish several within one class."""
    hint: str = ""
    """What the caller can do about it, if there is more to say than for the family."""
    problem: msgspec.Struct | None = None
    """The server's response (`rest.Problem`), if a client got the error from a server."""


class Refused(MainspringError):
    """Invalid request (not retryable). Lists every fault, not just the first."""

    code = "refused"

    def __init__(self, summary: str, faults: Sequence[Fault] = (), *, reason: str = "") -> None:
        lines = [summary, *(f"  {fault.where}: {fault.why}" for fault in faults)]
        super().__init__("\n".join(lines))
        self._summary = summary
        self.faults = tuple(faults)
        self.reason = reason


def summary_of(error: MainspringError) -> str:
    """Return what happened, without the faults."""
    return error._summary if isinstance(error, Refused) else str(error)


def refusal(subject: str, faults: Sequence[Fault], total: int | None = None) -> Refused:
    """Return the refusal of a subject, such as `the job has`, with the number of its faults."""
    total = len(faults) if total is None else total
    return Refused(f"{subject} {total} fault{'s' if total > 1 else ''}", faults)


class Rejected(Refused):
    """The store rejects the content of a batch (NUL in a text is enough for PostgreSQL). Nothing was written."""

    code = "rejected"


class StoreInUse(Refused):
    """Another process has this SQLite file open. Only one process at a time may."""

    code = "store_in_use"


class StoreUnusable(Refused):
    """The store is unusable: a newer schema, a network file system, a missing privilege."""

    code = "store_unusable"


class NotFound(Refused):
    """The object does not exist, or is not visible to the caller: the two answers are the same."""

    code = "not_found"


class Unauthenticated(Refused):
    """The request has no credentials, or its token is unknown, expired or revoked."""

    code = "unauthenticated"


class Forbidden(Refused):
    """The caller lacks the permission."""

    code = "forbidden"


class TooLarge(Refused):
    """The request exceeds a size limit."""

    code = "too_large"


class InvalidFile(Refused):
    """A file of the user is invalid: the message quotes the lines."""

    code = "invalid_file"


class Conflict(MainspringError):
    """The state changed in the meantime: fetch the latest state, then decide again."""

    code = "conflict"


class SchedulerLockError(Conflict):
    """Another scheduler uses this folder. The message names it, and since when."""

    code = "scheduler_locked"


class Fenced(Conflict):
    """The term has ended: another server leads the shard, or the store went back in time. Nothing was written."""

    code = "fenced"


class KeyReused(Conflict):
    """The idempotency key was used before with a different body."""

    code = "key_reused"


class ClaimExpired(Conflict):
    """The claim was not started in time, or was recalled: the task is offered again under another id."""

    code = "claim_expired"


class AttemptOver(Conflict):
    """The attempt has ended, or was given up: abandon it. The report had no effect."""

    code = "attempt_over"


class WrongWorker(Conflict):
    """The attempt belongs to another worker."""

    code = "wrong_worker"


class VersionMismatch(Conflict):
    """Version mismatch: the object was changed since the caller fetched it."""

    code = "outdated"


class JobMissing(Conflict):
    """A run's job is missing in the store: submit the job again. No run was created."""

    code = "job_missing"

    def __init__(self, summary: str, jobs: Sequence[str] = ()) -> None:
        super().__init__(summary)
        self.jobs = tuple(jobs)
        """Ids of the missing jobs."""

    @classmethod
    def of(cls, jobs: Sequence[str]) -> JobMissing:
        """Return the error for these missing jobs."""
        return cls(f"unknown job {', '.join(jobs[:3])}{', ..' if len(jobs) > 3 else ''}: submit it again", jobs)


class Unavailable(MainspringError):
    """The request is fine: retry later, with backoff."""

    code = "unavailable"

    def __init__(self, *words: object, retry_after_seconds: float | None = None, reason: str = "") -> None:
        super().__init__(*words)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        """Suggested delay before a retry, if known."""


class Overloaded(Unavailable):
    """Too many runs wait. The request was not accepted."""

    code = "overloaded"


class Closed(Unavailable):
    """The pool accepts no new work: it has no leader, or the store is unreachable (HA-5)."""

    code = "closed"


class NotLeading(Unavailable):
    """No leader of this shard is available."""

    code = "not_leading"


class NotReady(Unavailable):
    """A background loop of this server keeps failing. The message names the loop and the code of its last error."""

    code = "not_ready"


class Unreachable(Unavailable):
    """The server is unreachable: it is not running, or the address is wrong."""

    code = "unreachable"


class Broken(MainspringError):
    """An invariant is violated: stop; needs investigation."""

    code = "broken"


class IllegalTransition(Broken):
    """The transition table does not have the requested transition."""

    code = "illegal_transition"


class StoreDamaged(Broken):
    """The store's file is not a database, or is incomplete. The message names it."""

    code = "store_damaged"


class StaleWrite(Broken):
    """A compare-and-swap found another state than the shard's memory: it must be reloaded."""

    code = "stale_write"


class TaskError(MainspringError):
    """Raised by a task to set the class of its failure (RTY-1)."""

    code = "task_error"
    FAILURES: ClassVar[tuple[str, ...]] = ("transient", "permanent", "resource", "timeout", "rate_limited")

    def __init__(self, message: str, *, failure: str = "permanent", retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        if failure not in self.FAILURES:
            raise ValueError(f"failure must be one of {', '.join(self.FAILURES)}, not {failure!r}")
        self.failure = failure
        self.retry_after_seconds = retry_after_seconds
        """Minimum delay before a retry, if given by a service."""


class ExpressionFailed(MainspringError):
    """A condition or template could not be evaluated: it is invalid, or too expensive. Fails only that task."""

    code = "expression_failed"
