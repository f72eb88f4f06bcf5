"""Small drawings as SVG text: lines over time, ranges in rows, and columns. No script, and no color of their own.

The page (`page.py`) defines their style: they use classes with colors for light and dark mode.
Each has a title and a description for screen readers; the same figures are in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

_WIDTH = 960
_LEFT = 76
_RIGHT = 132
"""Space for the names at the ends of lines."""
_VALUES = 180
"""Space for the values at the ends of ranges."""
_TOP = 14
_BOTTOM = 34
_TICKS = 4
_LABEL_HEIGHT = 16
_LEAST_LOG = 0.001
Say = Callable[[float], str]


class Series(NamedTuple):
    """A line: its name, its class, and a value for each time."""

    name: str
    style: str
    values: Sequence[float]


class Range(NamedTuple):
    """A row of a range plot: three values, with the middle one marked."""

    name: str
    low: float
    middle: float
    high: float


class Caption(NamedTuple):
    """Title and description of a plot."""

    title: str
    about: str


def lines(
    words: Caption, at: Sequence[float], series: Sequence[Series], say: Say, *, most: float | None = None,
    height: int = 240,
) -> str:  # fmt: skip
    """Lines over time, each labeled at its end. By default the scale is that of counts."""
    highest = max((max(one.values, default=0) for one in series), default=0)
    top = most if most is not None else _nice(max(_TICKS, highest))
    first, last = (at[0], at[-1]) if at else (0.0, 1.0)
    across = _linear(first, max(last, first + 1e-9), _LEFT, _WIDTH - _RIGHT)
    up = _linear(0.0, top, height - _BOTTOM, _TOP)
    parts = [_grid(up, [top * step / _TICKS for step in range(_TICKS + 1)], say), _time_axis(across, at, height)]
    for one in series:
        points = " ".join(f"{across(x):.1f},{up(min(y, top)):.1f}" for x, y in zip(at, one.values, strict=True))
        parts.append(f'<polyline class="line {one.style}" points="{points}"/>')
    ends = [up(min(one.values[-1], top)) if one.values else up(0) for one in series]
    for one, y in zip(series, _apart(ends, height - _BOTTOM), strict=True):
        parts.append(_key(_WIDTH - _RIGHT + 8, y, one))
    return _svg(words, height, parts)


def ranges(words: Caption, rows: Sequence[Range], say: Say) -> str:
    """Rows from the low to the high value on a logarithmic scale, with the middle marked and the values written."""
    row_height = 46
    height = _TOP + row_height * len(rows) + _BOTTOM
    across = _logarithmic([value for row in rows for value in (row.low, row.high)], _LEFT, _WIDTH - _VALUES)
    parts = [_log_axis(across, height, say)]
    for number, row in enumerate(rows):
        y = _TOP + row_height * number + row_height / 2
        low, middle, high = (across.place(value) for value in (row.low, row.middle, row.high))
        values = " · ".join(escape(say(value)) for value in (row.low, row.middle, row.high))
        parts += [
            f'<text class="name" x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(row.name)}</text>',
            f'<line class="range" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>',
            f'<circle class="dot" cx="{low:.1f}" cy="{y}" r="4"/>',
            f'<rect class="mark" x="{middle - 2:.1f}" y="{y - 9}" width="4" height="18"/>',
            f'<circle class="dot" cx="{high:.1f}" cy="{y}" r="4"/>',
            f'<text class="note" x="{high + 10:.1f}" y="{y + 4}">{values}</text>',
        ]
    return _svg(words, height, parts)


def columns(words: Caption, rows: Sequence[Range], say: Say) -> str:
    """Many thin ranges side by side on a logarithmic scale, with names and values on hover."""
    height = 260
    up = _logarithmic([value for row in rows for value in (row.low, row.high)], height - _BOTTOM, _TOP)
    step = (_WIDTH - _LEFT - 12) / max(1, len(rows))
    parts = [_grid(up.place, up.ticks, say, right=12)]
    wide = max(1.5, min(8.0, step * 0.6))
    for number, row in enumerate(rows):
        x = _LEFT + step * (number + 0.5)
        low, middle, high = (up.place(value) for value in (row.low, row.middle, row.high))
        about = f"{row.name}: {say(row.low)}, {say(row.middle)}, {say(row.high)}"
        parts.append(
            f"<g><title>{escape(about)}</title>"
            f'<rect class="span" x="{x - wide / 2:.1f}" y="{high:.1f}" width="{wide:.1f}" '
            f'height="{max(1.0, low - high):.1f}"/>'
            f'<rect class="mark" x="{x - wide / 2 - 1.5:.1f}" y="{middle - 1:.1f}" width="{wide + 3:.1f}" height="2"/>'
            "</g>"
        )
    parts.append(_caption(height, f"{len(rows)} tenants, shortest delay first"))
    return _svg(words, height, parts)


def bars(words: Caption, rows: Sequence[tuple[str, float]], say: Say) -> str:
    """Many thin bars above and below an axis, with names and values on hover."""
    height = 220
    most = _nice(max((abs(value) for _, value in rows), default=0.0))
    up = _linear(-most, most, height - _BOTTOM, _TOP)
    step = (_WIDTH - _LEFT - 12) / max(1, len(rows))
    wide = max(1.0, min(14.0, step * 0.7))
    parts = [_grid(up, [-most, -most / 2, 0.0, most / 2, most], say, right=12)]
    for number, (name, value) in enumerate(rows):
        x, y = _LEFT + step * (number + 0.5), up(value)
        parts.append(
            f"<g><title>{escape(f'{name}: {say(value)}')}</title>"
            f'<rect class="span" x="{x - wide / 2:.1f}" y="{min(y, up(0)):.1f}" width="{wide:.1f}" '
            f'height="{max(1.0, abs(y - up(0))):.1f}"/></g>'
        )
    parts.append(_caption(height, f"{len(rows)} tenants, by usage relative to weight"))
    return _svg(words, height, parts)


class _Log:
    """A logarithmic scale whose ends are powers of ten."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self._low, self._high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        self._high = max(self._high, self._low + 1)
        self._begin, self._end = begin, end
        self.ticks = [10.0**power for power in range(self._low, self._high + 1)]

    def place(self, value: float) -> float:
        """Position of a value."""
        part = (math.log10(max(value, 10.0**self._low)) - self._low) / (self._high - self._low)
        return self._begin + part * (self._end - self._begin)


def _logarithmic(values: Sequence[float], begin: float, end: float) -> _Log:
    above = [value for value in values if value > _LEAST_LOG]
    return _Log(max(min(above, default=_LEAST_LOG), _LEAST_LOG), max(above, default=1.0), begin, end)


def _linear(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    width = (high - low) or 1.0
    return lambda value: begin + (value - low) / width * (end - begin)


def _nice(value: float) -> float:
    """A round number that is at least this."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return float(next(size * step for step in (1, 2, 4, 5, 8, 10) if size * step >= value * (1 - 1e-9)))


def _grid(up: Callable[[float], float], ticks: Sequence[float], say: Say, right: int = _RIGHT) -> str:
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{escape(say(tick))}</text>'
        for tick in ticks
    )


def _time_axis(across: Callable[[float], float], at: Sequence[float], height: int) -> str:
    if not at:
        return ""
    step = _nice((at[-1] - at[0]) / 8)
    ticks = [step * number for number in range(math.ceil(at[0] / step), math.floor(at[-1] / step + 1e-9) + 1)]
    return "".join(
        f'<text class="tick" x="{across(tick):.1f}" y="{height - 12}" text-anchor="middle">{tick:g} s</text>'
        for tick in ticks
    )


def _log_axis(across: _Log, height: int, say: Say) -> str:
    return "".join(
        f'<line class="grid" x1="{across.place(tick):.1f}" x2="{across.place(tick):.1f}" y1="{_TOP}" '
        f'y2="{height - _BOTTOM}"/>'
        f'<text class="tick" x="{across.place(tick):.1f}" y="{height - 12}" text-anchor="middle">'
        f"{escape(say(tick))}</text>"
        for tick in across.ticks
    )


def _apart(places: Sequence[float], most: float) -> list[float]:
    """Positions for labels near these, without overlap."""
    order = sorted(range(len(places)), key=lambda number: -places[number])
    found, free = list(places), most
    for number in order:
        found[number] = min(places[number], free)
        free = found[number] - _LABEL_HEIGHT
    return found


def _key(x: float, y: float, series: Series) -> str:
    return (
        f'<line class="line {series.style}" x1="{x}" x2="{x + 14}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="name" x="{x + 20}" y="{y + 4:.1f}">{escape(series.name)}</text>'
    )


def _caption(height: int, text: str) -> str:
    return f'<text class="tick" x="{_LEFT}" y="{height - 12}">{escape(text)}</text>'


def _svg(words: Caption, height: float, parts: Sequence[str]) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in words.title.lower())
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-labelledby="{name}-title {name}-about">'
        f'<title id="{name}-title">{escape(words.title)}</title><desc id="{name}-about">{escape(words.about)}</desc>'
        f"{''.join(parts)}</svg>"
    )
