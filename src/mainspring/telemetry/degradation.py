"""How well each pool can be served, as this server sees it (HA-5, ADM-6), looked up when somebody asks.

mainspring_level{shard}           0 normal, 1 degraded, 2 recovery, 3 partial, 4 major
mainspring_runs_waiting{shard}    how many runs wait in a pool, as they were counted last
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mainspring.host.degradation import Levels


class LevelNumbers(Collector):
    """Asks whoever watches over the levels."""

    def __init__(self, levels: Callable[[], Levels]) -> None:
        self._levels = levels

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What the levels are now."""
        degrees = GaugeMetricFamily(
            "mainspring_level", "0 normal, 1 degraded, 2 recovery, 3 partial, 4 major.", labels=["shard"]
        )
        waiting = GaugeMetricFamily("mainspring_runs_waiting", "Runs that wait in a pool.", labels=["shard"])
        levels = self._levels()
        for pool, level in sorted(levels.pools().items()):
            degrees.add_metric([pool], level.severity)
            waiting.add_metric([pool], levels.waiting(pool))
        yield from (degrees, waiting)
