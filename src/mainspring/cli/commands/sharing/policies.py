"""`mainspring policies`: placement policies of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup, named_values
from mainspring.cli.resource import Listing, Outcome, Session, action, listing, with_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.sharing import PolicyView

_name = click.argument("name", shell_complete=candidates.policies)


@click.group("policies", cls=ResourceGroup)
@listing(200)
def policies(session: Session, limit: int) -> Listing[PolicyView]:
    """List policies, which restrict labeled jobs to certain pools.

    \b
    Examples:
      mainspring policies
      mainspring policies set eu-data --label eu_data --require region=eu
    """
    from mainspring.cli.render.sharing_tables import POLICIES

    return POLICIES, lambda: session.client.policies(limit=limit)


@policies.command("set")
@_name
@click.option("--label", required=True, metavar="NAME[=VALUE]", help="Label of jobs; any value if omitted.")
@click.option(
    "--require", "requires", multiple=True, required=True, callback=named_values, metavar="NAME=VALUE",
    help="Label that the pool must have. Repeatable.",
)  # fmt: skip
@click.option("--note", metavar="TEXT", default="", help="A note for other people.")
@with_session
def change(session: Session, name: str, label: str, requires: dict[str, str], note: str) -> None:
    """Create or replace policy NAME.

    It restricts jobs with a label to pools with certain labels. Runs are rejected if no pool qualifies. Runs
    already waiting in another pool stay there and do not start.

    \b
    Examples:
      mainspring policies set eu-data --label eu_data --require region=eu
      mainspring policies set secret --label class=secret --require audited=yes --note "by contract"
    """
    from mainspring.cli.render.sharing_tables import POLICIES
    from mainspring.protocol.rest.sharing import PolicyRequest

    of_jobs, _, value = label.partition("=")
    request = PolicyRequest(label=of_jobs, value=value, requires=requires, note=note)
    session.print_rows([session.client.put_policy(name, request)], POLICIES)


@policies.command("drop")
@_name
@action()
def drop(session: Session, name: str, why: str) -> Outcome:
    """Delete policy NAME. Its jobs may run in any pool.

    \b
    Examples:
      mainspring policies drop eu-data
    """
    return name, session.client.drop_policy(name, why)
