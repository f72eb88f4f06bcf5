"""`mainspring smoke`: smoke test of a live installation, with tasks of all kinds (OPS-10)."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import groupby

import rich_click as click

from mainspring.cli.commands.runs.wait_for_run import TIMED_OUT
from mainspring.cli.config.connection_settings import resolve_connection_settings
from mainspring.cli.options import ConnectionOptions, number_option, pool_option
from mainspring.cli.render import terminal
from mainspring.cli.render.output import Table, format_number
from mainspring.cli.render.times import parse_timeout
from mainspring.cli.resource import Session, with_session
from mainspring.core.text.durations import format_seconds
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Forbidden
from mainspring.smoke.check_results import KindLine, Violation
from mainspring.smoke.trial import SmokeReport, Trial, run_trial

KINDS = Table.of(
    KindLine,
    "kind ok passed workers waited_p50=waited_p50_seconds waited_max=waited_max_seconds requirement=about",
    ok=lambda line, _: "ok" if line.passed == line.tasks else "FAILED",
    passed=lambda line, _: f"{line.passed} of {line.tasks}",
    id=lambda line: line.kind,
)
VIOLATIONS = Table.of(Violation, "kind task worker reason=why", id=lambda violation: violation.task)
_MAX_VIOLATIONS = 20
TENANT = "smoke"
"""Default tenant of the tasks."""
_VIOLATIONS_FOUND = 1
_RETRY_WINDOW_SECONDS = 10.0
_REQUEST_TIMEOUT_SECONDS = 10.0
"""Timeout of each request, independent of --timeout."""


@click.command("smoke")
@pool_option("Pool to test; the server's default pool if omitted.")
@number_option("--tasks", "Number of tasks.", 100, most=10_000)
@click.option(
    "--timeout", default="5m", show_default=True, metavar="DURATION", help="Give up after this long; exit with 124."
)
@click.option("--strict", is_flag=True, help="Fail if a worker offers more than its machine has.")
@with_session
def smoke(session: Session, pool: str | None, tasks: int, timeout: str, strict: bool) -> None:
    """Submit test tasks and check each placement and result.

    Covers sizes, priorities, zones, labels, GPUs, affinity, anti-affinity, groups, retries and an unplaceable task,
    as far as the workers support them. The tasks belong to tenant `smoke` unless -t names another; the caller needs
    the operator role. Remaining runs are cancelled, also on Ctrl-C. Exits with 1 on any violation.

    \b
    Examples:
      mainspring smoke
      mainspring smoke --pool gpu --tasks 20 --timeout 2m
      mainspring smoke -t acme -o json
    """
    seconds = parse_timeout(timeout) or 0.0
    with (
        _owned(session.connection).client(_RETRY_WINDOW_SECONDS, _REQUEST_TIMEOUT_SECONDS) as client,
        terminal.exit_on_sigterm(),
        terminal.progress_bar(f"{tasks} tasks", tasks) as advance,
    ):
        trial = Trial(pool=pool, tasks=tasks, seconds=seconds, is_strict=strict)
        try:
            report = run_trial(client, SystemClock(), trial, advance)
        except Forbidden as error:
            error.hint = f"use a token with the role operator for tenant {client.tenant}, or another tenant with -t"
            raise
    session.print_one(report, report.pool, lambda: _print_text(session, report))
    if report.is_timed_out:
        sys.exit(TIMED_OUT)
    if report.violations:
        sys.exit(_VIOLATIONS_FOUND)


def _owned(connection: ConnectionOptions) -> ConnectionOptions:
    """Return the connection with a default tenant."""
    return connection if resolve_connection_settings(connection).tenant.value else replace(connection, tenant=TENANT)


def _print_text(session: Session, report: SmokeReport) -> None:
    session.print_rows(report.kinds, KINDS)
    for why, kinds in groupby(sorted(report.skipped, key=report.skipped.__getitem__), report.skipped.__getitem__):
        click.echo(f"skipped {', '.join(kinds)}: {why}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.violations:
        click.echo("\nviolations:")
        session.print_rows(report.violations[:_MAX_VIOLATIONS], VIOLATIONS)
        if len(report.violations) > _MAX_VIOLATIONS:
            click.echo(f".. and {len(report.violations) - _MAX_VIOLATIONS} more; use -o json to see all")
    click.echo(f"\n{_summary(report)}")


def _summary(report: SmokeReport) -> str:
    where = f"pool {report.pool}, as tenant {report.tenant}, in {format_seconds(report.seconds)}"
    if report.is_timed_out:
        return f"timed out: {report.passed} of {report.tasks} tasks passed; {where}"
    if report.violations:
        violations = format_number(len(report.violations), "violation")
        return f"{violations}: {report.passed} of {report.tasks} tasks passed; {where}"
    return f"all {report.tasks} tasks passed; {where}"
