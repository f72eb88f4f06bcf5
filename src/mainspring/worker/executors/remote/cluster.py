"""Interface to clusters that run attempts as remote jobs (WRK-3).

1. A remote job is named after its attempt: submitting it twice finds the first.
2. An adapter raises Refused for permanent errors, and Unavailable for temporary ones. A cluster that does not answer
   fails no task.

`remote_executor.py` runs attempts through it; the adapters are `kubernetes.py` and `ray.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import structlog

from mainspring.core.work.work import OnKubernetes, OnRay
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.ids import entropy
from mainspring.protocol.wire import Offer
from mainspring.worker.executors.attempt_handle import failure

log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 30.0
"""First and longest delay between requests to a cluster that does not answer."""
_LONGER = 1.5

T = TypeVar("T")


def supervisor_id(state_dir: Path) -> str:
    """Return the id that marks this directory's remote jobs, across restarts of the supervisor."""
    path = state_dir / "supervisor.id"
    if not path.exists():
        path.write_text(f"{entropy():016x}")
    return path.read_text()


class Stage(Enum):
    """Stage of a remote job."""

    WAITING = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a remote job."""

    stage: Stage
    note: str = ""
    """What it waits for, as the cluster says it."""
    exit_code: int | None = None
    """Set for a failure with nothing but an exit code."""
    error: str | None = None
    """Set for other failures: an error in the format of `attempt_handle.failure`."""

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended."""
        return self.stage in {Stage.SUCCEEDED, Stage.FAILED}


def job_failed(kind: str, message: str, error_class: str | None) -> JobStatus:
    """Return the status of a job that failed with more than an exit code."""
    return JobStatus(stage=Stage.FAILED, error=failure(kind, message, error_class=error_class))


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt as it is submitted to a cluster."""

    attempt: str
    work: OnKubernetes | OnRay
    argv: tuple[str, ...]
    env: dict[str, str]
    secrets: dict[str, str]
    context: bytes
    """Content of the context file."""
    token: str
    needs: Offer
    timeout_seconds: float


class RemoteJob(Protocol):
    """One attempt as a remote job. Every call raises Unavailable if the cluster does not answer."""

    async def submit(self) -> None:
        """Submit it, unless it was submitted before. Raises Refused if the cluster rejects it."""
        ...

    async def poll(self) -> JobStatus:
        """Return its status."""
        ...

    async def read_log(self, feed: Callable[[bytes], None], *, follow: bool) -> None:
        """Feed output since the last call; with `follow` also the output to come, if the cluster supports it."""
        ...

    async def prolong(self, seconds: float) -> None:
        """Set its time limit, from its submission on."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Terminate it, and have it killed after the grace period. Repeat with a shorter grace to kill it earlier."""
        ...

    async def remove(self) -> None:
        """Remove it from the cluster, running or not."""
        ...


class Cluster(Protocol):
    """A cluster that accepts remote jobs."""

    def new_job(self, submission: Submission) -> RemoteJob:
        """Return an attempt as a job of this cluster, without contacting the cluster. Raises Refused."""
        ...

    async def clear(self) -> None:
        """Remove all jobs of this supervisor. Raises Unavailable until they are gone, Refused if that is not
        allowed."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class Backoff:
    """Exponential backoff."""

    def __init__(self, first_seconds: float, most_seconds: float) -> None:
        self._next, self._most = first_seconds, most_seconds

    def next(self) -> float:
        """Return the next delay."""
        seconds, self._next = self._next, min(self._most, self._next * _LONGER)
        return seconds


async def retry_until_available(ask: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Retry until the cluster answers. Raises Refused."""
    backoff = Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)
    while True:
        try:
            return await ask()
        except Unavailable as error:
            log.info("cluster.not_yet", because=str(error))
            await clock.sleep(backoff.next())
