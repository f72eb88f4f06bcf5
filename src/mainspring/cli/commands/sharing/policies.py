"""`mainspring policies`: where the runs of certain jobs may be."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    Noun,
    Printing,
    Reach,
    limited,
    named_values,
    prints,
    prints_rows,
    reaches_server,
    watched,
)

_name = click.argument("name", shell_complete=candidates.policies)


@click.group("policies", cls=Noun, invoke_without_command=True)
@watched
@limited(200)
@prints_rows
@reaches_server
@click.pass_context
def policies(ctx: click.Context, /, reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
    """List policies: jobs with a label run only in pools with certain labels; and which pools these are now.

    \b
    Examples:
      mainspring policies
      mainspring policies set eu-data --label eu_data --require region=eu
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import POLICIES

    with reach.client() as client:
        show_list(lambda: client.policies(limit=limit), POLICIES, printing, watch=watch, limit=limit)


@policies.command(name="set")
@_name
@click.option("--label", required=True, metavar="NAME[=VALUE]", help="Jobs with this label; without a value, any.")
@click.option(
    "--require", "requires", multiple=True, required=True, callback=named_values, metavar="NAME=VALUE",
    help="A label that the pool must have. Can be given several times.",
)  # fmt: skip
@click.option("--note", default="", help="What it is for.")
@prints
@reaches_server
def change(reach: Reach, printing: Printing, name: str, label: str, requires: dict[str, str], note: str) -> None:
    """Let jobs with a label run only in pools with certain labels: policy NAME, in the place of what it was before.

    A run of such a job is refused if no pool qualifies; what waits in another pool stays there and does not start.

    \b
    Examples:
      mainspring policies set eu-data --label eu_data --require region=eu
      mainspring policies set secret --label class=secret --require audited=yes --note "by contract"
    """
    from mainspring.cli.render.output import print_rows
    from mainspring.cli.render.sharing_tables import POLICIES
    from mainspring.protocol.rest.sharing import PolicyRequest

    of_jobs, _, value = label.partition("=")
    with reach.client() as client:
        policy = client.put_policy(name, PolicyRequest(label=of_jobs, value=value, requires=requires, note=note))
    print_rows([policy], POLICIES, printing)


@policies.command("drop")
@_name
@click.option("--why", default="", help="Why; it is kept with the deed.")
@prints
@reaches_server
def drop(reach: Reach, printing: Printing, name: str, why: str) -> None:
    """Take policy NAME away: its jobs may run anywhere.

    \b
    Examples:
      mainspring policies drop eu-data
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(name, "drop", client.drop_policy(name, why))], printing)
