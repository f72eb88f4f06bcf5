"""Metrics of the degradation levels, as this server sees them (HA-5, ADM-6), collected at scrape time.

mainspring_level{shard}           0 normal, 1 degraded, 2 recovery, 3 partial, 4 major
mainspring_runs_waiting{shard}    waiting runs of a pool, as last counted
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mainspring.host.degradation import DegradationMonitor


class DegradationCollector(Collector):
    """Collects the degradation levels."""

    def __init__(self, degradation: DegradationMonitor) -> None:
        self._degradation = degradation

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return level and waiting runs by pool."""
        degrees = GaugeMetricFamily(
            "mainspring_level", "0 normal, 1 degraded, 2 recovery, 3 partial, 4 major.", labels=["shard"]
        )
        waiting = GaugeMetricFamily("mainspring_runs_waiting", "Waiting runs of a pool.", labels=["shard"])
        degradation = self._degradation
        for pool, level in sorted(degradation.pools().items()):
            degrees.add_metric([pool], level.severity)
            waiting.add_metric([pool], degradation.waiting(pool))
        yield from (degrees, waiting)
