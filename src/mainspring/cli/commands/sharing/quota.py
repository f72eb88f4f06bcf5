"""`mainspring quota`: guaranteed and burst capacity of tenants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Call, ResourceGroup, confirm, pool_option, with_confirmation
from mainspring.cli.render.quantities import parse_count, parse_or_none, parse_weight, with_amount_options
from mainspring.cli.resource import Listing, Outcome, Session, action, listing, why_option, with_session

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.sharing import QuotaRequest, QuotaTerms, QuotaView

ParsedAmounts = Mapping[str, float | None]

_LIMITS: dict[str, tuple[str, Callable[[str], float]]] = {
    "weight": ("Fair-share weight relative to other tenants.", parse_weight),
    "max_tasks": ("Maximum number of concurrent tasks.", parse_count),
    "max_fan_out": ("Maximum number of tasks of a fan-out.", parse_count),
    "failures_per_hour": ("Failed tasks per hour before throttling.", parse_count),
}
_REQUIRED = frozenset({"weight", "failures_per_hour"})
_owner = click.argument("owner", metavar="TENANT", shell_complete=candidates.tenants)
_pool = pool_option("Pool; all pools without their own quota if omitted.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """Changes to a quota. Omitted options are unchanged; `none` removes a limit."""

    limits: ParsedAmounts
    guaranteed: ParsedAmounts
    burst: ParsedAmounts

    def of(self, was: QuotaTerms, why: str) -> QuotaRequest:
        """Return the quota with these changes."""
        from msgspec.structs import asdict, replace

        from mainspring.protocol.rest.sharing import QuotaRequest

        guaranteed, burst = replace(was.guaranteed, **self.guaranteed), replace(was.burst, **self.burst)
        return QuotaRequest(**{**asdict(was), **self.limits, "guaranteed": guaranteed, "burst": burst, "why": why})


def with_quota_options(command: Call) -> Call:
    """Add quota options to a command, which gets them as `change`."""

    @functools.wraps(command)
    def call(*args: object, guaranteed: ParsedAmounts, burst: ParsedAmounts, **rest: object) -> object:
        typed = {name: rest.pop(name) for name in _LIMITS}
        limits = {name: _read_limit(name, str(text)) for name, text in typed.items() if text is not None}
        if not (limits or guaranteed or burst):
            raise click.UsageError("nothing to change; use options such as --cpu 8 or --max-tasks 100")
        return command(*args, change=QuotaChange(limits=limits, guaranteed=guaranteed, burst=burst), **rest)

    for name, (about, _) in reversed(_LIMITS.items()):
        call = click.option(_flag(name), name, metavar="NUMBER", help=about)(call)
    call = with_amount_options("burst", "burst-", "Burst limit beyond the guarantee: {}.")(call)
    return with_amount_options("guaranteed", "", "Guaranteed {}.")(call)  # type: ignore[return-value]  # the wrapper has a different signature


def _read_limit(name: str, text: str) -> float | None:
    value = parse_or_none(_flag(name), text, _LIMITS[name][1])
    if value is None and name in _REQUIRED:
        raise click.UsageError(f"{_flag(name)} can't be {text}")
    return value


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@click.group("quota", cls=ResourceGroup)
@listing(200)
def quota(session: Session, limit: int) -> Listing[QuotaView]:
    """List the effective quotas of tenants; set, raise, book or drop one.

    A quota of pool `*` applies to all pools in which the tenant has no quota of its own.

    \b
    Examples:
      mainspring quota
      mainspring quota show acme
      mainspring quota set acme --cpu 8 --memory 16Gi --burst-cpu 4
      mainspring quota raise acme --for 4h --burst-cpu 16 --why "end of the month"
      mainspring quota book acme nightly --cron "0 2 * * *" --for 2h --lead 10m --cpu 16
    """
    from mainspring.cli.render.sharing_tables import QUOTAS

    return QUOTAS, lambda: session.client.quotas(limit=limit)


@quota.command("show")
@_owner
@_pool
@with_session
def show(session: Session, owner: str, pool: str) -> None:
    """Show the quota of TENANT and its current usage.

    \b
    Examples:
      mainspring quota show acme
      mainspring quota show acme --pool gpu
    """
    _print_quota(session, _find_quota(session.client, owner, pool))


@quota.command("set")
@_owner
@_pool
@with_quota_options
@why_option()
@with_confirmation
@with_session
def change_quota(session: Session, owner: str, pool: str, change: QuotaChange, why: str, yes: bool) -> None:
    """Set the quota of TENANT.

    Omitted options are unchanged; `none` removes a limit. Guaranteed capacity takes precedence over the burst of
    other tenants. A quota under which nothing can run asks for confirmation.

    \b
    Examples:
      mainspring quota set acme --cpu 8 --memory 16Gi --burst-cpu 4
      mainspring quota set acme --pool gpu --gpu 2 --burst-gpu 0 --weight 2
      mainspring quota set acme --burst-cpu none
      mainspring quota set acme --max-tasks 0 --why "the bill is not paid" --yes
    """
    was = _find_quota(session.client, owner, pool)
    version = was.version if was.pool == pool and was.version else None

    def put(request: QuotaRequest) -> QuotaView:
        return session.client.put_quota(owner, request, pool, if_match=version)

    _print_quota(session, _put_confirmed(put, change.of(was.quota, why), owner, pool, yes=yes))


@quota.command("raise")
@_owner
@click.option("--for", "length", metavar="DURATION", required=True, help="Duration, such as 4h.")
@_pool
@with_quota_options
@why_option()
@with_confirmation
@with_session
def raise_quota(session: Session, owner: str, length: str, pool: str, change: QuotaChange, why: str, yes: bool) -> None:
    """Override the quota of TENANT temporarily.

    Omitted options are unchanged.

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
    was = effective_quota(_find_quota(session.client, owner, pool), SystemClock().wall())

    def put(request: QuotaRequest) -> QuotaView:
        return session.client.raise_quota(owner, RaiseRequest(**asdict(request), seconds=seconds), pool)

    _print_quota(session, _put_confirmed(put, change.of(was, why), owner, pool, yes=yes))


@quota.command("end-raise")
@_owner
@_pool
@action()
def end_raise(session: Session, owner: str, pool: str, why: str) -> Outcome:
    """End a temporary quota override of TENANT.

    \b
    Examples:
      mainspring quota end-raise acme
    """
    return owner, session.client.end_raise(owner, pool, why)


@quota.command("book")
@_owner
@click.argument("name")
@click.option("--cron", required=True, metavar="CRON", help="Start of each window, such as '0 2 * * *'.")
@click.option("--zone", default="UTC", show_default=True, metavar="ZONE", help="IANA time zone of --cron.")
@click.option("--for", "length", metavar="DURATION", required=True, help="Length of a window, such as 2h.")
@click.option("--lead", default="0s", metavar="DURATION", help="Reserve this much earlier, such as 10m.")
@with_amount_options("guaranteed", "", "Total guarantee during a window: {}.")
@_pool
@why_option()
@with_session
def book(
    session: Session, owner: str, name: str, cron: str, zone: str, length: str, lead: str, guaranteed: ParsedAmounts,
    pool: str, why: str,
) -> None:  # fmt: skip
    """Book capacity for TENANT in recurring windows.

    Booking NAME raises the guarantee of TENANT to the given total during each window. As for any guarantee, burst
    capacity of other tenants is reclaimed; --lead starts that earlier.

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
    _print_quota(session, session.client.put_booking(owner, name, request, pool))


@quota.command("unbook")
@_owner
@click.argument("name")
@_pool
@action()
def unbook(session: Session, owner: str, name: str, pool: str, why: str) -> Outcome:
    """Delete booking NAME of TENANT. An active window ends.

    \b
    Examples:
      mainspring quota unbook acme nightly
    """
    return owner, session.client.drop_booking(owner, name, pool, why)


@quota.command("drop")
@_owner
@_pool
@action()
def drop(session: Session, owner: str, pool: str, why: str) -> Outcome:
    """Delete a quota of TENANT.

    Without a quota, the tenant has no guarantee and may use spare capacity.

    \b
    Examples:
      mainspring quota drop acme --pool gpu
    """
    return owner, session.client.drop_quota(owner, pool, why)


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
    where = f"in pool {pool}" if pool else "in pools without their own quota"
    confirm(f"no task of {owner} will be able to run {where}. Continue?", yes=yes)
    return put(replace(request, confirm=True))


def _print_quota(session: Session, quota: QuotaView) -> None:
    from msgspec.structs import asdict

    from mainspring.cli.render.output import print_facts
    from mainspring.cli.render.sharing_tables import QuotaRow, quota_facts, read_use
    from mainspring.protocol.errors import NotFound

    try:
        use = read_use(session.client, quota.tenant, quota.pool or None)
    except NotFound:
        # The pool of a quota may not exist yet.
        use = None
    row = QuotaRow(**asdict(quota), use=use)
    session.print_one(row, quota.tenant, lambda: print_facts(*quota_facts(row, session.printing)))
