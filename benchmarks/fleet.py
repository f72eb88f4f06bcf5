"""Accuracy of the capacity simulation: the same load on the real engine, and simulated.

The real run has a real host, store, links and worker logic in real time, without processes. Both get the same runs
with the same ids, so that every task takes the same time, and both are evaluated by the same code. The load exceeds the
fleet's capacity, so that tasks wait for capacity and not for the scheduler.

`agree` is whether p50 and p95 of each priority and tenant differ by at most a quarter or 150 ms, the utilization by at
most 0.05, and tenants with clearly different waits are in the same order.

    python -m benchmarks.fleet --store sqlite -o json
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec.structs import replace

from benchmarks.measure import Figures, durability, fresh_store, run_benchmark
from mainspring.protocol.clock import SystemClock, cpu_seconds
from mainspring.simulation.capacity.driver import simulate_pool
from mainspring.simulation.capacity.report import Delays, Report
from mainspring.simulation.capacity.scenario import Host
from tests.simulation.real_engine import play_real
from tests.simulation.small_fleet import report_of, small

CLOSE_PART = 0.25
CLOSE_SECONDS = 0.15
CLOSE_USE = 0.05


async def main(kind: str, seconds: float, seed: int) -> Figures:
    """The results of both, side by side."""
    scenario = replace(small(), lasts=seconds, host=Host())
    began = time.perf_counter()
    simulated = report_of(scenario, [simulate_pool(scenario, 0, seed, cpu=cpu_seconds)])
    took = time.perf_counter() - began
    async with fresh_store(kind) as store:
        figures = await durability(kind, store)
        real = report_of(scenario, [await play_real(scenario, seed, store, SystemClock())])
    pairs = list(_pairs(simulated, real))
    orders = _order(simulated), _order(real)
    figures |= {
        "workers": scenario.workers.count,
        "tasks": real.tasks,
        "seconds": seconds,
        "simulated_in_s": round(took, 2),
        "used_simulated": simulated.used_mean,
        "used_real": real.used_mean,
        "preempted_simulated": simulated.preemptions,
        "preempted_real": real.preemptions,
        "tenants_simulated": orders[0],
        "tenants_real": orders[1],
    }
    for name, ours, theirs in pairs:
        figures[f"{name}_s_simulated"], figures[f"{name}_s_real"] = ours, theirs
        figures[f"{name}_ratio"] = round(ours / theirs, 3) if theirs else None
    figures["agree"] = all(_are_close(ours, theirs) for _, ours, theirs in pairs) and (
        abs(simulated.used_mean - real.used_mean) <= CLOSE_USE and _same_order(simulated, real)
    )
    return figures


def _pairs(simulated: Report, real: Report) -> Iterator[tuple[str, float, float]]:
    rows: list[tuple[str, Delays, Delays]] = [
        (ours.priority.lower(), ours.delays, theirs.delays)
        for ours, theirs in zip(simulated.priorities, real.priorities, strict=True)
    ]
    rows += [
        (ours.tenant, ours.delays, theirs.delays) for ours, theirs in zip(simulated.tenants, real.tenants, strict=True)
    ]
    for name, ours, theirs in rows:
        yield f"{name}_p50", ours.p50_seconds, theirs.p50_seconds
        yield f"{name}_p95", ours.p95_seconds, theirs.p95_seconds


def _are_close(one: float, other: float) -> bool:
    return abs(one - other) <= max(CLOSE_SECONDS, CLOSE_PART * max(one, other))


def _order(report: Report) -> list[str]:
    """The tenants, longest wait first."""
    return [row.tenant for row in sorted(report.tenants, key=lambda row: -row.delays.p95_seconds)]


def _same_order(simulated: Report, real: Report) -> bool:
    """Whether tenants with clearly different waits are in the same order in both."""
    ours = {row.tenant: row.delays.p95_seconds for row in simulated.tenants}
    theirs = {row.tenant: row.delays.p95_seconds for row in real.tenants}
    return all(
        (ours[one] < ours[other]) == (theirs[one] < theirs[other])
        for one in ours
        for other in ours
        if not _are_close(ours[one], ours[other]) and not _are_close(theirs[one], theirs[other])
    )


if __name__ == "__main__":
    run_benchmark(__doc__, main, seconds=30.0, seed=1)
