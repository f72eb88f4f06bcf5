"""`mainspring policies`: placement policies of jobs."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    limit_option,
    named_values,
    watch_option,
    with_connection_options,
    with_output_options,
    with_table_options,
)

_name = click.argument("name", shell_complete=candidates.policies)


@click.group("policies", cls=ResourceGroup, invoke_without_command=True)
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
@click.pass_context
def policies(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List policies, which restrict jobs with a label to pools with certain labels.

    \b
    Examples:
      mainspring policies
      mainspring policies set eu-data --label eu_data --require region=eu
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import POLICIES

    with connection.client() as client:
        show_list(lambda: client.policies(limit=limit), POLICIES, printing, watch=watch, limit=limit)


@policies.command(name="set")
@_name
@click.option("--label", required=True, metavar="NAME[=VALUE]", help="Label of jobs; any value if omitted.")
@click.option(
    "--require", "requires", multiple=True, required=True, callback=named_values, metavar="NAME=VALUE",
    help="Label that the pool must have. Repeatable.",
)  # fmt: skip
@click.option("--note", default="", help="A note for other people.")
@with_output_options
@with_connection_options
def change(
    connection: ConnectionOptions, printing: Printing, name: str, label: str, requires: dict[str, str], note: str
) -> None:
    """Create or replace policy NAME, which restricts jobs with a label to pools with certain labels.

    Runs are rejected if no pool qualifies. Runs already waiting in another pool stay there and do not start.

    \b
    Examples:
      mainspring policies set eu-data --label eu_data --require region=eu
      mainspring policies set secret --label class=secret --require audited=yes --note "by contract"
    """
    from mainspring.cli.render.output import print_rows
    from mainspring.cli.render.sharing_tables import POLICIES
    from mainspring.protocol.rest.sharing import PolicyRequest

    of_jobs, _, value = label.partition("=")
    with connection.client() as client:
        policy = client.put_policy(name, PolicyRequest(label=of_jobs, value=value, requires=requires, note=note))
    print_rows([policy], POLICIES, printing)


@policies.command("drop")
@_name
@click.option("--why", default="", help="Reason, recorded in the audit log.")
@with_output_options
@with_connection_options
def drop(connection: ConnectionOptions, printing: Printing, name: str, why: str) -> None:
    """Delete policy NAME. Its jobs may run in any pool.

    \b
    Examples:
      mainspring policies drop eu-data
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(name, "drop", client.drop_policy(name, why))], printing)
