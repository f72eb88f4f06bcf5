"""`mainspring pools` and `policies`: pools of workers, and the policies that restrict jobs to pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup, named_values
from mainspring.cli.render.quantities import with_amount_options
from mainspring.cli.resource import Listing, Outcome, Session, action, listing, with_session

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import PolicyView, PoolRequest, PoolView

_ANYWHERE = "any"


@click.group("pools", cls=ResourceGroup)
@listing(200)
def pools(session: Session, limit: int) -> Listing[PoolView]:
    """List pools with their leader, labels, zones and maximum task size.

    A worker joins a pool with `mainspring worker --pool NAME`; a job selects one with `pool: NAME`.

    \b
    Examples:
      mainspring pools
      mainspring pools set eu --label region=eu --zone eu-1 --zone eu-2
    """
    from mainspring.cli.render.sharing_tables import POOLS

    return POOLS, lambda: session.client.pools(limit=limit)


@pools.command("set")
@click.argument("name", shell_complete=candidates.pools)
@click.option(
    "--label", "labels", multiple=True, callback=named_values, metavar="NAME=VALUE",
    help="Label for policies; NAME= removes it. Repeatable.",
)  # fmt: skip
@click.option(
    "--zone", "zones", multiple=True, metavar="ZONE",
    help="Allowed zone, replacing the current ones; or `any`. Repeatable.",
)  # fmt: skip
@with_amount_options("most", "max-", "Maximum per task: {}.")
@click.option("--note", metavar="TEXT", help="Note, shown in lists.")
@with_session
def set_pool(
    session: Session, name: str, labels: dict[str, str], zones: tuple[str, ...], most: dict[str, float | None],
    note: str | None,
) -> None:  # fmt: skip
    """Set the attributes of pool NAME.

    The pool may have no workers yet. Omitted options are unchanged.

    \b
    Examples:
      mainspring pools set eu --label region=eu --zone eu-1 --zone eu-2
      mainspring pools set default --max-cpu 16 --max-memory 64Gi
      mainspring pools set eu --zone any
    """
    from msgspec.structs import replace

    from mainspring.cli.render.sharing_tables import POOLS
    from mainspring.protocol.rest.sharing import Amounts

    if not labels and not zones and not most and note is None:
        options = "--label, --zone, --max-cpu, --max-memory, --max-gpu, --max-disk and --note"
        raise click.UsageError(f"use at least one of {options}")
    version, was = _read_pool(session.client, name)
    amounts = replace(was.max_resources or Amounts(), **most)
    request = replace(
        was,
        labels={label: value for label, value in {**was.labels, **labels}.items() if value},
        zones=() if zones == (_ANYWHERE,) else zones or was.zones,
        max_resources=None if amounts == Amounts() else amounts,
        note=was.note if note is None else note,
    )
    session.print_rows([session.client.put_pool(name, request, if_match=version)], POOLS)


def _read_pool(client: Client, name: str) -> tuple[int | None, PoolRequest]:
    """Return the attributes of a pool and their version, which is None if they were never set."""
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.sharing import PoolRequest

    try:
        pool = client.pool_named(name)
    except NotFound:
        return None, PoolRequest()
    known = PoolRequest(labels=pool.labels, zones=tuple(pool.zones), max_resources=pool.max_resources, note=pool.note)
    return pool.version or None, known


_policy = click.argument("name", shell_complete=candidates.policies)


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
@_policy
@click.option("--label", required=True, metavar="NAME[=VALUE]", help="Label of jobs; any value if omitted.")
@click.option(
    "--require", "requires", multiple=True, required=True, callback=named_values, metavar="NAME=VALUE",
    help="Label that the pool must have. Repeatable.",
)  # fmt: skip
@click.option("--note", metavar="TEXT", default="", help="Note, shown in lists.")
@with_session
def set_policy(session: Session, name: str, label: str, requires: dict[str, str], note: str) -> None:
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
@_policy
@action()
def drop_policy(session: Session, name: str, why: str) -> Outcome:
    """Delete policy NAME. Its jobs may run in any pool.

    \b
    Examples:
      mainspring policies drop eu-data
    """
    return name, session.client.drop_policy(name, why)
