"""The audit log, and verification of its hash chains (SEC-4).

Each tenant has a chain; `*` is that of the installation. Callers of one tenant see its chain only.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http.cursors import DEFAULT_PAGE_SIZE, Limit, PageRequest, find_in_pages
from mainspring.api.http.routing import Router
from mainspring.api.views.view_of import raw, view_of
from mainspring.core.model.audit_entry import INSTALLATION, AuditFault, AuditRow, ChainCheck, ChainHead
from mainspring.protocol.rest.admin import AuditFaultView, AuditView, HeadView, VerificationView
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import Instant
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.store import Store

router = Router()

MAX_FAULTS = 100
_ROWS_AT_ONCE = 1_000
_HEADS_AT_ONCE = 100

Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@router.get("/audit", operation="list_audit", role=Role.ADMIN)
async def list_audit(
    principal: Principal,
    store: Store,
    paging: PageRequest,
    tenant: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    object: str | None = None,
    since: Instant | None = None,
    before: Instant | None = None,
) -> Page[AuditView]:
    """List audit entries, latest first, including those of the last second, which are not sealed yet."""
    wanted = AuditFilter(
        tenant=permissions.tenant_to_read(principal, tenant), actor=actor, action=action, object=object, since=since,
        before=before,
    )  # fmt: skip
    rows = await store.list_audit(wanted, paging.position(), paging.limit)
    return paging.page(rows, _view, lambda row: [row.at.isoformat(), row.id])


@router.get("/audit/heads", operation="list_audit_heads", role=Role.ADMIN)
async def list_audit_heads(principal: Principal, store: Store, paging: PageRequest) -> Page[HeadView]:
    """List the heads of all chains, by tenant. Stored elsewhere, they prove later that nothing before was changed."""
    if not principal.sees_all_tenants():
        head = await _head_of(store, principal.tenant)
        return Page(items=[] if head is None else [view_of(HeadView, head)])
    heads = await store.audit_heads(paging.after(), paging.limit)
    return paging.page(heads, partial(view_of, HeadView), lambda row: [row.tenant])


@router.get("/audit/chain", operation="list_audit_chain", role=Role.ADMIN)
async def list_audit_chain(
    principal: Principal, store: Store, tenant: str | None = None, after: Seq = 0, limit: Limit = DEFAULT_PAGE_SIZE
) -> Page[AuditView]:
    """List the sealed entries of one chain after number `after`, in order, for independent verification.

    The hash of an entry is the SHA-256, in hexadecimal, of the hash before it (64 zeros for the first), followed by a
    JSON array without spaces: `seq`, `id`, `at`, `tenant`, `actor`, `source`, `action`, `object`, `why`, and the texts
    of `before` and `after` as strings, or null.
    """
    rows = await store.audit_chain(_chain(principal, tenant), after, limit)
    return Page(items=[_view(row) for row in rows])


@router.get("/audit/verification", operation="verify_audit", role=Role.ADMIN)
async def verify_audit(principal: Principal, store: Store, tenant: str | None = None) -> VerificationView:
    """Verify one chain as far as it is retained, and report entries that differ from what was sealed."""
    chain = _chain(principal, tenant)
    head = await _head_of(store, chain)
    check = ChainCheck(chain)
    faults: list[AuditFault] = []
    entries = first_seq = after = 0
    while head is None or after < head.seq:
        rows = await store.audit_chain(chain, after, _ROWS_AT_ONCE)
        if not rows:
            break
        head = head or await _head_of(store, chain)
        if head is None:
            faults.append(AuditFault(tenant=chain, seq=rows[0].seq, id="", why="the head of the chain is missing"))
            break
        rows = [row for row in rows if row.seq <= head.seq]
        if not rows:
            break
        first_seq = first_seq or rows[0].seq
        entries += len(rows)
        faults += check.faults_in(rows)
        after = rows[-1].seq
    if head is not None:
        faults += filter(None, [check.fault_at_end(head)])
    return VerificationView(
        tenant=chain,
        entries=entries,
        first_seq=first_seq,
        head=None if head is None else view_of(HeadView, head),
        faults=[view_of(AuditFaultView, fault) for fault in faults[:MAX_FAULTS]],
    )


def _chain(principal: Principal, tenant: str | None) -> str:
    """Return the requested chain, or that of the caller. Raises Forbidden."""
    return permissions.tenant_to_read(principal, tenant) or INSTALLATION


async def _head_of(store: Store, tenant: str) -> ChainHead | None:
    """Return the head of a tenant's chain."""
    return await find_in_pages(lambda after: store.audit_heads(after, _HEADS_AT_ONCE), lambda head: head.tenant, tenant)


def _view(row: AuditRow) -> AuditView:
    return view_of(AuditView, row, before=raw(row.before), after=raw(row.after))
