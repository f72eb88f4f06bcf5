"""A report as a chart: a bar per system, on logarithmic scales, as standalone SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from textwrap import wrap
from typing import NamedTuple

from benchmarks.peers.figures import Measure, Report
from benchmarks.peers.table import machine_in_words

WIDTH = 960
LEFT = 230
RIGHT = 120
_BAR = 18
_ROW = 26
HEAD = 44
FOOT = 24
_LINE = 16
_MAX_LINE_LENGTH = 130
"""Maximum number of small characters per line."""
STYLE = (
    "text{font:13px sans-serif;fill:#333}.title{font-weight:bold;font-size:15px}.tick{fill:#777;font-size:11px}"
    ".grid{stroke:#ddd}.line{fill:none;stroke-width:2}.limit{stroke:#b22222;stroke-dasharray:6 4}"
    ".bar{fill:#8aa4c8}.ours{fill:#d2691e}.disturbed{opacity:.45}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.tick{fill:#999}}"
)


class Bar(NamedTuple):
    """One system's value."""

    name: str
    value: float
    ours: bool
    disturbed: bool


class Panel(NamedTuple):
    """A chart of one measure."""

    title: str
    bars: Sequence[Bar]


def svg(report: Report, ours: str) -> str:
    """The charts of a report, stacked. `ours` is the system whose bars are highlighted."""
    panels = [
        panel
        for panel in (
            _panel(report, ours, "Tasks per second (recorded, else started): more is better", None, most_first=True),
            _panel(report, ours, "Start of one task on an idle system, p50 in ms: less is better", Measure.START_P50),
            _panel(report, ours, "One step of a chain, p50 in ms: less is better", Measure.STEP_P50),
            _panel(report, ours, "CPU per task over all processes, in ms: less is better", Measure.CPU),
        )
        if panel.bars
    ]  # fmt: skip
    about = f"{report.began_at}, {machine_in_words(report.machine)}. Pale bars: others used the machine meanwhile."
    return stacked("How it compares", about, ((_height(panel), _draw(panel)) for panel in panels))


def stacked(title: str, about: str, drawings: Iterable[tuple[float, str]]) -> str:
    """Charts, each with its height, stacked on one page with a description."""
    drawn, top = [], 0.0
    for height, drawing in drawings:
        drawn.append(f'<g transform="translate(0 {top:g})">{drawing}</g>')
        top += height
    for line in wrap(about, _MAX_LINE_LENGTH):
        drawn.append(f'<text class="tick" x="12" y="{top + 14:g}">{escape(line)}</text>')
        top += _LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + _LINE:g}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(about)}</desc><style>{STYLE}</style>{''.join(drawn)}</svg>\n"
    )


def scale_ends(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that enclose all values; they are never equal."""
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _panel(report: Report, ours: str, title: str, measure: Measure | None, *, most_first: bool = False) -> Panel:
    """The bars of one measure; None is the throughput."""
    bars = []
    for row in report.rows:
        found = (
            row.figures.get(Measure.RECORDED) or row.figures.get(Measure.STARTED)
            if measure is None
            else row.figures.get(measure)
        )
        if found is not None and found.value > 0:
            bars.append(Bar(row.name, found.value, row.peer == ours, found.disturbed))
    return Panel(title, sorted(bars, key=lambda bar: -bar.value if most_first else bar.value))


def _height(panel: Panel) -> float:
    return HEAD + _ROW * len(panel.bars) + FOOT


def _draw(panel: Panel) -> str:
    low, high = scale_ends([bar.value for bar in panel.bars])
    parts = [f'<text class="title" x="12" y="24">{escape(panel.title)}</text>']
    bottom = HEAD + _ROW * len(panel.bars)
    for power in range(low, high + 1):
        x = across(10.0**power, low, high)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD - 6}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{10.0**power:g}</text>')
    for number, bar in enumerate(panel.bars):
        y, end = HEAD + _ROW * number, across(bar.value, low, high)
        style = f"{'ours' if bar.ours else 'bar'}{' disturbed' if bar.disturbed else ''}"
        parts.append(f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(bar.name)}</text>')
        parts.append(f'<rect class="{style}" x="{LEFT}" y="{y}" width="{max(1.0, end - LEFT):.1f}" height="{_BAR}"/>')
        parts.append(f'<text x="{end + 6:.1f}" y="{y + 14}">{bar.value:,g}</text>')
    return "".join(parts)


def across(value: float, low: int, high: int) -> float:
    """Horizontal position of a value on a logarithmic scale between two powers of ten."""
    return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
