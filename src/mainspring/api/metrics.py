"""Numbers for Prometheus (OBS-2): counted as things happen, and looked up when somebody asks.

    http_requests_total{operation,status}  http_request_seconds{operation}      by the entrance of the app
    transitions_total{state}  commit_rows_total  commit_seconds                 by each leader (`follow`)
    shards_led  inbox_events{shard}  workers{shard,status}                      looked up (`watch`)

Each name begins with `mainspring_`. No label holds anything that a caller can choose.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mainspring.core.batch import Batch
from mainspring.host.loop import Leader
from mainspring.host.pace import Pace

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """All numbers of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "mainspring_http_requests", "Requests answered.", ["operation", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "mainspring_http_request_seconds", "From request to the end of its answer.", ["operation"],
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._transitions = Counter(
            "mainspring_transitions", "Changes of tasks, by the state they came into.", ["state"],
            registry=self.registry,
        )  # fmt: skip
        self._rows = Counter("mainspring_commit_rows", "Rows written by commits.", registry=self.registry)
        self._commit_seconds = Histogram(
            "mainspring_commit_seconds", "How long commits of the store take.", buckets=_BUCKETS,
            registry=self.registry,
        )  # fmt: skip

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(operation, status).inc()
        self._request_seconds.labels(operation).observe(seconds)

    def commit_took(self, rows: int, seconds: float) -> None:
        """A commit of the store took so long."""
        self._rows.inc(rows)
        self._commit_seconds.observe(seconds)

    def committed(self, batch: Batch) -> None:
        """A batch is durable."""
        for state, number in Tally(transition.end for transition in batch.transitions).items():
            self._transitions.labels(state.value).inc(number)

    def follow(self, leader: Leader) -> None:
        """Count what a leader commits, besides whoever else is told of it. For `Host.on_lead`."""
        others = leader.on_commit

        def committed(number: int, batch: Batch) -> None:
            self.committed(batch)
            if others is not None:
                others(number, batch)

        leader.on_commit = committed
        leader.pace = _MeasuredPace(self)

    def watch(self, leaders: Callable[[], Mapping[str, Leader]]) -> None:
        """Look these leaders up whenever somebody asks for the numbers."""
        self.registry.register(_Leaders(leaders))

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


class _Leaders(Collector):
    def __init__(self, leaders: Callable[[], Mapping[str, Leader]]) -> None:
        self._leaders = leaders

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What the leaders are like now."""
        leaders = dict(self._leaders())
        yield GaugeMetricFamily("mainspring_shards_led", "Shards that this server leads.", value=len(leaders))
        inbox = GaugeMetricFamily("mainspring_inbox_events", "Events that wait for a shard's turn.", labels=["shard"])
        workers = GaugeMetricFamily("mainspring_workers", "Workers of a shard.", labels=["shard", "status"])
        for shard, leader in leaders.items():
            inbox.add_metric([shard], len(leader.inbox))
            for status, number in Tally(one.status for one in leader.shard.memory.workers.values()).items():
                workers.add_metric([shard, status.value], number)
        yield inbox
        yield workers
