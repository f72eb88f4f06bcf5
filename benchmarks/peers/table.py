"""A report as a table, in Markdown or plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.peers.figures import Figure, Machine, Measure, Report, Row

COLUMNS: dict[Measure, str] = {
    Measure.RECORDED: "recorded/s",
    Measure.STARTED: "started/s",
    Measure.CPU: "CPU ms/task",
    Measure.START_P50: "start p50 ms",
    Measure.START_P95: "start p95 ms",
    Measure.STEP_P50: "step p50 ms",
    Measure.FAN_OUT: "fan-out s",
    Measure.ENQUEUE: "enqueue/s",
    Measure.ENQUEUE_MANY: "enqueue many/s",
    Measure.MEMORY: "memory MiB",
}
FULL_WIDTH = 1_000
"""A fan-out of another width is noted in its cell."""
_NOTHING = "-"
_MARK = "*"
_LEGEND = (
    "`recorded/s`: tasks per second until the system's own store says that they are done; `started/s`: until their "
    "first line, which is all that can be said of a system that keeps no record. "
    f"`{_NOTHING}`: it has no notion of it. `{_MARK}`: others used a quarter of a core or more meanwhile."
)


def markdown(report: Report) -> str:
    """The complete report as a page."""
    parts = [
        _about(report),
        markdown_table(["system", "store", *COLUMNS.values()], map(_cells, _ordered(report.rows))),
        _LEGEND,
        "### What was durable, and when",
        markdown_table(["system", "settings", "durable"], ([r.name, r.settings, r.durable] for r in report.rows)),
        "### From nothing to the first run",
        markdown_table(["system", "commands", "installing s", "first task s"], _first_runs(report.rows)),
        _absences(report),
        "### Versions",
        markdown_table(["system", "versions"], ([r.name, _versions(r)] for r in report.rows)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(report: Report) -> str:
    """The figures as columns for a terminal."""
    head = ["system", *COLUMNS.values()]
    rows = [[cells[0], *cells[2:]] for cells in map(_cells, _ordered(report.rows))]
    widths = [max(len(line[number]) for line in [head, *rows]) for number in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) if not number else cell.rjust(width) for number, (cell, width) in pairs)
        for pairs in (enumerate(zip(line, widths, strict=True)) for line in [head, *rows])
    ]
    return "\n".join([*lines, "", _absences(report)]).rstrip() + "\n"


def cell(found: Figure | None, measure: Measure) -> str:
    """Format one figure for the table."""
    if found is None:
        return _NOTHING
    wide = f" ({found.of} wide)" if measure is Measure.FAN_OUT and found.of != FULL_WIDTH else ""
    return f"{_number(found.value)}{_MARK if found.disturbed else ''}{wide}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, with escaped cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def machine_in_words(machine: Machine) -> str:
    """The machine in one line."""
    node = f", Node {machine.node}" if machine.node else ""
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.file_system}, "
        f"{machine.system}, "
        f"Python {machine.python}{node}"
    )


def _about(report: Report) -> str:
    scale = "" if report.scale == 1 else f" Scaled by {report.scale:g}: only good to see that it works."
    quiet = " Others used the machine meanwhile; what that touched is marked." if report.is_disturbed else ""
    return (
        f"{report.began_at}, in {report.seconds / 60:.0f} minutes, on {machine_in_words(report.machine)}.{scale}{quiet}"
    )


def _absences(report: Report) -> str:
    lines = [f"- {name} FAILED: {_end(why)}" for name, why in report.failed.items()]
    lines += [f"- {name} was not measured: {_end(why)}" for name, why in report.skipped.items()]
    lines += [f"- {row.name}: {_end(failure)}" for row in report.rows for failure in row.failures]
    return "\n".join(lines)


def _end(text: str) -> str:
    """The first and the last line of a long error; the JSON has all of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " .. ".join(lines if len(lines) < 2 else [lines[0], lines[-1]])


def _ordered(rows: Iterable[Row]) -> list[Row]:
    """Sort by throughput, fastest first."""
    return sorted(rows, key=lambda row: -_speed(row))


def _speed(row: Row) -> float:
    found = row.figures.get(Measure.RECORDED) or row.figures.get(Measure.STARTED)
    return found.value if found is not None else 0.0


def _cells(row: Row) -> list[str]:
    return [row.name, row.store, *(cell(row.figures.get(measure), measure) for measure in COLUMNS)]


def _first_runs(rows: Iterable[Row]) -> Iterable[list[str]]:
    seen: set[str] = set()
    for row in rows:
        if row.peer in seen:
            continue
        seen.add(row.peer)
        timed = [cell(row.figures.get(measure), measure) for measure in (Measure.INSTALL, Measure.FIRST_RUN)]
        yield [row.name, f"{len(row.quick_start)}: " + "; ".join(f"`{one}`" for one in row.quick_start), *timed]


def _versions(row: Row) -> str:
    return ", ".join(f"{name} {version}" for name, version in row.versions.items())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:g}"
