"""`mainspring doctor`: health checks of an installation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints, reaches_server

if TYPE_CHECKING:
    from mainspring.doctor.findings import Report
    from mainspring.protocol.clock import MachineClock

_PROBLEM = 1
_UNREACHABLE = 3
_PATIENCE_SECONDS = 0.0
_ANSWER_SECONDS = 5.0
"""A server that does not answer within this time is reported as unreachable."""


@click.command("doctor")
@click.option("--pool", shell_complete=candidates.pools, help="Check this pool only.")
@click.option(
    "--store", default="sqlite:///./.mainspring/mainspring.db", show_default=True, metavar="URL",
    envvar=["MAINSPRING_SERVER__STORE", "MAINSPRING_STORE"],
    help="Local store to inspect if the server does not answer.",
)  # fmt: skip
@prints
@reaches_server
def doctor(reach: Reach, printing: Printing, pool: str | None, store: str) -> None:
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
    from mainspring.protocol.clock import MachineClock
    from mainspring.protocol.errors import Unreachable

    clock = MachineClock()
    try:
        report = _ask_server(reach, pool, clock)
    except Unreachable as error:
        report = _look_around(reach, store, error, clock)
    print_report(report, printing)
    if not report.is_reached:
        sys.exit(_UNREACHABLE)
    if report.problems:
        sys.exit(_PROBLEM)


def _ask_server(reach: Reach, pool: str | None, clock: MachineClock) -> Report:
    """Check the server. Raises Unreachable, Unauthenticated, or NotFound if there is no such pool."""
    from mainspring.cli.render import terminal
    from mainspring.doctor.gather import ask
    from mainspring.doctor.questions import judge

    with (
        reach.client(_PATIENCE_SECONDS, _ANSWER_SECONDS) as client,
        terminal.status(f"checking {client.url}") as tell,
    ):
        return judge(ask(client, clock, pool, tell))


def _look_around(reach: Reach, store: str, error: Exception, clock: MachineClock) -> Report:
    """Check this machine. Raises Unreachable if the address is invalid."""
    from mainspring.doctor.local_machine import look_around
    from mainspring.doctor.questions import judge_nearby

    with reach.client() as client:
        return judge_nearby(look_around(client.url, store, str(error), clock.wall()))
