"""Metrics for Prometheus (OBS-2): counters, and gauges that are collected at scrape time.

    http_requests_total{operation,status}  http_request_seconds{operation}      by the API
    transitions_total{state}  task_wait_seconds{priority} ..                    by each leader (`meters.py`)
    tasks_queued{tenant,priority,reason}  worker_slots{zone,state} ..           from the leaders (`gauges.py`)
    level{shard}  runs_waiting{shard}                                           degradation (`server_gauges.py`)
    schedule_next_fire_timestamp_seconds ..                                     read periodically
                                                                                (`schedule_metrics.py`)

Every name begins with `mainspring_`. Labels that callers can choose (tenant, job, schedule, zone) have a bounded number
of values (`labels.py`); ids of runs and tasks are never labels. docs/reference/metrics.md has the list.
"""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from mainspring.core.model.batch import Batch
from mainspring.host.loop import Leader
from mainspring.telemetry.meters import LeaderMeter, Meters

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RefusalReason(StrEnum):
    """Why a valid submission was rejected."""

    RATE = "rate"
    """Rate limit exceeded (ADM-4)."""
    SHED = "shed"
    """Shed because of the backlog (ADM-6)."""
    CLOSED = "closed"
    """The pool accepts no submissions (HA-5)."""


class Metrics:
    """All metrics of one server."""

    def __init__(self, version: str = "") -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # it would double the series of counters
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "mainspring_http_requests", "Answered requests.", ["operation", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "mainspring_http_request_seconds", "From the request to the end of the response.", ["operation"],
            buckets=BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._refused = Counter(
            "mainspring_submissions_refused", "Submissions rejected because of a limit.", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self._rows = Counter("mainspring_commit_rows", "Rows written by commits.", registry=self.registry)
        self._commit_seconds = Histogram(
            "mainspring_commit_seconds", "Duration of commits to the store.", buckets=BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self._meters = Meters(self.registry)
        build = Gauge("mainspring_build_info", "Always 1.", ["version"], registry=self.registry)
        build.labels(version).set(1)

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(operation, status).inc()
        self._request_seconds.labels(operation).observe(seconds)

    def refused(self, reason: RefusalReason) -> None:
        """Count a rejected submission."""
        self._refused.labels(reason.value).inc()

    def follow(self, leader: Leader) -> None:
        """Count the commits of a leader."""
        meter = LeaderMeter(self._meters, leader)

        def committed(batch: Batch, seconds: float) -> None:
            meter.committed(batch)
            self._rows.inc(batch.rows())
            self._commit_seconds.observe(seconds)

        leader.add_listener(committed)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus format."""
        return generate_latest(self.registry)
