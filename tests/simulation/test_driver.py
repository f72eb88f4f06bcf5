"""Simulated pools: the same seed gives the same result, and planned events happen."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.simulation.capacity.driver import simulate_pool
from mainspring.simulation.capacity.duration_model import DurationModel, DurationSpec
from mainspring.simulation.capacity.measurements import Histogram, PoolResult
from mainspring.simulation.capacity.processes import simulate_pools
from mainspring.simulation.capacity.report import Report
from mainspring.simulation.capacity.scenario import Scenario
from mainspring.simulation.capacity.scenario_file import read_scenario
from tests.simulation.small_fleet import report_of, small

TWO_POOLS = """
name: two
lasts: 6s
workers: {count: 12, zones: 2, pools: 2, machines: [{cpu: 4, memory: 16Gi}]}
tenants: {count: 5, weights: [1, 3]}
jobs:
  - {name: usual, priority: P1, takes: {p10: 500ms, p50: 1s, p90: 2s, p99: 4s}, fails: 0.1}
  - {name: bulk, cpu: 2, takes: {p10: 500ms, p50: 1s, p90: 2s, p99: 4s}}
loads: [{job: usual, per_second: 20}, {job: bulk, runs: 41, at: 1s, within: 1s}]
"""


def played(scenario: Scenario, seed: int = 1) -> Report:
    """Simulate a scenario; return its report."""
    pools = [simulate_pool(scenario, pool, seed, cpu=lambda: 0.0) for pool in range(scenario.workers.pools)]
    return report_of(scenario, pools)


def test_the_same_seed_gives_the_same_report_byte_for_byte_in_any_number_of_processes() -> None:
    scenario = read_scenario("two.yaml", TWO_POOLS)
    here = msgspec.json.encode(played(scenario))
    elsewhere = report_of(scenario, simulate_pools(scenario, 1, processes=2).pools)

    assert msgspec.json.encode(elsewhere) == here
    assert msgspec.json.encode(played(scenario, seed=2)) != here


def test_every_task_is_counted_once() -> None:
    report = played(read_scenario("two.yaml", TWO_POOLS))

    waiting = sum(row.delays.waiting for row in report.priorities)
    assert report.tasks == report.runs > 100
    # Each is placed or waits; a failed task was placed before, and is placed again or waits for that.
    assert report.tasks <= report.placed + waiting + report.ends["failed"]
    assert report.placed + waiting <= report.tasks + report.ends["failed"]
    assert {row.tenant for row in report.tenants} == {f"tenant-00{number}" for number in range(1, 6)}
    assert sum(row.delays.placed for row in report.tenants) == report.placed
    assert not report.is_partial


def test_an_interrupted_simulation_returns_partial_results() -> None:
    scenario = read_scenario("two.yaml", TWO_POOLS.replace("lasts: 6s", "lasts: 10h"))
    told: list[float] = []

    def interrupt(part: float) -> None:
        told.append(part)
        if len(told) == 1:
            raise KeyboardInterrupt

    played = simulate_pools(scenario, 1, processes=2, progress=interrupt)
    report = report_of(scenario, played.pools)

    assert played.was_interrupted
    assert (report.is_partial, report.pools_played) == (True, 0)
    assert report.placed > 0


def test_a_lost_zone_loses_what_it_had_and_comes_back() -> None:
    text = TWO_POOLS.replace("lasts: 6s", "lasts: 16s").replace("pools: 2", "pools: 1")
    text += "zones_lost: [{zone: 1, at: 1s, back_after: 14s}]\nhost: {commit: 50ms}\n"
    text += "settings: {suspect_after_seconds: 6, lost_after_seconds: 12}\n"
    report = played(read_scenario("dark.yaml", text))
    cores = {moment.at_seconds: moment.cores for moment in report.timeline}
    lost = {moment.at_seconds: moment.lost for moment in report.timeline if moment.lost}

    assert report.ends["lost"] == sum(lost.values()) > 5
    assert 12 <= min(lost) <= 14  # no worker is lost at once
    assert (cores[0], cores[14], cores[16]) == (48, 24, 48)


def test_what_needs_a_service_that_is_down_fails_and_is_tried_again() -> None:
    text = TWO_POOLS + "outages: [{jobs: [bulk], at: 2s, lasts: 1s, fails_after: 500ms}]\n"
    text += "settings: {retry_delay_seconds: 1}\n"
    with_outage, without = (
        played(read_scenario("down.yaml", one.replace(", fails: 0.1", ""))) for one in (text, TWO_POOLS)
    )

    assert without.ends.get("failed", 0) == 0
    assert with_outage.ends["failed"] > 10
    assert all(not moment.failed for moment in with_outage.timeline if moment.at_seconds <= 2)
    assert with_outage.placed > without.placed


def test_a_fan_out_makes_a_task_for_each_item() -> None:
    text = TWO_POOLS.replace("lasts: 6s", "lasts: 10s").replace(
        "loads: [{job: usual, per_second: 20}, {job: bulk, runs: 41, at: 1s, within: 1s}]",
        "loads: [{job: wide, runs: 1, tenant: 2}]",
    )
    text = text.replace(
        "loads:", "  - {name: wide, takes: {p10: 0.1, p50: 0.2, p90: 0.3, p99: 0.4}, fan_out: 60}\nloads:"
    )
    report = played(read_scenario("wide.yaml", text))

    assert (report.runs, report.tasks, report.placed, report.ends) == (1, 62, 62, {"succeeded": 62})
    assert [row.tenant for row in report.tenants] == ["tenant-002"]


def test_a_p0_preempts_other_tasks() -> None:
    report = played(small())

    assert report.preemptions > 0
    assert report.ends.get("stopped", 0) <= report.preemptions
    urgent, *_, bulk = (row.delays.p95_seconds for row in report.priorities)
    assert urgent * 10 < bulk


def test_shares_follow_weights_if_all_tenants_wait() -> None:
    """Three tenants with the same load, and more of it than capacity: their weights decide."""
    text = TWO_POOLS.replace("count: 5, weights: [1, 3]", "count: 3, weights: [1, 2, 4]").replace(
        "pools: 2", "pools: 1"
    )
    text = text.replace("per_second: 20", "per_second: 150, standing: false").replace("lasts: 6s", "lasts: 12s")
    report = played(read_scenario("three.yaml", text))

    assert report.fairness is not None
    assert report.fairness.tenants == 3
    assert report.fairness.mean_error < 0.2
    assert report.used_most > 0.95


def test_durations_have_the_quantiles_of_their_spec() -> None:
    durations = DurationModel(DurationSpec(p10=1, p50=10, p90=60, p99=600))
    drawn = sorted(durations.of(f"task-{number}") for number in range(20_000))
    histogram = Histogram()
    for one in drawn:
        histogram.add(one)

    assert drawn[2_000] == pytest.approx(1, rel=0.1)
    assert drawn[10_000] == pytest.approx(10, rel=0.1)
    assert drawn[18_000] == pytest.approx(60, rel=0.1)
    assert histogram.percentile(50) == pytest.approx(drawn[10_000], rel=0.03)
    assert sum(drawn) / len(drawn) == pytest.approx(durations.mean, rel=0.1)
    assert durations.left(0.5, 0.5) > durations.mean  # standing tasks are mostly long ones


def test_a_result_is_the_same_after_encoding_and_decoding() -> None:
    scenario = read_scenario("two.yaml", TWO_POOLS)
    measures = simulate_pool(scenario, 1, 1, cpu=lambda: 0.0)

    assert msgspec.json.decode(msgspec.json.encode(measures), type=PoolResult) == measures
