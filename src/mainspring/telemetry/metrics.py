"""Numbers for Prometheus (OBS-2): counted as things happen, and looked up when somebody asks.

    http_requests_total{operation,status}  http_request_seconds{operation}      by the entrance of the app
    transitions_total{state}  task_wait_seconds{priority} ..                    by each leader (`meters.py`)
    tasks_queued{tenant,priority,reason}  worker_slots{zone,state} ..           looked up in leaders (`gauges.py`)
    level{shard}  runs_waiting{shard}                                           of what is watched (`degradation.py`)
    schedule_next_fire_timestamp_seconds ..                                     read now and then
    (`schedule_metrics.py`)

Each name begins with `mainspring_`. A label that a caller can choose (a tenant, a job, a schedule, a zone) has a
bounded number of values (`labels.py`); ids of runs and tasks are never labels. docs/reference/metrics.md has the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

from mainspring.core.model.batch import Batch
from mainspring.host.batch_sizer import Pace
from mainspring.host.loop import Leader
from mainspring.telemetry.gauges import LeaderGauges
from mainspring.telemetry.meters import LeaderMeter, Meters

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Refusal(StrEnum):
    """Why a submission was not taken, though nothing is wrong with it."""

    RATE = "rate"
    """Too many came (ADM-4)."""
    SHED = "shed"
    """Too many wait (ADM-6)."""
    CLOSED = "closed"
    """The pool takes nothing new (HA-5)."""


class Metrics:
    """All numbers of one server."""

    def __init__(self, version: str = "") -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # A second series for each counter, which says when it began: nobody asks for it.
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "mainspring_http_requests", "Requests answered.", ["operation", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "mainspring_http_request_seconds", "From request to the end of its answer.", ["operation"],
            buckets=BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._refused = Counter(
            "mainspring_submissions_refused", "Submissions that were not taken because of a limit.", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self._rows = Counter("mainspring_commit_rows", "Rows written by commits.", registry=self.registry)
        self._commit_seconds = Histogram(
            "mainspring_commit_seconds", "How long commits of the store take.", buckets=BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self._meters = Meters(self.registry)
        build = Gauge("mainspring_build_info", "Always 1.", ["version"], registry=self.registry)
        build.labels(version).set(1)

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(operation, status).inc()
        self._request_seconds.labels(operation).observe(seconds)

    def refused(self, reason: Refusal) -> None:
        """A submission was not taken."""
        self._refused.labels(reason.value).inc()

    def commit_took(self, rows: int, seconds: float) -> None:
        """A commit of the store took so long."""
        self._rows.inc(rows)
        self._commit_seconds.observe(seconds)

    def follow(self, leader: Leader) -> None:
        """Count what a leader commits, besides whoever else is told of it. For `Host.on_lead`."""
        others = leader.on_commit
        meter = LeaderMeter(self._meters, leader)

        def committed(number: int, batch: Batch) -> None:
            meter.committed(batch)
            if others is not None:
                others(number, batch)

        leader.on_commit = committed
        leader.pace = _MeasuredPace(self)

    def watch(self, leaders: Callable[[], Mapping[str, Leader]]) -> None:
        """Look these leaders up whenever somebody asks for the numbers."""
        self.registry.register(LeaderGauges(leaders))

    def add(self, collector: Collector) -> None:
        """Ask this one too, whenever somebody asks for the numbers."""
        self.registry.register(collector)

    def text(self) -> bytes:
        """All of it, in the format of Prometheus."""
        return generate_latest(self.registry)


class _MeasuredPace(Pace):
    """A pace that passes on what it learns."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics

    def observe(self, rows: int, seconds: float) -> None:
        """A commit of so many rows took so long."""
        super().observe(rows, seconds)
        self._metrics.commit_took(rows, seconds)
