"""`mainspring audit`: list and verify the audit log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    limit_option,
    watch_option,
    with_connection_options,
    with_table_options,
)

if TYPE_CHECKING:
    from mainspring.protocol.rest.admin import VerificationView

_FAULTS_FOUND = 1


@click.group("audit", cls=ResourceGroup, invoke_without_command=True)
@click.option("--actor", metavar="NAME", help="Filter by actor: token:etl-bot, local, attempt:att_..")
@click.option("--action", metavar="NAME", help="Filter by action, such as cancel_run.")
@click.option("--object", "object_id", metavar="ID", help="Filter by the id of the object.")
@click.option("--from", "since", metavar="TIME", help="Only entries at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only entries before this time.")
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    connection: ConnectionOptions,
    printing: Printing,
    actor: str | None,
    action: str | None,
    object_id: str | None,
    since: str | None,
    before: str | None,
    watch: bool,
    limit: int,
) -> None:
    """List the audit log, newest first; `verify` checks its integrity.

    \b
    Examples:
      mainspring audit --action cancel_run --from 2026-11-15
      mainspring audit --object run_018f3c2e9a41-9d2c44e1f0a7b35c -o wide
      mainspring audit verify
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.admin_tables import AUDIT
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.times import parse_time

    start = None if since is None else parse_time(since, "--from", printing)
    end = None if before is None else parse_time(before, "--to", printing)
    with connection.client() as client:
        show_list(
            lambda: client.audit(actor=actor, action=action, object=object_id, since=start, before=end, limit=limit),
            AUDIT,
            printing,
            watch=watch,
            limit=limit,
        )


@audit.command("heads")
@with_table_options
@with_connection_options
def heads(connection: ConnectionOptions, printing: Printing) -> None:
    """List the head of each tenant's hash chain. Store them elsewhere for `audit verify --against`.

    \b
    Examples:
      mainspring audit heads -o json > heads.json
    """
    from mainspring.cli.render.admin_tables import HEADS
    from mainspring.cli.render.output import print_rows

    with connection.client() as client:
        print_rows(client.audit_heads(), HEADS, printing)


@audit.command("verify")
@click.option(
    "--against", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Stored output of `audit heads -o json` to compare with.",
)  # fmt: skip
@with_table_options
@with_connection_options
def verify(connection: ConnectionOptions, printing: Printing, against: Path | None) -> None:
    """Verify the audit log against its hash chains. Exits with 1 if it was changed.

    Entries are checked on the client, in the chains of all tenants and of the installation (*), or in one chain with
    --tenant. --against also detects a log that was truncated or rewritten.

    \b
    Examples:
      mainspring audit verify
      mainspring audit verify --tenant acme --against heads.json
    """
    from mainspring.cli.commands.admin.audit_check import check_chains, read_heads

    kept = [] if against is None else read_heads(against)
    with connection.client() as client:
        chains = check_chains(client, kept)
    _print_chains(chains, printing)
    if any(chain.faults for chain in chains):
        sys.exit(_FAULTS_FOUND)


def _print_chains(chains: list[VerificationView], printing: Printing) -> None:
    """Print the chains and, in a table, each fault below them."""
    from dataclasses import replace

    from mainspring.cli.render.admin_tables import AUDIT_FAULTS, CHAINS
    from mainspring.cli.render.output import print_rows

    print_rows(chains, CHAINS, printing)
    faults = [fault for chain in chains for fault in chain.faults]
    if faults and printing.is_human_readable:
        click.echo()
        print_rows(faults, AUDIT_FAULTS, replace(printing, columns=(), sort=None))
