"""`mainspring doctor`: health checks of an installation, by topic, with advice below each."""

from __future__ import annotations

import shutil
import sys
import textwrap
from itertools import groupby

import rich_click as click

from mainspring.cli.options import ConnectionOptions, Printing, pool_option
from mainspring.cli.render import terminal
from mainspring.cli.resource import Session, with_session
from mainspring.doctor.gather import gather
from mainspring.doctor.health_check import Answer, Check, Report
from mainspring.doctor.local_machine import probe_local_machine
from mainspring.doctor.run_checks import run_checks, run_local_checks
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Unreachable

_SIGNS = {Answer.YES: "✓", Answer.NO: "✗", Answer.UNKNOWN: "·"}
_STYLES = {Answer.YES: "green", Answer.NO: "red", Answer.UNKNOWN: "yellow"}
_SIGN = "  x "
_MAX_LINE_WIDTH = 140
_MIN_LINE_WIDTH = 30
_MIN_FINDING_WIDTH = 60
"""Minimum width for findings next to the questions; on narrower terminals they go below."""
_PROBLEM = 1
_UNREACHABLE = 3
_RETRY_WINDOW_SECONDS = 0.0
_REQUEST_TIMEOUT_SECONDS = 5.0
"""A server that does not answer within this time is reported as unreachable."""


@click.command("doctor")
@pool_option("Check this pool only.")
@click.option(
    "--store", default="sqlite:///./.mainspring/mainspring.db", show_default=True, metavar="URL",
    envvar=["MAINSPRING_SERVER__STORE", "MAINSPRING_STORE"],
    help="Local store to inspect if the server does not answer.",
)  # fmt: skip
@with_session
def doctor(session: Session, pool: str | None, store: str) -> None:
    """Run health checks and suggest fixes.

    Checks whether tasks can be scheduled, whether a pool is down, what waits long and why, whether schedules fire, and
    whether runs start late. With -t, also what slows that tenant down. If no server answers, it checks this machine.
    It changes nothing. Exits with 1 if it finds a problem, and with 3 if no server answers.

    \b
    Examples:
      mainspring doctor
      mainspring doctor -t acme
      mainspring doctor --pool gpu -o json
    """
    clock = SystemClock()
    try:
        report = _ask_server(session.connection, pool, clock)
    except Unreachable as error:
        report = _inspect_locally(session.connection, store, error, clock)
    session.print_one(report, report.server, lambda: _print_text(report, session.printing))
    if not report.is_reached:
        sys.exit(_UNREACHABLE)
    if report.problems:
        sys.exit(_PROBLEM)


def _ask_server(connection: ConnectionOptions, pool: str | None, clock: SystemClock) -> Report:
    """Check the server. Raises Unreachable, Unauthenticated, or NotFound if there is no such pool."""
    with (
        connection.client(_RETRY_WINDOW_SECONDS, _REQUEST_TIMEOUT_SECONDS) as client,
        terminal.status(f"checking {client.url}") as report_progress,
    ):
        return run_checks(gather(client, clock, pool, report_progress))


def _inspect_locally(connection: ConnectionOptions, store: str, error: Exception, clock: SystemClock) -> Report:
    """Check this machine. Raises Unreachable if the address is invalid."""
    with connection.client() as client:
        return run_local_checks(probe_local_machine(client.url, store, str(error), clock.wall()))


def _print_text(report: Report, printing: Printing) -> None:
    has_color = terminal.has_color(printing.color, sys.stdout)
    version = f", version {report.version}" if report.version else ""
    click.echo(f"{report.server}{version}")
    column = max(len(check.question) for check in report.checks) + len(_SIGN)
    for topic, checks in groupby(report.checks, key=lambda check: check.topic):
        click.echo(f"\n{click.style(topic, bold=True) if has_color else topic}")
        for check in checks:
            for line in _lines(check, column, has_color=has_color):
                click.echo(line)
    click.echo(f"\n{_summary(report)}")


def _lines(check: Check, column: int, *, has_color: bool) -> list[str]:
    """Format a check: the finding next to the question, advice below, and the command on its own line for copying.

    On a narrow terminal the finding goes below the question.
    """
    sign = _SIGNS[check.answer]
    shown = click.style(sign, fg=_STYLES[check.answer], bold=True) if has_color else sign
    width = _width()
    is_narrow = width is not None and width < column + _MIN_FINDING_WIDTH
    indent = " " * len(_SIGN) * 2 if is_narrow else " " * (len(_SIGN) + column)
    found = _wrapped(check.finding, width, indent)
    advice = _wrapped(f"→ {check.advice}", width, indent) if check.advice else []
    below = [indent + line for line in (*found[1:], *advice)]
    if check.command:
        command = click.style(check.command, fg="green") if has_color else check.command
        below.append(f"{indent}  {command}")
    if is_narrow:
        return [f"  {shown} {check.question}", indent + found[0], *below]
    return [f"  {shown} {check.question:<{column}}{found[0]}", *below]


def _width() -> int | None:
    """Return the maximum line width; None without a terminal."""
    return min(_MAX_LINE_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def _wrapped(text: str, width: int | None, indent: str) -> list[str]:
    """Wrap a text to fit after an indent."""
    if width is None:
        return [text]
    return textwrap.wrap(text, max(_MIN_LINE_WIDTH, width - len(indent)), break_on_hyphens=False)


def _summary(report: Report) -> str:
    unsure = sum(check.answer is Answer.UNKNOWN for check in report.checks)
    rest = f"; {unsure} inconclusive" if unsure else ""
    found = "1 problem" if report.problems == 1 else f"{report.problems or 'no'} problems"
    return f"{len(report.checks)} checks, {found} found{rest}"
