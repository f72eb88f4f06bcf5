"""A report as a table, in Markdown or plain text."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.table import machine_in_words, markdown_table
from benchmarks.sizes.growth import LIMIT, Point, Report

HEAD = (
    "size", "tasks/s", "times as slow", "P0 p50 ms", "times as late", "P0 p95 ms", "CPU µs/task", "store µs/task",
    "times the CPU",
)  # fmt: skip
_MARK = "*"
_LEGEND = (
    "`tasks/s`: no-op tasks from their acknowledged submission until all have ended, durably. `P0`: from the "
    "acknowledged submission of a run to its durable assignment, with nothing else to do. `times ..`: against the "
    f"first row; at most {LIMIT:g} is the goal for the first two. Best of {{visits}} visits to each size, in turn. "
    f"`{_MARK}`: others used a quarter of a core or more during each of them."
)


def markdown(report: Report) -> str:
    """The complete report as a page."""
    parts = [about(report), _LEGEND.format(visits=report.visits)]
    for series in report.series:
        parts += [f"### {series.title}", series.about, markdown_table(HEAD, map(_cells, series.points))]
    return "\n\n".join(parts) + "\n"


def plain(report: Report) -> str:
    """The figures as columns for a terminal."""
    lines = [(series.title, *HEAD[1:]) for series in report.series]
    rows = [[line, *map(_cells, series.points)] for line, series in zip(lines, report.series, strict=True)]
    widths = [max(len(line[number]) for table in rows for line in table) for number in range(len(HEAD))]
    tables = ["\n".join(_row(line, widths) for line in table) for table in rows]
    return "\n\n".join([*tables, "\n".join(f"{name}  {ratio:g}" for name, ratio in report.worst.items())]) + "\n"


def about(report: Report) -> str:
    """Time and machine of the measurement."""
    quiet = " Others used the machine meanwhile; what that touched is marked." if report.is_disturbed else ""
    return f"{report.began_at}, in {report.seconds / 60:.0f} minutes, on {machine_in_words(report.machine)}.{quiet}"


def _cells(point: Point) -> list[str]:
    mark = _MARK if point.disturbed else ""
    return [
        f"{point.size:,}",
        f"{point.tasks_per_s:,.0f}{mark}",
        f"{point.throughput_ratio:g}",
        f"{point.latency_ms_p50:g}{mark}",
        f"{point.latency_ratio:g}",
        f"{point.latency_ms_p95:g}{mark}",
        f"{point.cpu_us_per_task:g}",
        f"{point.store_cpu_us_per_task:g}",
        f"{point.cpu_ratio:g}",
    ]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        cell.rjust(width) if number else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
