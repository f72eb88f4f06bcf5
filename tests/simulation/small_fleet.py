"""A pool small enough to run on the real engine, and too small for its load: waiting tasks wait for capacity."""

from __future__ import annotations

from mainspring.simulation.capacity.measurements import PoolResult
from mainspring.simulation.capacity.report import Report, make_report
from mainspring.simulation.capacity.scenario import Scenario
from mainspring.simulation.capacity.scenario_file import read_scenario

_TEXT = """
name: small
lasts: 12s
workers: {count: 10, zones: 2, machines: [{cpu: 4, memory: 16Gi}]}
tenants: {count: 3, weights: [1, 2, 4]}
host: {commit: 0s, row: 0s, read: 0s, link: 0s}
jobs:
  - {name: urgent, priority: P0, cpu: 1, takes: {p10: 200ms, p50: 500ms, p90: 1s, p99: 2s}}
  - {name: usual, priority: P1, cpu: 1, takes: {p10: 500ms, p50: 1s, p90: 2s, p99: 4s}}
  - {name: bulk, priority: P2, cpu: 2, takes: {p10: 500ms, p50: 1s, p90: 2s, p99: 4s}}
  - {name: nightly, priority: P2, cpu: 1, takes: {p10: 200ms, p50: 500ms, p90: 1s, p99: 2s}, stages: [1, 3, 1]}
loads:
  - {job: urgent, per_second: 2, standing: false}
  - {job: usual, per_second: 16, standing: false}
  - {job: bulk, per_second: 9, standing: false}
  - {job: nightly, runs: 30, at: 3s, within: 2s}
settings: {preemption_grace_seconds: 1}
"""


def small() -> Scenario:
    """The scenario. The parts that are not simulated take no time in it."""
    return read_scenario("small.yaml", _TEXT)


def report_of(scenario: Scenario, pools: list[PoolResult]) -> Report:
    """The report without the timing of this machine."""
    return make_report(scenario, pools, seed=1, scale=1.0, version="test", with_timing=False)
