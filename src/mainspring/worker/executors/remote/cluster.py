"""Clusters, where attempts run as jobs beyond this machine: what a worker asks of one (WRK-3).

1. A job of a cluster is named by its attempt: submitting it twice finds the first.
2. An adapter raises Refused for what stays wrong, and Unavailable for what is worth another try. A cluster that does
   not answer is no failure of a task.

`remote_executor.py` runs attempts by this; the adapters are `kubernetes.py` and `ray.py`.
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

log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS, SELDOM_RETRY_SECONDS = 0.5, 30.0
"""A cluster that does not answer is asked again after the one, later after the other."""
_LONGER = 1.5

T = TypeVar("T")


def guard_id(state_dir: Path) -> str:
    """What the jobs of this directory's guard have in common, also when it is another process."""
    path = state_dir / "guard.id"
    if not path.exists():
        path.write_text(f"{entropy():016x}")
    return path.read_text()


class Stage(Enum):
    """Where a job of a cluster is."""

    WAITING = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a job of a cluster stands."""

    stage: Stage
    note: str = ""
    """What it waits for, in the cluster's words."""
    exit_code: int | None = None
    """For one that failed and whose process says nothing else."""
    error: str | None = None
    """For one that failed otherwise: an error as `executors.failure` makes it."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.stage in {Stage.SUCCEEDED, Stage.FAILED}


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt as it is given to a cluster."""

    attempt: str
    work: OnKubernetes | OnRay
    words: tuple[str, ...]
    env: dict[str, str]
    secrets: dict[str, str]
    context: bytes
    """What a command finds in its context file."""
    token: str
    needs: Offer
    timeout_seconds: float


class RemoteJob(Protocol):
    """One attempt, as a job of a cluster. Every call raises Unavailable if the cluster does not answer."""

    async def submit(self) -> None:
        """Have it run; nothing new if it was submitted before. Raises Refused if the cluster will not have it."""
        ...

    async def look(self) -> Standing:
        """How it stands."""
        ...

    async def read_log(self, feed: Callable[[bytes], None], *, follow: bool) -> None:
        """Give what it printed since the last time; with `follow` also what it prints from now on, as far as that is
        offered."""
        ...

    async def prolong(self, seconds: float) -> None:
        """Let it run for so long, from its submission on."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Ask it to end, and have it killed after so long. Repeated with less grace it is killed earlier."""
        ...

    async def remove(self) -> None:
        """Remove all that is left of it on the cluster, running or not."""
        ...


class Cluster(Protocol):
    """Where jobs are submitted."""

    def new_job(self, submission: Submission) -> RemoteJob:
        """An attempt as a job of this cluster; nothing is said to it yet. Raises Refused."""
        ...

    async def clear(self) -> None:
        """Remove all jobs of this guard. Raises Unavailable until they are gone, Refused if that is not allowed."""
        ...

    async def close(self) -> None:
        """Nothing more will come."""
        ...


class Pace:
    """How long to wait: longer each time."""

    def __init__(self, first_seconds: float, most_seconds: float) -> None:
        self._next, self._most = first_seconds, most_seconds

    def next(self) -> float:
        """Before the next try."""
        seconds, self._next = self._next, min(self._most, self._next * _LONGER)
        return seconds


async def until_it_answers(ask: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Ask a cluster, and again until it answers. Raises Refused."""
    pace = Pace(FIRST_RETRY_SECONDS, SELDOM_RETRY_SECONDS)
    while True:
        try:
            return await ask()
        except Unavailable as error:
            log.info("cluster.not_yet", because=str(error))
            await clock.sleep(pace.next())
