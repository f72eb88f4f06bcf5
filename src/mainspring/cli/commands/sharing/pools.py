"""`mainspring pools`: pools of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup, named_values
from mainspring.cli.render.quantities import with_amount_options
from mainspring.cli.resource import Listing, Session, listing, with_session

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import PoolRequest, PoolView

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
@click.option("--note", metavar="TEXT", help="A note for other people.")
@with_session
def change(
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
