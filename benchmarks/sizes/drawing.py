"""A report as a chart: for each dimension, the cost at each size relative to the smallest."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from benchmarks.peers.drawing import FOOT, HEAD, LEFT, RIGHT, WIDTH, across, scale_ends, stacked
from benchmarks.sizes.growth import LIMIT, Point, Report, Series

_TALL = 150
_MIN_TOP = 2.0
_LINES: dict[str, tuple[str, Callable[[Point], float]]] = {
    "time per task": ("#d2691e", lambda point: point.throughput_ratio),
    "latency of P0": ("#4472a8", lambda point: point.latency_ratio),
    "CPU per task": ("#888888", lambda point: point.cpu_ratio),
}


def svg(report: Report) -> str:
    """The charts of all dimensions, stacked."""
    said = (
        f"{report.began_at}, {report.machine.processor}. Times what it is at the smallest size; dashed: the goal, "
        f"at most {LIMIT:g}. Pale: others used the machine."
    )
    height = HEAD + _TALL + 2 * FOOT
    return stacked("Cost against size", said, ((height, _draw(series)) for series in report.series))


def top_of(series: Series) -> float:
    """The upper end of the scale of ratios: above all values and the limit."""
    return max(_MIN_TOP, float(math.ceil(max(ratio(point) for point in series.points for _, ratio in _LINES.values()))))


def abscissa(size: int, smallest: int) -> float:
    """Position of a size on a logarithmic scale; zero is a power of ten before the smallest."""
    return float(size) if size else smallest / 10


def _draw(series: Series) -> str:
    smallest = min(point.size for point in series.points if point.size)
    places = [abscissa(point.size, smallest) for point in series.points]
    low, high = scale_ends(places)
    top, bottom = top_of(series), HEAD + _TALL
    parts = [f'<text class="title" x="12" y="24">{escape(series.title)}</text>']
    for at, point in zip(places, series.points, strict=True):
        x = across(at, low, high)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{point.size:,}</text>')
    for value in sorted({0.0, 1.0, LIMIT, top}):
        y = _down(value, top)
        style = "limit" if value == LIMIT else "grid"
        parts.append(f'<line class="{style}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for number, (name, (color, ratio)) in enumerate(_LINES.items()):
        spots = [
            (across(at, low, high), _down(ratio(point), top)) for at, point in zip(places, series.points, strict=True)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline class="line" stroke="{color}" points="{line}"/>')
        for (x, y), point in zip(spots, series.points, strict=True):
            pale = ' class="disturbed"' if point.disturbed else ""
            parts.append(
                f'<circle{pale} cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}">'
                f"<title>{escape(name)} at {point.size:,}: {ratio(point):g}</title></circle>"
            )
        parts.append(f'<text x="12" y="{HEAD + 20 * (number + 1)}" style="fill:{color}">{escape(name)}</text>')
    return "".join(parts)


def _down(value: float, top: float) -> float:
    return HEAD + _TALL * (1 - value / top)
