"""Metrics of background loops and of unreadable rows, collected at scrape time.

mainspring_background_failures_total{loop}    failures of a loop, each followed by a restart
mainspring_background_failing{loop}           1: the loop keeps failing, and the server is not ready
mainspring_unreadable_rows_total{kind}        rows of the store that could not be read
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mainspring.host.background import BackgroundLoops


class BackgroundCollector(Collector):
    """Collects the state of the supervised loops."""

    def __init__(self, background: BackgroundLoops, unreadable_rows: Mapping[str, int]) -> None:
        self._background = background
        self._unreadable_rows = unreadable_rows

    def collect(self) -> Iterator[Metric]:
        """Return failures and current state by loop, and unreadable rows by kind."""
        failures = CounterMetricFamily(
            "mainspring_background_failures", "Failures of background loops.", labels=["loop"]
        )
        failing = GaugeMetricFamily("mainspring_background_failing", "1: the loop keeps failing.", labels=["loop"])
        now_failing = {one.name for one in self._background.failing()}
        for name, count in sorted(self._background.failures.items()):
            failures.add_metric([name], count)
            failing.add_metric([name], name in now_failing)
        unreadable = CounterMetricFamily(
            "mainspring_unreadable_rows", "Rows of the store that could not be read.", labels=["kind"]
        )
        for kind, count in sorted(self._unreadable_rows.items()):
            unreadable.add_metric([kind], count)
        yield from (failures, failing, unreadable)
