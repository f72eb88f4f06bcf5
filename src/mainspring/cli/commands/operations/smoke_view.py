"""What became of a trial, for people: a line for each kind of need, and every fault."""

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
        Column("ok", lambda line, _: "ok" if line.right == line.tasks else "WRONG"),
        Column("right", lambda line, _: f"{line.right} of {line.tasks}"),
        Column("workers", lambda line, _: line.workers),
        Column("waited_p50", lambda line, _: _length(line.waited_p50_seconds)),
        Column("waited_max", lambda line, _: _length(line.waited_max_seconds)),
        Column("asks_for", lambda line, _: line.about),
    ],
    id=lambda line: line.kind,
)
WRONG: Table[Wrong] = Table(
    [
        Column("kind", lambda wrong, _: wrong.kind),
        Column("task", lambda wrong, _: wrong.task),
        Column("worker", lambda wrong, _: wrong.worker),
        Column("because", lambda wrong, _: wrong.why),
    ],
    id=lambda wrong: wrong.task,
)


def print_smoke(report: SmokeReport, printing: Printing) -> None:
    """Print it."""
    print_one(report, report.pool, printing, lambda: _for_people(report, printing))


def _for_people(report: SmokeReport, printing: Printing) -> None:
    print_rows(report.kinds, KINDS, printing)
    for why, kinds in groupby(sorted(report.left_out, key=report.left_out.__getitem__), report.left_out.__getitem__):
        click.echo(f"left out: {', '.join(kinds)}: {why}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.wrong:
        click.echo("\nnot as it was asked for:")
        print_rows(report.wrong[:_MOST_FAULTS], WRONG, printing)
        if len(report.wrong) > _MOST_FAULTS:
            click.echo(f".. and {len(report.wrong) - _MOST_FAULTS} more; -o json has all")
    click.echo(f"\n{_summary(report)}")


def _summary(report: SmokeReport) -> str:
    where = f"pool {report.pool}, as tenant {report.tenant}, in {say_seconds(report.seconds)}"
    if report.is_over_time:
        return f"the time is over: {report.right} of {report.tasks} tasks were as asked for; {where}"
    if report.wrong:
        faults = "1 fault" if len(report.wrong) == 1 else f"{len(report.wrong)} faults"
        return f"{faults}: {report.right} of {report.tasks} tasks were as asked for; {where}"
    return f"all {report.tasks} tasks were placed as asked for, and gave the right result; {where}"


def _length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
