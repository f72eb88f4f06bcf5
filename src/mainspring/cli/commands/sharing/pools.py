"""`mainspring pools`: pools of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from mainspring.cli.render.quantities import with_amount_options

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import PoolRequest

_ANYWHERE = "any"


@click.group("pools", cls=ResourceGroup, invoke_without_command=True)
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
@click.pass_context
def pools(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List pools with their leader, labels, zones and maximum task size.

    A worker joins a pool with `mainspring worker --pool NAME`; a job selects one with `pool: NAME`.

    \b
    Examples:
      mainspring pools
      mainspring pools set eu --label region=eu --zone eu-1 --zone eu-2
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import POOLS

    with connection.client() as client:
        show_list(lambda: client.pools(limit=limit), POOLS, printing, watch=watch, limit=limit)


@pools.command(name="set")
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
@click.option("--note", help="A note for other people.")
@with_output_options
@with_connection_options
def change(
    connection: ConnectionOptions,
    printing: Printing,
    name: str,
    labels: dict[str, str],
    zones: tuple[str, ...],
    most: dict[str, float | None],
    note: str | None,
) -> None:
    """Set the attributes of pool NAME, which may have no workers yet. Omitted options are unchanged.

    \b
    Examples:
      mainspring pools set eu --label region=eu --zone eu-1 --zone eu-2
      mainspring pools set default --max-cpu 16 --max-memory 64Gi
      mainspring pools set eu --zone any
    """
    from msgspec.structs import replace

    from mainspring.cli.render.output import print_rows
    from mainspring.cli.render.sharing_tables import POOLS
    from mainspring.protocol.rest.sharing import Amounts

    if not labels and not zones and not most and note is None:
        options = "--label, --zone, --max-cpu, --max-memory, --max-gpu, --max-disk and --note"
        raise click.UsageError(f"use at least one of {options}")
    with connection.client() as client:
        version, was = _read_pool(client, name)
        amounts = replace(was.max_resources or Amounts(), **most)
        request = replace(
            was,
            labels={label: value for label, value in {**was.labels, **labels}.items() if value},
            zones=() if zones == (_ANYWHERE,) else zones or was.zones,
            max_resources=None if amounts == Amounts() else amounts,
            note=was.note if note is None else note,
        )
        pool = client.put_pool(name, request, if_match=version)
    print_rows([pool], POOLS, printing)


def _read_pool(client: Client, name: str) -> tuple[int | None, PoolRequest]:
    """Return the attributes of a pool and their version, which is None if they were never set."""
    from mainspring.protocol.errors import NotFound
    from mainspring.protocol.rest.sharing import PoolRequest

    try:
        pool = client.pool_named(name)
    except NotFound:
        return None, PoolRequest()
    described = PoolRequest(
        labels=pool.labels, zones=tuple(pool.zones), max_resources=pool.max_resources, note=pool.note
    )
    return pool.version or None, described
