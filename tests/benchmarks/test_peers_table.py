"""A report as a table and as a chart."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from benchmarks.peers.drawing import scale_ends, svg
from benchmarks.peers.figures import Measure, figure
from benchmarks.peers.table import cell, markdown, markdown_table, plain
from tests.benchmarks.reports import a_report, a_row


def test_the_fastest_comes_first() -> None:
    page = markdown(a_report([a_row("Slow", speed=10), a_row("Fast", speed=9_000)]))

    assert page.index("| Fast |") < page.index("| Slow |")


def test_an_unsupported_figure_is_a_dash() -> None:
    assert cell(None, Measure.STEP_P50) == "-"


def test_a_disturbed_figure_is_marked() -> None:
    assert cell(figure(12.3, 0.5), Measure.CPU) == "12.3*"
    assert cell(figure(12.3, 0.1), Measure.CPU) == "12.3"


def test_large_figures_are_readable() -> None:
    assert cell(figure(21_000), Measure.STARTED) == "21,000"


def test_a_fan_out_of_another_width_says_so() -> None:
    assert cell(figure(0.5, of=1_000), Measure.FAN_OUT) == "0.5"
    assert cell(figure(30, of=100), Measure.FAN_OUT) == "30 (100 wide)"


def test_a_cell_is_escaped() -> None:
    table = markdown_table(["a", "b"], [["x | y", "one\ntwo"]])

    assert table.splitlines()[2] == r"| x \| y | one two |"


def test_skipped_systems_are_listed_with_the_reason() -> None:
    report = a_report([a_row("One")], skipped={"huey": "redis-server is not here\nlong story\nthe end"})

    assert "- huey was not measured: redis-server is not here .. the end" in markdown(report)
    assert "- huey was not measured" in plain(report)


def test_the_page_has_the_machine_and_the_versions() -> None:
    page = markdown(a_report([a_row("One")]))

    assert "Quick, 2 cores, 8 GiB, ext4, Linux 6, Python 3.11.7, Node 20.1.0" in page
    assert "| One | One 1.2 |" in page


def test_a_scaled_run_is_labeled_as_no_measurement() -> None:
    assert "only good to see that it works" in markdown(a_report([a_row("One")], scale=0.01))
    assert "only good to see that it works" not in markdown(a_report([a_row("One")]))


def test_commands_of_a_quick_start_are_counted_once_for_each_system() -> None:
    twice = [a_row("One"), a_row("One")]

    assert markdown(a_report(twice)).count("2: `install it`; `start it`") == 1


def test_plain_columns_are_aligned() -> None:
    head, *rows = plain(a_report([a_row("One"), a_row("Another")])).splitlines()

    assert {len(row) for row in rows[:2]} == {len(head)}


def test_the_chart_is_complete_and_highlights_ours() -> None:
    drawn = svg(a_report([a_row("Ours"), a_row("<Theirs>")]), ours="ours")

    ET.fromstring(drawn)  # noqa: S314 - we made it ourselves a line above
    assert drawn.count('class="ours"') == 1
    assert drawn.count('class="bar"') == 1


@pytest.mark.parametrize(
    ("values", "ends"), [([3.0, 40.0], (0, 2)), ([10.0, 10.0], (1, 2)), ([0.02, 0.05], (-2, -1)), ([1_000.0], (3, 4))]
)
def test_a_scale_covers_all_values(values: list[float], ends: tuple[int, int]) -> None:
    assert scale_ends(values) == ends
