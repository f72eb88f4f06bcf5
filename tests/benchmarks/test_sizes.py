"""Growth of cost with size, computed from measurements."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from benchmarks.sizes.dimensions import DIMENSIONS, PLACES
from benchmarks.sizes.drawing import abscissa, svg, top_of
from benchmarks.sizes.growth import Report, Series, Visit, is_within, points, were_disturbed, worst_of
from benchmarks.sizes.table import markdown, plain
from tests.benchmarks.reports import a_report


def a_visit(speed: float = 1_000.0, p50_ms: float = 5.0, cpu_us: float = 100.0, foreign_cores: float = 0.0) -> Visit:
    """A visit with these measurements."""
    return Visit(
        tasks_per_s=speed, cpu_us=cpu_us, store_cpu_us=100.0, p50_ms=p50_ms, p95_ms=9.0, foreign_cores=foreign_cores
    )


def a_series(*visits: tuple[int, list[Visit]]) -> Series:
    """A dimension at these sizes."""
    return Series(name="waiting", title="Tasks that wait", about="They wait.", points=points(visits))


def a_report_of(series: Series) -> Report:
    """A report with one dimension."""
    return Report(
        began_at="2026-11-17 12:00 UTC", seconds=600.0, machine=a_report([]).machine, store={}, tasks=5_000, probes=60,
        visits=3, worst=worst_of([series]), within=is_within([series]), series=[series],
    )  # fmt: skip


DYNAMIC_KINDS = a_series((0, [a_visit()]), (1_000, [a_visit(speed=500.0, p50_ms=20.0)]))


def test_a_ratio_above_one_is_worse_than_at_the_smallest_size() -> None:
    first, other = DYNAMIC_KINDS.points

    assert (first.throughput_ratio, first.latency_ratio, first.cpu_ratio) == (1, 1, 1)
    assert (other.throughput_ratio, other.latency_ratio) == (2, 4)


def test_the_best_visit_counts() -> None:
    (_, other) = a_series(
        (10, [a_visit(), a_visit(speed=800.0)]), (100, [a_visit(speed=100.0, p50_ms=4.0), a_visit(cpu_us=300.0)])
    ).points

    assert (other.tasks_per_s, other.throughput_ratio) == (1_000, 1)
    assert (other.latency_ms_p50, other.latency_ratio) == (4, 0.8)
    assert other.cpu_ratio == 1
    assert other.tasks_per_s_by_visit == [100, 1_000]


def test_cpu_is_that_of_both_processes() -> None:
    assert a_series((1, [a_visit()]), (10, [a_visit(cpu_us=300.0)])).points[1].cpu_ratio == 2


def test_the_headline_has_the_worst_ratios() -> None:
    assert DYNAMIC_KINDS.worst() == {
        "waiting_throughput_worst": 2, "waiting_latency_worst": 4, "waiting_cpu_worst": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("p50_ms", "within"), [(7.5, True), (7.6, False)])
def test_half_as_much_again_is_within(p50_ms: float, within: bool) -> None:
    assert is_within([a_series((1, [a_visit()]), (10, [a_visit(p50_ms=p50_ms)]))]) is within


def test_a_point_is_marked_if_every_visit_was_disturbed() -> None:
    busy = a_visit(foreign_cores=1.0)

    assert [point.disturbed for point in a_series((1, [busy, a_visit()]), (2, [busy, busy])).points] == [False, True]


def test_a_quiet_visit_is_enough() -> None:
    noisy = a_visit(foreign_cores=0.9)

    assert were_disturbed([noisy, noisy])
    assert not were_disturbed([noisy, a_visit()])


def test_the_tables_have_every_size() -> None:
    report = a_report_of(DYNAMIC_KINDS)

    assert "| 1,000 | 500 | 2 | 20 | 4 |" in markdown(report)
    assert "waiting_latency_worst  4" in plain(report)


def test_plain_columns_are_aligned() -> None:
    head, *rows = plain(a_report_of(DYNAMIC_KINDS)).splitlines()[:3]

    assert {len(row) for row in rows} == {len(head)}


def test_the_chart_is_complete_with_a_point_per_size_and_series() -> None:
    drawn = svg(a_report_of(DYNAMIC_KINDS))

    ET.fromstring(drawn)  # noqa: S314 - we made it ourselves a line above
    assert drawn.count("<circle") == 2 * drawn.count("<polyline") == 6
    assert drawn.count('class="limit"') == 1


def test_zero_is_not_drawn_on_a_logarithmic_scale() -> None:
    assert abscissa(0, smallest=1_000) == 100
    assert abscissa(1_000, smallest=1_000) == 1_000


def test_all_ratios_fit_the_scale() -> None:
    assert top_of(DYNAMIC_KINDS) == 4
    assert top_of(a_series((1, [a_visit()]))) == 2


def test_fewer_sizes_can_be_selected_but_at_least_two() -> None:
    waiting = DIMENSIONS[0]

    assert list(waiting.up_to(100_000).sizes) == [1_000, 10_000, 100_000]
    assert list(waiting.up_to(1).sizes) == [1_000, 10_000]


def test_capacity_does_not_depend_on_the_number_of_workers() -> None:
    workers = next(dimension for dimension in DIMENSIONS if dimension.name == "workers")

    assert {workers.setting(size).places % size for size in workers.sizes} == {0}
    assert {workers.setting(size).places for size in workers.sizes} == {PLACES}
