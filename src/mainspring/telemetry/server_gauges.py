"""Metrics of one server, collected at scrape time: degradation (HA-5, ADM-6), background loops, unreadable rows.

mainspring_level{shard}                       0 normal, 1 degraded, 2 recovery, 3 partial, 4 major
mainspring_runs_waiting{shard}                waiting runs of a pool, as last counted
mainspring_background_failures_total{loop}    failures of a loop, each followed by a restart
mainspring_background_failing{loop}           1: the loop keeps failing, and the server is not ready
mainspring_unreadable_rows_total{kind}        rows of the store that could not be read
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mainspring.background import BackgroundLoops
from mainspring.host.degradation import DegradationMonitor
from mainspring.telemetry.gauges import gauge


class DegradationCollector(Collector):
    """Collects the degradation levels, as this server sees them."""

    def __init__(self, degradation: DegradationMonitor) -> None:
        self._degradation = degradation

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return level and waiting runs by pool."""
        degradation = self._degradation
        pools = sorted(degradation.pools().items())
        levels = [((pool,), level.severity) for pool, level in pools]
        waiting = [((pool,), degradation.waiting(pool)) for pool, _ in pools]
        yield gauge("mainspring_level", "0 normal, 1 degraded, 2 recovery, 3 partial, 4 major.", ["shard"], levels)
        yield gauge("mainspring_runs_waiting", "Waiting runs of a pool.", ["shard"], waiting)


class BackgroundCollector(Collector):
    """Collects the state of the supervised loops."""

    def __init__(self, background: BackgroundLoops, unreadable_rows: Mapping[str, int]) -> None:
        self._background = background
        self._unreadable_rows = unreadable_rows

    def collect(self) -> Iterator[Metric]:
        """Return failures and current state by loop, and unreadable rows by kind."""
        background = self._background
        now_failing = {one.name for one in background.failing()}
        failing = [((name,), name in now_failing) for name in sorted(background.failures)]
        yield _counter("mainspring_background_failures", "Failures of background loops.", "loop", background.failures)
        yield gauge("mainspring_background_failing", "1: the loop keeps failing.", ["loop"], failing)
        yield _counter(
            "mainspring_unreadable_rows",
            "Rows of the store that could not be read.",
            "kind",
            self._unreadable_rows,
        )


def _counter(name: str, about: str, label: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family
