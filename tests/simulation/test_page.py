"""The HTML report: self-contained, and accessible without the plots."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from mainspring.simulation.capacity.driver import simulate_pool
from mainspring.simulation.capacity.figures import format_delay, format_share_error
from mainspring.simulation.capacity.page import make_page
from mainspring.simulation.capacity.report import Report
from tests.simulation.small_fleet import report_of, small

VOID = {"meta", "br"}


@pytest.fixture(scope="module")
def report() -> Report:
    scenario = small()
    return report_of(scenario, [simulate_pool(scenario, 0, 1, cpu=lambda: 0.0)])


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"td", "th"}:
            self.cells.append(data)


def test_the_file_needs_nothing_from_outside(report: Report) -> None:
    page = make_page(report)

    assert not re.search(r"<script|<link|<img|@import|url\(|\bon\w+=|https?:", page)
    assert "prefers-color-scheme: dark" in page


def test_every_drawing_has_a_title_a_description_and_a_table(report: Report) -> None:
    page = make_page(report)
    reader = _Reader()
    reader.feed(page)

    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) >= 7
    for drawing in drawings:
        parsed = ET.fromstring(drawing)  # noqa: S314 - it is our own
        named = parsed.attrib["aria-labelledby"].split()
        assert [child.attrib["id"] for child in parsed[:2]] == named
        assert all(child.text for child in parsed[:2])
    for row in report.priorities:
        assert format_delay(row.delays.p99_seconds) in reader.cells
    for tenant in report.tenants:
        assert {tenant.tenant, format_share_error(tenant.share_error)} <= set(reader.cells)


def test_what_is_partial_says_so(report: Report) -> None:
    assert "Partial: it was interrupted" in make_page(replace(report, is_partial=True))
    assert "Partial" not in make_page(report)


def test_a_report_of_nothing_can_be_shown(report: Report) -> None:
    nothing = replace(report, priorities=(), tenants=(), timeline=(), fairness=None, placed=0, ends={})

    assert "nothing to compare" in make_page(nothing)


def test_what_a_scenario_is_called_can_not_become_markup(report: Report) -> None:
    page = make_page(replace(report, scenario="<script>", about="<b>&"))

    assert "<script" not in page
    assert "&lt;b&gt;&amp;" in page
