"""What the HTTP API answers that sums up more than one thing: the graph of a run, and a job over some days."""

from __future__ import annotations

from datetime import datetime

from mainspring.rest import View


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
