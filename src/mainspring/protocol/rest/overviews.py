"""REST types for overviews: graph of a run, trend of a job, deadlines, health of servers."""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.protocol.rest.runs import View


class JobDayView(View, frozen=True, kw_only=True):
    """Runs of a job that ended on one day, in UTC. Times are in seconds, None without runs."""

    day: datetime
    runs: int
    states: dict[str, int]
    retries: int
    duration_p50_seconds: float | None
    duration_p95_seconds: float | None
    late_p50_seconds: float | None
    """From when a run was due to the start of its first task."""
    late_p95_seconds: float | None


class TrendView(View, frozen=True, kw_only=True):
    """Trend of a job over several days (OBS-5)."""

    tenant: str
    job: str
    days: list[JobDayView]
    total: JobDayView
    """All days together; `day` is the first one."""


class EdgeView(View, frozen=True, kw_only=True):
    """A dependency of a node."""

    task: str
    when: str | None = None


class NodeView(View, frozen=True, kw_only=True):
    """A node of a run's graph: one task, or all tasks of a fan-out."""

    name: str
    needs: list[EdgeView]
    tasks: int
    """Number of tasks in the node."""
    states: dict[str, int]
    """Number of tasks per state."""
    when: str | None = None
    """Its own condition: if false, it is skipped."""
    is_fan_out: bool = False
    added_by: str | None = None
    """Task whose output added it."""


class GraphView(View, frozen=True, kw_only=True):
    """Graph of a run, in topological order."""

    run_id: str
    nodes: list[NodeView]


class DeadlineTaskView(View, frozen=True, kw_only=True):
    """A remaining task on the longest path."""

    name: str
    usual_seconds: float | None
    """None: unknown."""
    latest_start_at: datetime
    """Latest start that still meets the deadline."""


class DeadlineView(View, frozen=True, kw_only=True):
    """Deadline of a run, and whether it will be met if tasks take their usual time."""

    run_id: str
    finish_by: datetime
    at: datetime
    """When this was computed."""
    left_seconds: float | None
    """Usual duration of the remaining tasks; None: unknown."""
    slack_seconds: float | None
    """How long the run can wait; below zero: it will be late unless tasks are faster than usual."""
    latest_start_at: datetime | None
    """When the remaining tasks have to start at the latest."""
    unknown: int
    """Number of task names without known durations: the remaining time is a lower bound."""
    at_risk_at: datetime | None
    """When it was first found at risk, and the alert was sent."""
    is_late: bool
    path: list[DeadlineTaskView]
    """Tasks on the longest path, in order."""


class LeaseView(View, frozen=True, kw_only=True):
    """Leader of a pool, and the validity of its lease."""

    pool: str
    leader: str
    """The current or last leader; empty: never had one."""
    seconds: float
    """Remaining validity by the store's clock; below zero: expired for that long."""


class PeerView(View, frozen=True, kw_only=True):
    """A server of this store."""

    name: str
    address: str
    """Hidden from callers restricted to one tenant."""
    version: str
    started_at: datetime
    silent_seconds: float
    """Seconds since its last heartbeat, by the store's clock."""


class OverdueView(View, frozen=True, kw_only=True):
    """A schedule that is due and has not fired."""

    tenant: str
    schedule: str
    seconds: float
    """Overdue for this long."""


class FailingLoopView(View, frozen=True, kw_only=True):
    """A background loop that keeps failing."""

    name: str
    pool: str
    """For a leader's loop; else empty."""
    failures: int
    """Consecutive failures."""
    code: str
    """The code of the last error."""


class ServerHealthView(View, frozen=True, kw_only=True):
    """Health of a server, its store, and the other servers: for `mainspring doctor`."""

    name: str
    version: str
    at: datetime
    """This server's own clock."""
    store_seconds: float | None
    """Response time of the store; None: it does not answer, and the fields below are unknown."""
    store_fault: str = ""
    """Why the store does not answer."""
    failing: list[FailingLoopView] = msgspec.field(default_factory=list)
    """Its failing background loops. Known even if the store does not answer."""
    ahead_seconds: float = 0.0
    """Clock skew: how far this server's clock is ahead of the store's."""
    leases: list[LeaseView] = msgspec.field(default_factory=list)
    """Of all pools, sorted by name."""
    servers: list[PeerView] = msgspec.field(default_factory=list)
    """Servers with a heartbeat within a day, sorted by name."""
    overdue: list[OverdueView] = msgspec.field(default_factory=list)
    """Most overdue first, at most 100. Callers restricted to one tenant see only its schedules."""
