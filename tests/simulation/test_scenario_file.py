"""Scenario files: the built-in ones are valid, and faults are reported with their line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainspring.protocol.errors import InvalidFile, NotFound
from mainspring.simulation.capacity.scenario import MIN_TENANTS, count_tasks, scaled
from mainspring.simulation.capacity.scenario_file import builtin, find_scenario, read_scenario

GOOD = """\
name: mine
lasts: 10s
workers: {count: 10, zones: 2, pools: 2, machines: [{cpu: 4, memory: 16Gi}]}
tenants: {count: 4, weights: [1, 2]}
jobs:
  - {name: usual, priority: P1, cpu: 500m, takes: {p10: 1s, p50: 2s, p90: 3s, p99: 4s}}
loads:
  - {job: usual, per_second: 5}
zones_lost:
  - {zone: 1, at: 1s}
"""


def test_those_that_come_with_mainspring_have_the_numbers_they_are_for() -> None:
    scenarios = {scenario.name: scenario for scenario in builtin()}

    assert set(scenarios) == {"fan-out", "mass-retry", "midnight", "steady", "zone-loss"}
    for scenario in scenarios.values():
        assert (scenario.workers.count, scenario.workers.zones, scenario.tenants.count) == (50_000, 5, 200)
        assert sum(load.per_second or 0 for load in scenario.loads) == 23_000
        assert scenario.about
        weights = {tuple(scenario.weight(one) for one in scenario.tenants_of(pool)) for pool in range(40)}
        assert weights == {(1, 1, 2, 3, 5)}
    assert scenarios["fan-out"].kind("wide").fan_out == 50_000
    assert scenarios["midnight"].loads[3].runs == 20_000


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    scenario = find_scenario(str(path))

    assert scenario.kind("usual").cpu == 500
    assert [list(scenario.tenants_of(pool)) for pool in (0, 1)] == [[0, 1], [2, 3]]
    assert scenario.parts() == [0.25, 0.25, 0.25, 0.25]


@pytest.mark.parametrize(
    ("before", "after", "line", "why"),
    [
        ("count: 10", "cuont: 10", 3, "unknown field `cuont` of workers"),
        ("count: 10", "count: 0", 3, "`count` must be at least 1"),
        ("lasts: 10s", "lasts: soon", 2, "`lasts` must be a duration"),
        ("priority: P1", "priority: P7", 6, "`priority` must be one of P0, P1, P2"),
        ("p50: 2s", "p50: 9s", 6, "must not decrease"),
        ("job: usual", "job: usaul", 8, "unknown job usaul"),
        ("per_second: 5", "runs: 5, per_second: 5", 8, "must have either per_second or runs"),
        ("{zone: 1,", "{zone: 3,", 10, "`zone` must be at most 2"),
        ("pools: 2", "pools: 5", 3, "`pools` must be at most 4"),
        ("lasts: 10s\n", "", 1, "missing required field `lasts`"),
        ("name: mine", "name: mine\nname: other", 2, "duplicate key `name`"),
        ("zones_lost:", "settings: {retry_cap: 1}\nzones_lost:", 9, "unknown setting"),
        ("per_second: 5", "runs: 5, tenant: 9", 8, "`tenant` must be at most 4"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(before: str, after: str, line: int, why: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read_scenario("mine.yaml", GOOD.replace(before, after, 1))

    assert re.search(rf"^mine\.yaml:{line}:\d+: ", str(caught.value), re.MULTILINE), str(caught.value)
    assert why in str(caught.value)


def test_so_much_that_it_would_take_days_is_refused() -> None:
    with pytest.raises(InvalidFile, match="limit 200,000,000"):
        read_scenario("mine.yaml", GOOD.replace("lasts: 10s", "lasts: 1d").replace("per_second: 5", "per_second: 5000"))


def test_a_name_that_is_nearly_right_is_guessed() -> None:
    with pytest.raises(NotFound, match="did you mean midnight"):
        find_scenario("midnigth")
    with pytest.raises(InvalidFile, match="can't be read"):
        find_scenario("nowhere/mine.yaml")


def test_a_scenario_is_made_smaller_with_all_that_belongs_to_it() -> None:
    whole = find_scenario("fan-out")
    small = scaled(whole, 0.01)

    assert (small.workers.count, small.workers.pools, small.tenants.count) == (500, 1, MIN_TENANTS)
    assert sum(load.per_second or 0 for load in small.loads) == pytest.approx(230)
    assert small.kind("wide").fan_out == 500
    assert count_tasks(small) == pytest.approx(count_tasks(whole) / 100, rel=0.01)
    assert scaled(whole, 1) == whole
