"""`mainspring smoke`: try a live installation with tasks of all kinds, and check where each of them ran (OPS-10)."""

from __future__ import annotations

import sys
from dataclasses import replace

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints, reaches_server

TENANT = "smoke"
"""Whose tasks they are, unless somebody says."""
_WRONG = 1
_PATIENCE_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
"""A server that has not answered by then is not waited for, whatever the time that is left for the tasks."""


@click.command("smoke")
@click.option("--pool", shell_complete=candidates.pools, help="Which pool to try; where runs usually go, unless said.")
@click.option(
    "--tasks", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many tasks, of all kinds."
)
@click.option("--timeout", default="5m", show_default=True, metavar="LENGTH", help="Give up after so long, with 124.")
@click.option("--strict", is_flag=True, help="A worker that offers more than its machine has is wrong as well.")
@prints
@reaches_server
def smoke(reach: Reach, printing: Printing, pool: str | None, tasks: int, timeout: str, strict: bool) -> None:
    """Submit small tasks of many needs to a live installation, and check every placement and every result.

    Small and large ones, of every priority, for a zone, a label or a GPU, near each other and apart, in a group, one
    that fails first, and one that nobody can take: as far as the workers there can serve them. They belong to the
    tenant `smoke`, unless -t says another; whoever calls it needs the role operator. What is left is cancelled, also
    with Ctrl-C. Exits with 1 if anything was not as it was asked for.

    \b
    Examples:
      mainspring smoke
      mainspring smoke --pool gpu --tasks 20 --timeout 2m
      mainspring smoke -t acme -o json
    """
    from mainspring.cli.commands.operations.smoke_view import print_smoke
    from mainspring.cli.commands.runs.wait_for_run import TIMED_OUT, read_timeout
    from mainspring.cli.render import terminal
    from mainspring.protocol.clock import MachineClock
    from mainspring.protocol.errors import Forbidden
    from mainspring.smoke.trial import Trial, carry_out

    seconds = read_timeout(timeout) or 0.0
    with (
        _owned(reach).client(_PATIENCE_SECONDS, _ANSWER_SECONDS) as client,
        terminal.leaving_when_told(),
        terminal.bar(f"{tasks} tasks", tasks) as advance,
    ):
        trial = Trial(pool=pool, tasks=tasks, seconds=seconds, is_strict=strict)
        try:
            report = carry_out(client, MachineClock(), trial, advance)
        except Forbidden as error:
            error.hint = f"it takes a token with the role operator for tenant {client.tenant}; -t names another tenant"
            raise
    print_smoke(report, printing)
    if report.is_over_time:
        sys.exit(TIMED_OUT)
    if report.wrong:
        sys.exit(_WRONG)


def _owned(reach: Reach) -> Reach:
    """The same, with a tenant for the tasks."""
    from mainspring.cli.config.connection_settings import find_whereabouts

    return reach if find_whereabouts(reach).tenant.value else replace(reach, tenant=TENANT)
