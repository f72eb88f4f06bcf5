"""`mainspring doctor`: health checks of an installation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options

if TYPE_CHECKING:
    from mainspring.doctor.findings import Report
    from mainspring.protocol.clock import SystemClock

_PROBLEM = 1
_UNREACHABLE = 3
_RETRY_WINDOW_SECONDS = 0.0
_REQUEST_TIMEOUT_SECONDS = 5.0
"""A server that does not answer within this time is reported as unreachable."""


@click.command("doctor")
@click.option("--pool", shell_complete=candidates.pools, help="Check this pool only.")
@click.option(
    "--store", default="sqlite:///./.mainspring/mainspring.db", show_default=True, metavar="URL",
    envvar=["MAINSPRING_SERVER__STORE", "MAINSPRING_STORE"],
    help="Local store to inspect if the server does not answer.",
)  # fmt: skip
@with_output_options
@with_connection_options
def doctor(connection: ConnectionOptions, printing: Printing, pool: str | None, store: str) -> None:
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
    from mainspring.cli.commands.operations.doctor_view import print_report
    from mainspring.protocol.clock import SystemClock
    from mainspring.protocol.errors import Unreachable

    clock = SystemClock()
    try:
        report = _ask_server(connection, pool, clock)
    except Unreachable as error:
        report = _inspect_locally(connection, store, error, clock)
    print_report(report, printing)
    if not report.is_reached:
        sys.exit(_UNREACHABLE)
    if report.problems:
        sys.exit(_PROBLEM)


def _ask_server(connection: ConnectionOptions, pool: str | None, clock: SystemClock) -> Report:
    """Check the server. Raises Unreachable, Unauthenticated, or NotFound if there is no such pool."""
    from mainspring.cli.render import terminal
    from mainspring.doctor.gather import gather
    from mainspring.doctor.run_checks import run_checks

    with (
        connection.client(_RETRY_WINDOW_SECONDS, _REQUEST_TIMEOUT_SECONDS) as client,
        terminal.status(f"checking {client.url}") as report_progress,
    ):
        return run_checks(gather(client, clock, pool, report_progress))


def _inspect_locally(connection: ConnectionOptions, store: str, error: Exception, clock: SystemClock) -> Report:
    """Check this machine. Raises Unreachable if the address is invalid."""
    from mainspring.doctor.local_machine import probe_local_machine
    from mainspring.doctor.run_checks import run_local_checks

    with connection.client() as client:
        return run_local_checks(probe_local_machine(client.url, store, str(error), clock.wall()))
