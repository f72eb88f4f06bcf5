"""What the HTTP API answers that sums up more than one thing: a run's graph, a job over some days, how servers are."""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.protocol.rest.runs import View


class JobDayView(View, frozen=True, kw_only=True):
    """What became of the runs of a job that ended on one day, in UTC. Times are seconds, None if there were none."""

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
    """A job over some days (OBS-5)."""

    tenant: str
    job: str
    days: list[JobDayView]
    total: JobDayView
    """All of them together; `day` is the first one."""


class EdgeView(View, frozen=True, kw_only=True):
    """What a node waits for."""

    task: str
    when: str | None = None


class NodeView(View, frozen=True, kw_only=True):
    """A node of a run's graph: one task, or all tasks of a fan-out."""

    name: str
    needs: list[EdgeView]
    tasks: int
    """How many tasks it stands for."""
    states: dict[str, int]
    """How many of them are in which state."""
    when: str | None = None
    """Its own condition: if that is false, it is skipped."""
    is_fan_out: bool = False
    grown_by: str | None = None
    """The task whose output added it."""


class GraphView(View, frozen=True, kw_only=True):
    """The graph of a run, in an order in which every node comes after what it needs."""

    run_id: str
    nodes: list[NodeView]


class DeadlineTaskView(View, frozen=True, kw_only=True):
    """A task that is not over, on the path that takes longest."""

    name: str
    usual_seconds: float | None
    """None: nobody knows."""
    latest_start_at: datetime
    """When it has to start, or to have started, for the run to be over in time."""


class DeadlineView(View, frozen=True, kw_only=True):
    """By when a run is to be over, and whether it will be, as long as its tasks usually take."""

    run_id: str
    finish_by: datetime
    at: datetime
    """When this was found out."""
    left_seconds: float | None
    """What is not over usually takes so long; None: nothing is known of it."""
    slack_seconds: float | None
    """How long it can wait; below zero: it will be late if nothing goes faster than usual."""
    latest_start_at: datetime | None
    """When what is not over has to go on at the latest."""
    unknown: int
    """Of so many names of open tasks nothing is known: it takes at least so long then."""
    at_risk_at: datetime | None
    """When it was found at risk, and whoever has to know was told."""
    is_late: bool
    path: list[DeadlineTaskView]
    """The tasks that take longest, one after another."""


class LeaseView(View, frozen=True, kw_only=True):
    """Who leads a pool, and for how long that is sure."""

    pool: str
    leader: str
    """The server that leads it, or did last; empty: none ever has."""
    seconds: float
    """How long the lease still holds, by the store's clock; below zero: it has been over for so long."""


class PeerView(View, frozen=True, kw_only=True):
    """A server of this store."""

    name: str
    address: str
    """Empty for whoever belongs to one tenant."""
    version: str
    started_at: datetime
    silent_seconds: float
    """How long ago it last said that it is there, by the store's clock."""


class OverdueView(View, frozen=True, kw_only=True):
    """A schedule that is due and was not fired."""

    tenant: str
    schedule: str
    seconds: float
    """For so long."""


class FailingLoopView(View, frozen=True, kw_only=True):
    """A background loop of a server that keeps failing."""

    name: str
    pool: str
    """Of a leader's loop; else empty."""
    failures: int
    """In a row."""
    code: str
    """The code of the last error."""


class CheckupView(View, frozen=True, kw_only=True):
    """How a server is, its store, and those that share the store: for `mainspring doctor`."""

    name: str
    version: str
    at: datetime
    """This server's own clock."""
    store_seconds: float | None
    """How long the store took to say what time it is; None: it does not answer, and nothing below is known."""
    store_fault: str = ""
    """Why it does not."""
    failing: list[FailingLoopView] = msgspec.field(default_factory=list)
    """Its background loops that keep failing. Known even if the store does not answer."""
    ahead_seconds: float = 0.0
    """How far this server's clock is ahead of the store's."""
    leases: list[LeaseView] = msgspec.field(default_factory=list)
    """Of all pools, by name."""
    servers: list[PeerView] = msgspec.field(default_factory=list)
    """Those that were heard of within a day, by name."""
    overdue: list[OverdueView] = msgspec.field(default_factory=list)
    """The most overdue first, at most 100. Whoever belongs to one tenant sees its own."""
