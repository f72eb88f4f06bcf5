"""`mainspring quota`: guaranteed and burst capacity of tenants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.commands.sharing.quota_options import QuotaChange, with_quota_options
from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    confirmed,
    limit_option,
    watch_option,
    with_confirmation,
    with_connection_options,
    with_output_options,
    with_table_options,
)
from mainspring.cli.render.quantities import with_amount_options

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import QuotaRequest, QuotaView

_why = click.option("--why", default="", help="Reason, recorded in the audit log.")
_owner = click.argument("owner", metavar="TENANT", shell_complete=candidates.tenants)
_pool = click.option(
    "--pool", default="", shell_complete=candidates.pools,
    help="Pool; if omitted, all pools without a quota of their own.",
)  # fmt: skip


@click.group("quota", cls=ResourceGroup, invoke_without_command=True)
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
@click.pass_context
def quota(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List the effective quotas of tenants; set, raise, book or drop one.

    \b
    Examples:
      mainspring quota
      mainspring quota show acme
      mainspring quota set acme --cpu 8 --memory 16Gi --burst-cpu 4
      mainspring quota raise acme --for 4h --burst-cpu 16 --why "end of the month"
      mainspring quota book acme nightly --cron "0 2 * * *" --for 2h --lead 10m --cpu 16
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.sharing_tables import QUOTAS

    with connection.client() as client:
        show_list(lambda: client.quotas(limit=limit), QUOTAS, printing, watch=watch, limit=limit)


@quota.command("show")
@_owner
@_pool
@with_output_options
@with_connection_options
def show(connection: ConnectionOptions, printing: Printing, owner: str, pool: str) -> None:
    """Show the quota of TENANT and its current usage.

    \b
    Examples:
      mainspring quota show acme
      mainspring quota show acme --pool gpu
    """
    with connection.client() as client:
        _print_quota(client, _find_quota(client, owner, pool), printing)


@quota.command(name="set")
@_owner
@_pool
@with_quota_options
@_why
@with_confirmation
@with_output_options
@with_connection_options
def change_quota(
    connection: ConnectionOptions, printing: Printing, owner: str, pool: str, change: QuotaChange, why: str, yes: bool
) -> None:
    """Set the quota of TENANT. Omitted options are unchanged; `none` removes a limit.

    Guaranteed capacity takes precedence over the burst of other tenants. A quota under which nothing can run asks for
    confirmation.

    \b
    Examples:
      mainspring quota set acme --cpu 8 --memory 16Gi --burst-cpu 4
      mainspring quota set acme --pool gpu --gpu 2 --burst-gpu 0 --weight 2
      mainspring quota set acme --burst-cpu none
      mainspring quota set acme --max-tasks 0 --why "the bill is not paid" --yes
    """
    with connection.client() as client:
        was = _find_quota(client, owner, pool)
        version = was.version if was.pool == pool and was.version else None

        def put(request: QuotaRequest) -> QuotaView:
            return client.put_quota(owner, request, pool, if_match=version)

        _print_quota(client, _put_confirmed(put, change.of(was.quota, why), owner, pool, yes=yes), printing)


@quota.command(name="raise")
@_owner
@click.option("--for", "length", metavar="DURATION", required=True, help="Duration, such as 4h.")
@_pool
@with_quota_options
@_why
@with_confirmation
@with_output_options
@with_connection_options
def raise_quota(
    connection: ConnectionOptions,
    printing: Printing,
    owner: str,
    length: str,
    pool: str,
    change: QuotaChange,
    why: str,
    yes: bool,
) -> None:
    """Override the quota of TENANT temporarily. Omitted options are unchanged.

    \b
    Examples:
      mainspring quota raise acme --for 4h --burst-cpu 16 --why "end of the month"
      mainspring quota raise acme --for 30m --max-tasks none
    """
    from msgspec.structs import asdict

    from mainspring.cli.render.sharing_tables import effective_quota
    from mainspring.cli.render.times import parse_duration
    from mainspring.protocol.clock import SystemClock
    from mainspring.protocol.rest.sharing import RaiseRequest

    seconds = parse_duration(length, "--for")
    with connection.client() as client:
        was = effective_quota(_find_quota(client, owner, pool), SystemClock().wall())

        def put(request: QuotaRequest) -> QuotaView:
            return client.raise_quota(owner, RaiseRequest(**asdict(request), seconds=seconds), pool)

        _print_quota(client, _put_confirmed(put, change.of(was, why), owner, pool, yes=yes), printing)


@quota.command(name="end-raise")
@_owner
@_pool
@_why
@with_output_options
@with_connection_options
def end_raise(connection: ConnectionOptions, printing: Printing, owner: str, pool: str, why: str) -> None:
    """End a temporary quota override of TENANT.

    \b
    Examples:
      mainspring quota end-raise acme
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(owner, "end-raise", client.end_raise(owner, pool, why))], printing)


@quota.command("book")
@_owner
@click.argument("name")
@click.option("--cron", required=True, metavar="CRON", help="Start of each window, such as '0 2 * * *'.")
@click.option("--zone", default="UTC", show_default=True, metavar="ZONE", help="IANA time zone of --cron.")
@click.option("--for", "length", metavar="DURATION", required=True, help="Length of a window, such as 2h.")
@click.option("--lead", default="0s", metavar="DURATION", help="Reserve this much earlier, such as 10m.")
@with_amount_options("guaranteed", "", "Total guarantee during a window: {}.")
@_pool
@_why
@with_output_options
@with_connection_options
def book(
    connection: ConnectionOptions, printing: Printing, owner: str, name: str, cron: str, zone: str, length: str,
    lead: str,
    guaranteed: Mapping[str, float | None], pool: str, why: str,
) -> None:  # fmt: skip
    """Book capacity for TENANT: raise its guarantee in recurring windows, as booking NAME.

    As for any guarantee, burst capacity of other tenants is reclaimed; --lead starts that earlier.

    \b
    Examples:
      mainspring quota book acme nightly --cron "0 2 * * *" --zone Europe/Paris --for 2h --lead 10m --cpu 16
      mainspring quota book acme month-end --cron "0 20 L * *" --for 6h --cpu 64 --memory 256Gi --pool batch
    """
    import msgspec

    from mainspring.cli.render.times import parse_duration
    from mainspring.protocol.rest.sharing import Amounts, BookingRequest

    request = BookingRequest(
        cron=cron, zone=zone, seconds=int(parse_duration(length, "--for")),
        lead_seconds=int(parse_duration(lead, "--lead")),
        guaranteed=msgspec.convert(dict(guaranteed), Amounts), why=why,
    )  # fmt: skip
    with connection.client() as client:
        _print_quota(client, client.put_booking(owner, name, request, pool), printing)


@quota.command("unbook")
@_owner
@click.argument("name")
@_pool
@_why
@with_output_options
@with_connection_options
def unbook(connection: ConnectionOptions, printing: Printing, owner: str, name: str, pool: str, why: str) -> None:
    """Delete booking NAME of TENANT. An active window ends.

    \b
    Examples:
      mainspring quota unbook acme nightly
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes(
            [ActionOutcome.of(owner, "unbook", client.drop_booking(owner, name, pool, why))], printing
        )


@quota.command("drop")
@_owner
@_pool
@_why
@with_output_options
@with_connection_options
def drop(connection: ConnectionOptions, printing: Printing, owner: str, pool: str, why: str) -> None:
    """Delete a quota of TENANT. It has no guarantee then, and may use spare capacity.

    \b
    Examples:
      mainspring quota drop acme --pool gpu
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(owner, "drop", client.drop_quota(owner, pool, why))], printing)


def _find_quota(client: Client, owner: str, pool: str) -> QuotaView:
    """Return the quota of a pool, or else the tenant's default quota."""
    own = client.quota(owner, pool)
    return own if own.version or not pool else client.quota(owner)


def _put_confirmed(
    put: Callable[[QuotaRequest], QuotaView], request: QuotaRequest, owner: str, pool: str, *, yes: bool
) -> QuotaView:
    """Send a request. If the server requires confirmation because nothing could run, ask and send it again."""
    from msgspec.structs import replace

    from mainspring.protocol.errors import Refused

    try:
        return put(request)
    except Refused as refused:
        if [fault.where for fault in refused.faults] != ["/confirm"]:
            raise
    where = f"in pool {pool}" if pool else "in pools without a quota of their own"
    if not confirmed(f"no task of {owner} will be able to run {where}. Continue?", yes=yes):
        raise click.Abort
    return put(replace(request, confirm=True))


def _print_quota(client: Client, quota: QuotaView, printing: Printing) -> None:
    from msgspec.structs import asdict

    from mainspring.cli.render.facts import print_facts
    from mainspring.cli.render.output import print_one
    from mainspring.cli.render.sharing_details import quota_facts, read_use
    from mainspring.cli.render.sharing_tables import QuotaRow
    from mainspring.protocol.errors import NotFound

    try:
        use = read_use(client, quota.tenant, quota.pool or None)
    except NotFound:
        # The pool of a quota may not exist yet.
        use = None
    line = QuotaRow(**asdict(quota), use=use)
    print_one(line, quota.tenant, printing, lambda: print_facts(*quota_facts(line, printing)))
