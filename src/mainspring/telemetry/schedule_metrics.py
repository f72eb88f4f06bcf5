"""Metrics of schedules: lag, next fire, last success.

    mainspring_schedule_fire_lag_seconds                                   from the start of the window to its firing
    mainspring_schedule_next_fire_timestamp_seconds{tenant,schedule}       of the next MAX_SHOWN schedules
    mainspring_schedule_last_success_timestamp_seconds{tenant,schedule}    of the same schedules

The store is read every READ_SECONDS, so that a scrape does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import structlog
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mainspring.background import repeat
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import ScheduleRow
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Broken
from mainspring.store.ports.schedules import EvaluationResult, FireFilter
from mainspring.store.ports.store import Store
from mainspring.telemetry.gauges import gauge

log = structlog.get_logger()

READ_SECONDS = 30.0
MAX_SHOWN = 200
_HORIZON = timedelta(days=400)
_MAX_FIRES = 20
_LAGS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3_600.0)


class ScheduleCollector(Collector):
    """Collects the metrics of schedules."""

    def __init__(self, store: Store, clock: Clock, registry: CollectorRegistry) -> None:
        self._store = store
        self._clock = clock
        self._shown: list[tuple[ScheduleRow, datetime | None]] = []
        """The next schedules, with their last success."""
        self._lag = Histogram(
            "mainspring_schedule_fire_lag_seconds", "From the start of a window to its firing.", buckets=_LAGS,
            registry=registry,
        )  # fmt: skip
        registry.register(self)

    def evaluated(self, evaluated: EvaluationResult) -> None:
        """Record the lag of fired windows. For `TriggerLoop`."""
        for decision in evaluated.decisions:
            for fire in decision.fires:
                if fire.outcome is Outcome.RAN and not fire.is_catch_up and not fire.by:
                    due_at = fire.start_at or fire.window_at
                    self._lag.observe(max(0.0, (evaluated.now - due_at).total_seconds()))

    async def run(self) -> None:
        """Read periodically, until cancelled."""
        await repeat(self.read, self._clock, READ_SECONDS, "metrics.schedules_unavailable")

    async def read(self) -> None:
        """Read the next schedules and their last successes."""
        now = await self._store.time()
        shown = []
        for row in await self._store.next_schedules(None, now + _HORIZON, MAX_SHOWN):
            wanted = FireFilter(schedule_id=row.id, outcomes=(Outcome.RAN,))
            try:
                fires = await self._store.fires(wanted, _MAX_FIRES)
            except Broken as fault:
                log.warning("metrics.fires_unreadable", schedule=row.id, fault=str(fault))
                fires = []
            ends = [fire.run_ended_at for fire in fires if fire.run_state is RunState.SUCCEEDED]
            latest = max((end for end in ends if end is not None), default=None)
            shown.append((row, latest))
        self._shown = shown

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the values last read."""
        labels = ["tenant", "schedule"]
        fires = [((row.tenant, row.name), row.next_at.timestamp()) for row, _ in self._shown if row.next_at]
        successes = [((row.tenant, row.name), latest.timestamp()) for row, latest in self._shown if latest]
        yield gauge("mainspring_schedule_next_fire_timestamp_seconds", "Next fire of a schedule.", labels, fires)
        yield gauge(
            "mainspring_schedule_last_success_timestamp_seconds",
            "Last successful run of a schedule.",
            labels,
            successes,
        )
