"""`mainspring doctor`: is everything well, and what to do if not."""

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
"""A server that has not answered by then does not: that is worth saying at once."""


@click.command("doctor")
@click.option("--pool", shell_complete=candidates.pools, help="Ask about this pool only; about all, unless said.")
@click.option(
    "--store", default="sqlite:///./.mainspring/mainspring.db", show_default=True, metavar="URL",
    envvar=["MAINSPRING_SERVER__STORE", "MAINSPRING_STORE"],
    help="The store of the server on this machine: looked at from outside if the server does not answer.",
)  # fmt: skip
@prints
@reaches_server
def doctor(reach: Reach, printing: Printing, pool: str | None, store: str) -> None:
    """Ask what somebody on call would ask, and say what is found, in numbers, and what to do about it.

    Whether anything can be scheduled at all; whether one pool is down; what waits for long, and for what; whether
    schedules fire; whether work starts late. With -t, also what makes that tenant slow. If no server answers: what can
    be seen from here. It changes nothing. Exits with 1 if it finds a problem, and with 3 if no server answers.

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
    """What the server says. Raises Unreachable, Unauthenticated, or NotFound if there is no such pool."""
    from mainspring.cli.render import terminal
    from mainspring.doctor.gather import ask
    from mainspring.doctor.questions import judge

    with (
        reach.client(_PATIENCE_SECONDS, _ANSWER_SECONDS) as client,
        terminal.status(f"asking {client.url}") as tell,
    ):
        return judge(ask(client, clock, pool, tell))


def _look_around(reach: Reach, store: str, error: Exception, clock: MachineClock) -> Report:
    """What this machine shows. Raises Unreachable if the address is none."""
    from mainspring.doctor.local_machine import look_around
    from mainspring.doctor.questions import judge_nearby

    with reach.client() as client:
        return judge_nearby(look_around(client.url, store, str(error), clock.wall()))
