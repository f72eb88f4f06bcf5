"""Human-readable report of `mainspring smoke`: one row per kind of probe, and every violation."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Column, Table, print_one, print_rows
from mainspring.definitions.quantities import say_seconds
from mainspring.smoke.outcomes import KindLine, Wrong
from mainspring.smoke.trial import SmokeReport

_MOST_FAULTS = 20

KINDS: Table[KindLine] = Table(
    [
        Column("kind", lambda line, _: line.kind),
        Column("ok", lambda line, _: "ok" if line.right == line.tasks else "FAILED"),
        Column("passed", lambda line, _: f"{line.right} of {line.tasks}"),
        Column("workers", lambda line, _: line.workers),
        Column("waited_p50", lambda line, _: _length(line.waited_p50_seconds)),
        Column("waited_max", lambda line, _: _length(line.waited_max_seconds)),
        Column("requirement", lambda line, _: line.about),
    ],
    id=lambda line: line.kind,
)
WRONG: Table[Wrong] = Table(
    [
        Column("kind", lambda wrong, _: wrong.kind),
        Column("task", lambda wrong, _: wrong.task),
        Column("worker", lambda wrong, _: wrong.worker),
        Column("reason", lambda wrong, _: wrong.why),
    ],
    id=lambda wrong: wrong.task,
)


def print_smoke(report: SmokeReport, printing: Printing) -> None:
    """Print the report."""
    print_one(report, report.pool, printing, lambda: _for_people(report, printing))


def _for_people(report: SmokeReport, printing: Printing) -> None:
    print_rows(report.kinds, KINDS, printing)
    for why, kinds in groupby(sorted(report.left_out, key=report.left_out.__getitem__), report.left_out.__getitem__):
        click.echo(f"skipped: {', '.join(kinds)}: {why}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.wrong:
        click.echo("\nviolations:")
        print_rows(report.wrong[:_MOST_FAULTS], WRONG, printing)
        if len(report.wrong) > _MOST_FAULTS:
            click.echo(f".. and {len(report.wrong) - _MOST_FAULTS} more; use -o json to see all")
    click.echo(f"\n{_summary(report)}")


def _summary(report: SmokeReport) -> str:
    where = f"pool {report.pool}, as tenant {report.tenant}, in {say_seconds(report.seconds)}"
    if report.is_over_time:
        return f"timed out: {report.right} of {report.tasks} tasks passed; {where}"
    if report.wrong:
        counted = "1 violation" if len(report.wrong) == 1 else f"{len(report.wrong)} violations"
        return f"{counted}: {report.right} of {report.tasks} tasks passed; {where}"
    return f"all {report.tasks} tasks passed; {where}"


def _length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
