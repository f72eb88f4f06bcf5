"""Quotas of tenants in pools: permanent, raised temporarily, or booked at recurring times.

(ADM-5, OPS-2, PLC-11)

Changes require access to all tenants; a tenant can read its own. A quota may precede its tenant or pool. A quota under
which nothing could start needs confirmation.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http import etags
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import not_found, refuse
from mainspring.api.http.routing import Router
from mainspring.api.routes.sharing import rule_routes
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import reason
from mainspring.api.views import quantities
from mainspring.api.views.view_of import view_of
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.fairness import capacity_bookings
from mainspring.core.fairness.capacity_bookings import MAX_BOOKINGS, Booking
from mainspring.core.fairness.quotas import DEFAULT_QUOTA, Ceiling, Quota, QuotaOverride, QuotaRow, zero_limit
from mainspring.core.model.resources import Resources
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
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
from mainspring.store.ports.store import Store

router = Router()

MIN_WEIGHT = 0.001
MAX_WEIGHT = 1_000.0
MAX_COUNTED = 1_000_000_000
_COUNT_LIMITS = {"max_tasks": MAX_COUNTED, "max_fan_out": MAX_COUNTED, "failures_per_hour": MAX_COUNTED}


@router.get("/quotas", operation="list_quotas", role=Role.VIEWER)
async def list_quotas(
    principal: Principal, time: StoreTimeCache, rules: SharingRulesCache, paging: PageRequest, tenant: str | None = None
) -> Page[QuotaView]:
    """List the configured quotas, by tenant and pool; an empty pool is the default for all pools."""
    wanted = permissions.tenant_to_read(principal, tenant)
    now = await time.now()
    rows = [_without_ended_raise(row, now) for row in await _rows(rules) if wanted in {None, row.tenant}]
    return rule_routes.page_in_memory(
        rows, lambda row: _view(row, now), lambda row: (row.tenant, row.pool), paging, parts=2
    )  # fmt: skip


@router.get("/tenants/{name}/quota", operation="get_quota", role=Role.VIEWER, returns=QuotaView)
async def get_quota(
    name: str,
    principal: Principal,
    time: StoreTimeCache,
    rules: SharingRulesCache,
    pool: str = "",
    known: IfNoneMatch = None,
) -> Response:
    """Get a tenant's quota in a pool, or its default for all pools; version 0 if not configured."""
    if not principal.sees(name):
        raise not_found("tenant", name)
    _check_names(name, pool)
    row = await _find(time, rules, name, pool)
    if row is None:
        return etags.answer(
            QuotaView(tenant=name, pool=pool, quota=terms(DEFAULT_QUOTA), raised=None, version=0), 0, known
        )
    return etags.answer(_view(row, await time.now()), row.version, known)


@router.put("/tenants/{name}/quota", operation="put_quota", role=Role.ADMIN, returns=QuotaView, all_tenants=True)
async def put_quota(
    name: str, body: QuotaRequest, principal: Principal, store: Store, time: StoreTimeCache, rules: SharingRulesCache,
    audit: Auditor, pool: str = "", match: IfMatch = None,
) -> Response:  # fmt: skip
    """Set a tenant's quota; a temporary raise stays in effect. Requires access to all tenants.

    Running tasks continue, even if they exceed it.
    """
    quota = _read(name, pool, body)
    existing = await _find(time, rules, name, pool)
    etags.expected(match, None if existing is None else existing.version, f"quota of {name}")
    row = msgspec.structs.replace(existing or _row(name, pool, quota), quota=quota)
    return await _put(store, time, rules, existing, row, principal, body.why, audit)


@router.delete("/tenants/{name}/quota", operation="drop_quota", role=Role.ADMIN, all_tenants=True)
async def drop_quota(
    name: str, store: Store, time: StoreTimeCache, rules: SharingRulesCache, audit: Auditor,
    pool: str = "", why: str = "", match: IfMatch = None,
) -> ActionResult:  # fmt: skip
    """Delete a quota: the tenant's default applies, or the system default. Requires access to all tenants."""
    _check_names(name, pool)
    existing = await _find(time, rules, name, pool)
    etags.expected(match, None if existing is None else existing.version, f"quota of {name}")
    entry = audit.entry(_object(name, pool), tenant=name, why=reason(why), before=_audit_summary(existing))
    return await rule_routes.delete_rule(store, rules, store.drop_quota(name, pool, entry), entry)


@router.post(
    "/tenants/{name}/quota/raise", operation="raise_quota", role=Role.ADMIN, returns=QuotaView, all_tenants=True
)
async def raise_quota(
    name: str,
    body: RaiseRequest,
    principal: Principal,
    store: Store,
    time: StoreTimeCache,
    rules: SharingRulesCache,
    audit: Auditor,
    pool: str = "",
) -> Response:
    """Raise a quota temporarily. Requires access to all tenants.

    If the tenant has no quota of its own in the pool, the current default is copied to become its own.
    """
    quota = _read(name, pool, body)
    existing = await _find(time, rules, name, pool)
    until = await rule_routes.until(time, body.seconds)
    assert until is not None
    raised = QuotaOverride(quota=quota, until=until, by=principal.name, why=body.why)
    row = msgspec.structs.replace(await _own_row(time, rules, name, pool, existing), raised=raised)
    return await _put(store, time, rules, existing, row, principal, body.why, audit)


@router.delete("/tenants/{name}/quota/raise", operation="end_raise", role=Role.ADMIN, all_tenants=True)
async def end_raise(
    name: str,
    principal: Principal,
    store: Store,
    time: StoreTimeCache,
    rules: SharingRulesCache,
    audit: Auditor,
    pool: str = "",
    why: str = "",
) -> ActionResult:
    """End a temporary raise. Requires access to all tenants."""
    _check_names(name, pool)
    existing = await _find(time, rules, name, pool)
    if existing is None or existing.raised is None:
        entry = audit.entry(_object(name, pool), tenant=name, why=reason(why), before=_audit_summary(existing))
        await store.record([entry])
        return ActionResult(changed=False, detail="already absent")
    await _put(
        store, time, rules, existing, msgspec.structs.replace(existing, raised=None), principal, reason(why), audit
    )
    return ActionResult(changed=True)


@router.put(
    "/tenants/{name}/quota/bookings/{booking}",
    operation="put_booking",
    role=Role.ADMIN,
    returns=QuotaView,
    all_tenants=True,
)
async def put_booking(
    name: str, booking: str, body: BookingRequest, principal: Principal, store: Store, time: StoreTimeCache,
    rules: SharingRulesCache, audit: Auditor, pool: str = "",
) -> Response:  # fmt: skip
    """Book guaranteed capacity at recurring times; replaces a booking of the same name. Requires access to all tenants.

    It starts `lead_seconds` early, so that tenants on burst release the capacity in time. If the tenant has no quota of
    its own in the pool, the current default is copied to become its own.
    """
    wanted = await _read_booking(time, name, booking, pool, body, principal)
    existing = await _find(time, rules, name, pool)
    row = await _own_row(time, rules, name, pool, existing)
    others = [one for one in row.bookings if one.name != booking]
    if len(others) >= MAX_BOOKINGS:
        faults = Faults()
        faults.add("path:booking", f"{name} has {len(others)} other bookings, at most {MAX_BOOKINGS} are allowed")
        refuse("the booking", faults)
    row = msgspec.structs.replace(row, bookings=tuple(sorted([*others, wanted], key=lambda one: one.name)))
    return await _put(store, time, rules, existing, row, principal, body.why, audit)


@router.delete("/tenants/{name}/quota/bookings/{booking}", operation="drop_booking", role=Role.ADMIN, all_tenants=True)
async def drop_booking(
    name: str,
    booking: str,
    principal: Principal,
    store: Store,
    time: StoreTimeCache,
    rules: SharingRulesCache,
    audit: Auditor,
    pool: str = "",
    why: str = "",
) -> ActionResult:
    """Delete a booking; an active one ends. Requires access to all tenants."""
    _check_names(name, pool)
    existing = await _find(time, rules, name, pool)
    left = () if existing is None else tuple(one for one in existing.bookings if one.name != booking)
    if existing is None or len(left) == len(existing.bookings):
        entry = audit.entry(_object(name, pool), tenant=name, why=reason(why), before=_audit_summary(existing))
        await store.record([entry])
        return ActionResult(changed=False, detail="already absent")
    await _put(
        store, time, rules, existing, msgspec.structs.replace(existing, bookings=left), principal, reason(why), audit
    )
    return ActionResult(changed=True)


def terms(quota: Quota) -> QuotaTerms:
    """Convert a quota."""
    return view_of(
        QuotaTerms, quota, guaranteed=quantities.show_guaranteed(quota.guaranteed),
        burst=quantities.show_ceiling(quota.burst),
    )  # fmt: skip


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
    quota = Quota(
        weight=body.weight, max_tasks=body.max_tasks, guaranteed=guaranteed, burst=burst,
        max_fan_out=body.max_fan_out, failures_per_hour=body.failures_per_hour,
    )  # fmt: skip
    shut = None if faults.total() else zero_limit(quota)
    if shut is not None and not body.confirm:
        limit = quantities.PUBLIC_NAMES.get(shut, shut)
        faults.add("confirm", f"no task of {name} could start with {limit} 0: set `confirm` to apply it anyway")
    refuse("the quota", faults)
    return quota


async def _read_booking(
    time: StoreTimeCache, name: str, booking: str, pool: str, body: BookingRequest, principal: Principal
) -> Booking:
    """Validate and build a booking. Raises Refused."""
    faults = _faults_in_names(name, pool)
    rule_routes.check_reason(body.why, faults)
    wanted = Booking(
        name=booking, cron=body.cron, zone=body.zone, seconds=body.seconds, lead_seconds=body.lead_seconds,
        guaranteed=Resources(**quantities.read(body.guaranteed, "guaranteed", faults)), by=principal.name, why=body.why,
    )  # fmt: skip
    capacity_bookings.check(wanted, await time.now(), faults)
    refuse("the booking", faults)
    return wanted


def _check_names(name: str, pool: str) -> None:
    """Raises Refused."""
    refuse("the request", _faults_in_names(name, pool))


def _faults_in_names(name: str, pool: str) -> Faults:
    faults = Faults()
    validate_job.check_name(name, "path:name", faults)
    if pool:
        validate_job.check_name(pool, "query:pool", faults)
    return faults


async def _rows(rules: SharingRulesCache) -> list[QuotaRow]:
    return list((await rules.refresh()).quotas)


async def _find(time: StoreTimeCache, rules: SharingRulesCache, tenant: str, pool: str) -> QuotaRow | None:
    """Find a tenant's current quota."""
    for row in await _rows(rules):
        if (row.tenant, row.pool) == (tenant, pool):
            return _without_ended_raise(row, await time.now())
    return None


async def _own_row(
    time: StoreTimeCache, rules: SharingRulesCache, tenant: str, pool: str, existing: QuotaRow | None
) -> QuotaRow:
    """Return a tenant's own quota in a pool, or a copy of the current default."""
    if existing is not None:
        return existing
    usual = await _find(time, rules, tenant, "")
    return _row(tenant, pool, DEFAULT_QUOTA if usual is None else usual.quota)


def _without_ended_raise(row: QuotaRow, now: datetime) -> QuotaRow:
    """Remove an expired raise from a quota."""
    over = row.raised is not None and row.raised.until <= now
    return msgspec.structs.replace(row, raised=None) if over else row


async def _put(
    store: Store,
    time: StoreTimeCache,
    rules: SharingRulesCache,
    existing: QuotaRow | None,
    row: QuotaRow,
    principal: Principal,
    why: str,
    audit: Auditor,
) -> Response:
    """Store a quota, replacing exactly the version that it was derived from."""
    row = msgspec.structs.replace(row, version=0, updated_at=EPOCH, updated_by=principal.name)
    entry = audit.entry(
        _object(row.tenant, row.pool),
        tenant=row.tenant,
        why=why,
        before=_audit_summary(existing),
        after=_audit_summary(row),
    )
    kept = await store.put_quota(row, 0 if existing is None else existing.version, entry)
    await rules.refresh()
    return etags.answer(_view(kept, await time.now()), kept.version)


def _row(tenant: str, pool: str, quota: Quota) -> QuotaRow:
    return QuotaRow(tenant=tenant, pool=pool, quota=quota, raised=None, version=0, updated_at=EPOCH, updated_by="")


def _object(tenant: str, pool: str) -> str:
    """Return the audit object of a quota."""
    return f"{tenant}/{pool}" if pool else tenant


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
