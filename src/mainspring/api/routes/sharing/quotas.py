"""Quotas of tenants in pools: permanent, raised temporarily, or booked at recurring times.

(ADM-5, OPS-2, PLC-11)

Changes require access to all tenants; a tenant can read its own. A quota may precede its tenant or pool. A quota under
which nothing could start needs confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http import etags
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import not_found, refuse
from mainspring.api.http.routing import Router
from mainspring.api.routes.sharing import rule_routes
from mainspring.api.routes.sharing.rule_routes import RuleEditor
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import reason
from mainspring.api.views import quantities
from mainspring.api.views.view_of import view_of
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.fairness import capacity_bookings
from mainspring.core.fairness.capacity_bookings import MAX_BOOKINGS, Booking
from mainspring.core.fairness.quotas import DEFAULT_QUOTA, Ceiling, Quota, QuotaOverride, QuotaRow, zero_limit
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.resources import Resources
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.errors import Fault
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import (
    BookingRequest,
    BookingView,
    QuotaRequest,
    QuotaTerms,
    QuotaView,
    RaisedView,
    RaiseRequest,
)

router = Router()

MIN_WEIGHT = 0.001
MAX_WEIGHT = 1_000.0
MAX_COUNTED = 1_000_000_000
_COUNT_LIMITS = {"max_tasks": MAX_COUNTED, "max_fan_out": MAX_COUNTED, "failures_per_hour": MAX_COUNTED}


@dataclass(frozen=True, slots=True)
class QuotaEditor(RuleEditor):
    """Reads and changes of quotas by the caller."""

    async def find(self, tenant: str, pool: str) -> QuotaRow | None:
        """Find a tenant's current quota."""
        for row in (await self.rules.refresh()).quotas:
            if (row.tenant, row.pool) == (tenant, pool):
                return _without_ended_raise(row, await self.time.now())
        return None

    async def own_row(self, tenant: str, pool: str, existing: QuotaRow | None) -> QuotaRow:
        """Return a tenant's own quota in a pool, or a copy of the current default."""
        if existing is not None:
            return existing
        usual = await self.find(tenant, "")
        return _row(tenant, pool, DEFAULT_QUOTA if usual is None else usual.quota)

    async def replace(self, existing: QuotaRow | None, row: QuotaRow, why: str) -> Response:
        """Store a quota, replacing exactly the version that it was derived from."""
        row = msgspec.structs.replace(row, version=0, updated_at=EPOCH, updated_by=self.audit.actor)
        entry = self.entry(row.tenant, row.pool, existing, why, after=_audit_summary(row))
        kept = await self.put(self.store.put_quota(row, 0 if existing is None else existing.version, entry))
        return etags.answer(_view(kept, await self.time.now()), kept.version)

    def entry(self, tenant: str, pool: str, existing: QuotaRow | None, why: str, after: object = None) -> AuditEntry:
        """Create the audit entry of a change."""
        name = f"{tenant}/{pool}" if pool else tenant
        return self.audit.entry(name, tenant=tenant, why=reason(why), before=_audit_summary(existing), after=after)


@router.get("/quotas", operation="list_quotas", role=Role.VIEWER)
async def list_quotas(
    principal: Principal, time: StoreTimeCache, rules: SharingRulesCache, paging: PageRequest, tenant: str | None = None
) -> Page[QuotaView]:
    """List the configured quotas, by tenant and pool; an empty pool is the default for all pools."""
    wanted = permissions.tenant_to_read(principal, tenant)
    now = await time.now()
    rows = [_without_ended_raise(row, now) for row in (await rules.refresh()).quotas if wanted in {None, row.tenant}]
    return rule_routes.page_in_memory(
        rows, lambda row: _view(row, now), lambda row: (row.tenant, row.pool), paging, parts=2
    )  # fmt: skip


@router.get("/tenants/{name}/quota", operation="get_quota", role=Role.VIEWER, returns=QuotaView)
async def get_quota(
    name: str, principal: Principal, editor: QuotaEditor, pool: str = "", known: IfNoneMatch = None
) -> Response:
    """Get a tenant's quota in a pool, or its default for all pools; version 0 if not configured."""
    if not principal.sees(name):
        raise not_found("tenant", name)
    _faults_in_names(name, pool).refuse("the request has")
    row = await editor.find(name, pool)
    if row is None:
        return etags.answer(
            QuotaView(tenant=name, pool=pool, quota=terms(DEFAULT_QUOTA), raised=None, version=0), 0, known
        )
    return etags.answer(_view(row, await editor.time.now()), row.version, known)


@router.put("/tenants/{name}/quota", operation="put_quota", role=Role.ADMIN, returns=QuotaView, all_tenants=True)
async def put_quota(
    name: str, body: QuotaRequest, editor: QuotaEditor, pool: str = "", match: IfMatch = None
) -> Response:
    """Set a tenant's quota; a temporary raise stays in effect. Requires access to all tenants.

    Running tasks continue, even if they exceed it.
    """
    quota = _read(name, pool, body)
    existing = await editor.find(name, pool)
    etags.expected(match, None if existing is None else existing.version, f"quota of {name}")
    row = msgspec.structs.replace(existing or _row(name, pool, quota), quota=quota)
    return await editor.replace(existing, row, body.why)


@router.delete("/tenants/{name}/quota", operation="drop_quota", role=Role.ADMIN, all_tenants=True)
async def drop_quota(
    name: str, editor: QuotaEditor, pool: str = "", why: str = "", match: IfMatch = None
) -> ActionResult:
    """Delete a quota: the tenant's default applies, or the system default. Requires access to all tenants."""
    _faults_in_names(name, pool).refuse("the request has")
    existing = await editor.find(name, pool)
    etags.expected(match, None if existing is None else existing.version, f"quota of {name}")
    entry = editor.entry(name, pool, existing, why)
    return await editor.delete(editor.store.drop_quota(name, pool, entry), entry)


@router.post(
    "/tenants/{name}/quota/raise", operation="raise_quota", role=Role.ADMIN, returns=QuotaView, all_tenants=True
)
async def raise_quota(name: str, body: RaiseRequest, editor: QuotaEditor, pool: str = "") -> Response:
    """Raise a quota temporarily. Requires access to all tenants.

    If the tenant has no quota of its own in the pool, the current default is copied to become its own.
    """
    quota = _read(name, pool, body)
    existing = await editor.find(name, pool)
    until = await editor.until(body.seconds)
    assert until is not None
    raised = QuotaOverride(quota=quota, until=until, by=editor.audit.actor, why=body.why)
    row = msgspec.structs.replace(await editor.own_row(name, pool, existing), raised=raised)
    return await editor.replace(existing, row, body.why)


@router.delete("/tenants/{name}/quota/raise", operation="end_raise", role=Role.ADMIN, all_tenants=True)
async def end_raise(name: str, editor: QuotaEditor, pool: str = "", why: str = "") -> ActionResult:
    """End a temporary raise. Requires access to all tenants."""
    _faults_in_names(name, pool).refuse("the request has")
    existing = await editor.find(name, pool)
    if existing is None or existing.raised is None:
        return await editor.already_absent(editor.entry(name, pool, existing, why))
    await editor.replace(existing, msgspec.structs.replace(existing, raised=None), why)
    return ActionResult(changed=True)


@router.put(
    "/tenants/{name}/quota/bookings/{booking}",
    operation="put_booking",
    role=Role.ADMIN,
    returns=QuotaView,
    all_tenants=True,
)
async def put_booking(name: str, booking: str, body: BookingRequest, editor: QuotaEditor, pool: str = "") -> Response:
    """Book guaranteed capacity at recurring times; replaces a booking of the same name. Requires access to all tenants.

    It starts `lead_seconds` early, so that tenants on burst release the capacity in time. If the tenant has no quota of
    its own in the pool, the current default is copied to become its own.
    """
    wanted = _read_booking(name, booking, pool, body, by=editor.audit.actor, now=await editor.time.now())
    existing = await editor.find(name, pool)
    row = await editor.own_row(name, pool, existing)
    others = [one for one in row.bookings if one.name != booking]
    if len(others) >= MAX_BOOKINGS:
        why = f"{name} has {len(others)} other bookings, at most {MAX_BOOKINGS} are allowed"
        refuse("the booking", [Fault(where="path:booking", why=why)])
    row = msgspec.structs.replace(row, bookings=tuple(sorted([*others, wanted], key=lambda one: one.name)))
    return await editor.replace(existing, row, body.why)


@router.delete("/tenants/{name}/quota/bookings/{booking}", operation="drop_booking", role=Role.ADMIN, all_tenants=True)
async def drop_booking(name: str, booking: str, editor: QuotaEditor, pool: str = "", why: str = "") -> ActionResult:
    """Delete a booking; an active one ends. Requires access to all tenants."""
    _faults_in_names(name, pool).refuse("the request has")
    existing = await editor.find(name, pool)
    left = () if existing is None else tuple(one for one in existing.bookings if one.name != booking)
    if existing is None or len(left) == len(existing.bookings):
        return await editor.already_absent(editor.entry(name, pool, existing, why))
    await editor.replace(existing, msgspec.structs.replace(existing, bookings=left), why)
    return ActionResult(changed=True)


def terms(quota: Quota) -> QuotaTerms:
    """Convert a quota."""
    return view_of(
        QuotaTerms, quota, guaranteed=quantities.show_guaranteed(quota.guaranteed), burst=quantities.show(quota.burst)
    )


def _read(name: str, pool: str, body: QuotaRequest) -> Quota:
    """Validate and build a quota. Raises Refused."""
    faults = _faults_in_names(name, pool)
    if not MIN_WEIGHT <= body.weight <= MAX_WEIGHT:
        faults.add("weight", f"must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}")
    for field, most in _COUNT_LIMITS.items():
        number: int | None = getattr(body, field)
        if number is not None and not 0 <= number <= most:
            faults.add(field, f"must be from 0 to {most}")
    guaranteed = Resources(**quantities.read(body.guaranteed, "guaranteed", faults))
    burst = Ceiling(**quantities.read(body.burst, "burst", faults))
    rule_routes.check_reason(body.why, faults)
    if isinstance(body, RaiseRequest):
        rule_routes.check_duration(body.seconds, faults)
    quota = view_of(Quota, body, guaranteed=guaranteed, burst=burst)
    shut = None if faults.total() else zero_limit(quota)
    if shut is not None and not body.confirm:
        limit = quantities.PUBLIC_NAMES.get(shut, shut)
        faults.add("confirm", f"no task of {name} could start with {limit} 0: set `confirm` to apply it anyway")
    faults.refuse("the quota has")
    return quota


def _read_booking(name: str, booking: str, pool: str, body: BookingRequest, *, by: str, now: datetime) -> Booking:
    """Validate and build a booking. Raises Refused."""
    faults = _faults_in_names(name, pool)
    rule_routes.check_reason(body.why, faults)
    guaranteed = Resources(**quantities.read(body.guaranteed, "guaranteed", faults))
    wanted = view_of(Booking, body, name=booking, guaranteed=guaranteed, by=by)
    capacity_bookings.check(wanted, now, faults)
    faults.refuse("the booking has")
    return wanted


def _faults_in_names(name: str, pool: str) -> Faults:
    faults = Faults()
    validate_job.check_name(name, "path:name", faults)
    if pool:
        validate_job.check_name(pool, "query:pool", faults)
    return faults


def _without_ended_raise(row: QuotaRow, now: datetime) -> QuotaRow:
    """Remove an expired raise from a quota."""
    over = row.raised is not None and row.raised.until <= now
    return msgspec.structs.replace(row, raised=None) if over else row


def _row(tenant: str, pool: str, quota: Quota) -> QuotaRow:
    return QuotaRow(tenant=tenant, pool=pool, quota=quota, raised=None, version=0, updated_at=EPOCH, updated_by="")


def _audit_summary(row: QuotaRow | None) -> dict[str, object] | None:
    """Return the audit summary of a quota."""
    if row is None:
        return None
    return {"quota": terms(row.quota), "raised": _raised(row.raised), "bookings": list(row.bookings)}


def _raised(raised: QuotaOverride | None) -> RaisedView | None:
    if raised is None:
        return None
    return view_of(RaisedView, raised, quota=terms(raised.quota))


def _booking(booking: Booking, now: datetime) -> BookingView:
    return view_of(
        BookingView, booking, guaranteed=quantities.show_guaranteed(booking.guaranteed), holds=booking.holds_at(now),
        next_at=booking.next_at(now),
    )  # fmt: skip


def _view(row: QuotaRow, now: datetime) -> QuotaView:
    return view_of(
        QuotaView, row, quota=terms(row.quota), raised=_raised(row.raised),
        bookings=[_booking(booking, now) for booking in row.bookings],
    )  # fmt: skip
