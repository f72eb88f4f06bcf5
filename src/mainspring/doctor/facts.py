"""Facts about an installation at one moment: the answers of a server, and probes of this machine.

None, or an entry in `faults`, marks a fact that could not be read: its checks are `unknown`.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.text.durations import format_seconds
from mainspring.protocol.rest.diagnosis import DiagnosisView, WaitingSumView
from mainspring.protocol.rest.overviews import ServerHealthView
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
"""Key of the fault if the reasons of queued tasks can't be read."""
NEVER_STARTS = frozenset({"NO_MATCHING_WORKER", "TOO_BIG"})
"""Reasons that need a person: no worker can run the task."""


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, as reported by its leader."""

    name: str
    queue: QueueView | None = None
    reasons: list[WaitingSumView] = []
    """Reasons of queued tasks, most frequent first."""
    fault: str = ""
    """Why its leader does not answer."""

    @property
    def option(self) -> str:
        """The option of commands that names it, with a space before; empty for the default pool."""
        return "" if self.name == "default" else f" --pool {self.name}"


class LateJob(msgspec.Struct, frozen=True, kw_only=True):
    """Start delays of a job's runs within the last day."""

    tenant: str
    job: str
    runs: int
    p95_seconds: float
    """Start delay of the runs without a deadline."""
    promised: int = 0
    """Runs with a deadline."""
    missed: int = 0
    """Runs that missed their deadline."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a tenant: timeouts and usual durations of its tasks."""

    name: str
    limits: dict[str, float] = {}
    """Timeout in seconds, by task."""
    durations: list[DurationView] = []


class TenantFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant to check."""

    name: str
    uses: list[TenantUseView] = []
    """Its usage in each pool."""
    others: list[TenantUseView] = []
    """Usage of the other tenants in these pools; empty if the client sees one tenant only."""
    jobs: list[JobFacts] = []
    """The jobs of its latest runs."""
    waiting: list[DiagnosisView] = []
    """Diagnoses of the tasks that have waited longest."""
    running: list[tuple[str, TaskView]] = []
    """Running tasks with the names of their jobs."""
    timed_out: list[TaskView] = []
    dead: list[DeadLetterView] = []
    """The latest dead letters."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts from a server."""

    url: str
    at: datetime
    """Time by this machine's clock."""
    version: str
    """Version of this program."""
    took_seconds: float = 0.0
    """Duration of the first request."""
    server_health: ServerHealthView | None = None
    faults: dict[str, str] = {}
    """Why a fact could not be read, by its name."""
    level: LevelView | None = None
    """The worst degradation level of all pools."""
    pools: list[PoolFacts] = []
    pools_skipped: int = 0
    """Pools beyond the limit of pools to check."""
    workers: list[WorkerView] = []
    freezes: list[FreezeView] = []
    schedules: list[ScheduleView] = []
    upcoming: list[UpcomingView] = []
    alerts: list[AlertView] = []
    breakers: list[BreakerView] = []
    late: list[LateJob] = []
    tenant: TenantFacts | None = None

    def age(self, at: datetime) -> str:
        """Format the time since `at`."""
        return format_seconds((self.at - at).total_seconds())


class LocalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about this machine if its server does not answer."""

    url: str
    at: datetime
    host: str
    port: int
    is_here: bool
    """Whether the server's address is one of this machine."""
    error: str
    """The error of the request to the server."""
    resolves: bool = True
    """Whether the host name resolves."""
    listens: bool = False
    """Whether the port accepts connections."""
    store: str = ""
    """The SQLite file of the server; empty if it uses another store or runs elsewhere."""
    store_exists: bool = False
    store_fault: str = ""
    """Why no server could use the file; empty if no fault is known."""
    holder: int | None = None
    """PID of the process that last used the file."""
    holder_state: str = ""
    """`running`, `sleeping`, `stopped`, .. as reported by the system; empty if it has exited."""
    free_bytes: int | None = None
    """Free space on the disk of the file."""
