"""Human-readable report of `mainspring smoke`: one row per kind of probe, and every violation."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby

import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Column, Table, print_one, print_rows
from mainspring.core.text.durations import format_seconds
from mainspring.smoke.outcomes import KindLine, Violation
from mainspring.smoke.trial import SmokeReport

_MAX_VIOLATIONS = 20

KINDS: Table[KindLine] = Table(
    [
        Column("kind", lambda line, _: line.kind),
        Column("ok", lambda line, _: "ok" if line.passed == line.tasks else "FAILED"),
        Column("passed", lambda line, _: f"{line.passed} of {line.tasks}"),
        Column("workers", lambda line, _: line.workers),
        Column("waited_p50", lambda line, _: _length(line.waited_p50_seconds)),
        Column("waited_max", lambda line, _: _length(line.waited_max_seconds)),
        Column("requirement", lambda line, _: line.about),
    ],
    id=lambda line: line.kind,
)
VIOLATIONS: Table[Violation] = Table(
    [
        Column("kind", lambda violations, _: violations.kind),
        Column("task", lambda violations, _: violations.task),
        Column("worker", lambda violations, _: violations.worker),
        Column("reason", lambda violations, _: violations.why),
    ],
    id=lambda violations: violations.task,
)


def print_smoke(report: SmokeReport, printing: Printing) -> None:
    """Print the report."""
    print_one(report, report.pool, printing, lambda: _print_text(report, printing))


def _print_text(report: SmokeReport, printing: Printing) -> None:
    print_rows(report.kinds, KINDS, printing)
    for why, kinds in groupby(sorted(report.skipped, key=report.skipped.__getitem__), report.skipped.__getitem__):
        click.echo(f"skipped: {', '.join(kinds)}: {why}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.violations:
        click.echo("\nviolations:")
        print_rows(report.violations[:_MAX_VIOLATIONS], VIOLATIONS, printing)
        if len(report.violations) > _MAX_VIOLATIONS:
            click.echo(f".. and {len(report.violations) - _MAX_VIOLATIONS} more; use -o json to see all")
    click.echo(f"\n{_summary(report)}")


def _summary(report: SmokeReport) -> str:
    where = f"pool {report.pool}, as tenant {report.tenant}, in {format_seconds(report.seconds)}"
    if report.is_timed_out:
        return f"timed out: {report.passed} of {report.tasks} tasks passed; {where}"
    if report.violations:
        counted = "1 violation" if len(report.violations) == 1 else f"{len(report.violations)} violations"
        return f"{counted}: {report.passed} of {report.tasks} tasks passed; {where}"
    return f"all {report.tasks} tasks passed; {where}"


def _length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
