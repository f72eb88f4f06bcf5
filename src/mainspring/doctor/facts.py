"""What is known of an installation at a moment: what a server said, and what this machine shows.

None, or an entry in `faults`, is what could not be had: a question about it has no answer.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.protocol.rest.diagnosis import DiagnosisView, WaitingSumView
from mainspring.protocol.rest.overviews import CheckupView
from mainspring.protocol.rest.runs import TaskView, WorkerView
from mainspring.protocol.rest.schedules import (
    AlertView,
    BreakerView,
    DeadLetterView,
    DurationView,
    ScheduleView,
    UpcomingView,
)
from mainspring.protocol.rest.sharing import FreezeView, LevelView, QueueView, TenantUseView

REASONS = "reasons"
"""The name of the fault if nobody says what tasks wait for."""
NEVER = frozenset({"NO_MATCHING_WORKER", "TOO_BIG"})
"""Reasons that do not go away by themselves: no worker has what is asked for."""


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, as its leader says."""

    name: str
    queue: QueueView | None = None
    reasons: list[WaitingSumView] = []
    """What tasks wait for, the most frequent first."""
    fault: str = ""
    """Why its leader says nothing."""


class LateJob(msgspec.Struct, frozen=True, kw_only=True):
    """How late the runs of a job were today."""

    tenant: str
    job: str
    runs: int
    p95_seconds: float
    """How late they began, of those that have promised nothing."""
    promised: int = 0
    """How many were to be done by a time,"""
    missed: int = 0
    """and were not."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a tenant: what limits it sets, and how long its tasks usually take."""

    name: str
    limits: dict[str, float] = {}
    """Of each task that sets one, the time after which it is stopped."""
    durations: list[DurationView] = []


class TenantFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant, whose work somebody finds slow."""

    name: str
    uses: list[TenantUseView] = []
    """What it has in each pool."""
    others: list[TenantUseView] = []
    """The other tenants of these pools; empty for whoever sees one tenant only."""
    jobs: list[JobFacts] = []
    """Those of its latest runs."""
    waiting: list[DiagnosisView] = []
    """Of the tasks that have waited longest, a few: what for."""
    running: list[tuple[str, TaskView]] = []
    """Tasks that run, and their jobs."""
    timed_out: list[TaskView] = []
    dead: list[DeadLetterView] = []
    """The latest."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    url: str
    at: datetime
    """By the clock of this machine."""
    version: str
    """Of this program."""
    took_seconds: float = 0.0
    """For the server to answer the first question."""
    checkup: CheckupView | None = None
    faults: dict[str, str] = {}
    """What could not be had, by what was asked for, and why."""
    level: LevelView | None = None
    """The worst."""
    pools: list[PoolFacts] = []
    pools_left_out: int = 0
    """There are too many to ask about all of them."""
    workers: list[WorkerView] = []
    freezes: list[FreezeView] = []
    schedules: list[ScheduleView] = []
    upcoming: list[UpcomingView] = []
    alerts: list[AlertView] = []
    breakers: list[BreakerView] = []
    late: list[LateJob] = []
    tenant: TenantFacts | None = None

    def fault(self, what: str) -> str | None:
        """Why something is not known; None: it is."""
        return self.faults.get(what)


class NearbyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine shows of a server that does not answer."""

    url: str
    at: datetime
    host: str
    port: int
    is_here: bool
    """The address is one of this machine."""
    error: str
    """What became of asking the server."""
    resolves: bool = True
    """The name of the host leads to an address."""
    listens: bool = False
    """Something takes connections on the port."""
    store: str = ""
    """The SQLite file that the server would have; empty: it has another kind of store, or is elsewhere."""
    store_exists: bool = False
    store_fault: str = ""
    """Why no server could use the file; empty: none is known."""
    holder: int | None = None
    """The process that last had the file."""
    holder_state: str = ""
    """`running`, `sleeping`, `stopped`, .. as the system says; empty: it is gone."""
    free_bytes: int | None = None
    """On the disk of the file."""
