"""The simulator against the real engine with the same load: host, store, links, state machines, on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainspring.protocol.clock import cpu_seconds
from mainspring.simulation.capacity.driver import simulate_pool
from mainspring.simulation.capacity.load import START
from mainspring.simulation.capacity.measurements import PoolResult
from mainspring.simulation.capacity.report import Report
from mainspring.simulation.capacity.scenario import Scenario
from mainspring.simulation.inprocess.in_process_engine import quiet
from mainspring.simulation.inprocess.virtual_time import VirtualClock, VirtualLoop
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.simulation.real_engine import play_real
from tests.simulation.small_fleet import report_of, small

SEED = 2
CLOSE = 0.05
"""A twentieth: the two sample at different times."""


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_a_small_fleet_does_what_the_real_engine_does(loop: VirtualLoop) -> None:
    scenario = small()
    simulated = report_of(scenario, [simulate_pool(scenario, 0, SEED, cpu=cpu_seconds)])
    with quiet():
        real = report_of(scenario, [loop.run_until_complete(_play_real(scenario, loop))])

    assert simulated.tasks == real.tasks > 400
    assert [row.delays.placed for row in simulated.priorities] == pytest.approx(
        [row.delays.placed for row in real.priorities], rel=CLOSE
    )
    assert _delays(simulated) == pytest.approx(_delays(real), rel=CLOSE, abs=0.02)
    assert simulated.used_mean == pytest.approx(real.used_mean, rel=CLOSE)
    assert simulated.preemptions == pytest.approx(real.preemptions, abs=2)
    assert _slowest_first(simulated) == _slowest_first(real)
    assert _share_errors(simulated) == pytest.approx(_share_errors(real), abs=CLOSE)
    assert max(map(abs, _share_errors(real).values())) > CLOSE  # shares did not follow weights
    assert max(row.delays.p95_seconds for row in real.priorities) > 1  # it was a load that had to wait


def _delays(report: Report) -> list[float]:
    rows = [row.delays for row in report.priorities] + [row.delays for row in report.tenants]
    return [seconds for delays in rows for seconds in (delays.p50_seconds, delays.p95_seconds)]


def _share_errors(report: Report) -> dict[str, float]:
    """Deviation of each tenant's usage from its weight while all had to wait; and of all together."""
    assert report.fairness is not None
    errors = {row.tenant: row.share_error for row in report.tenants if row.share_error is not None}
    assert len(errors) == report.fairness.tenants == 3
    return {**errors, "mean": report.fairness.mean_error, "worst": report.fairness.worst_error}


def _slowest_first(report: Report) -> list[str]:
    return [row.tenant for row in sorted(report.tenants, key=lambda row: -row.delays.p95_seconds)]


async def _play_real(scenario: Scenario, loop: VirtualLoop) -> PoolResult:
    clock = VirtualClock(START, loop)
    store = SqliteStore.open(":memory:", clock=clock, run=inline)
    try:
        return await play_real(scenario, SEED, store, clock)
    finally:
        await store.close()
