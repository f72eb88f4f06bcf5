"""Freezes: no new work of a scope starts; running work continues (OPS-3).

Freezing everything or a pool requires access to all tenants. A tenant and its jobs can be frozen by its own operators.
"""

from __future__ import annotations

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.routing import Router
from mainspring.api.routes.sharing import rule_routes
from mainspring.api.routes.sharing.rule_routes import RuleEditor
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import reason
from mainspring.api.views.view_of import view_of
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.model.audit_entry import INSTALLATION
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import FreezeRequest, FreezeView
from mainspring.store.ports.store import Store

router = Router()

_CLUSTER_WIDE = (FreezeKind.ALL, FreezeKind.POOL)


@router.get("/freezes", operation="list_freezes", role=Role.VIEWER)
async def list_freezes(
    principal: Principal, time: StoreTimeCache, rules: SharingRulesCache, paging: PageRequest
) -> Page[FreezeView]:
    """List active freezes; for callers of one tenant those that affect its work."""
    now = await time.now()
    rows = [row for row in (await rules.refresh()).freezes if row.holds_at(now) and _concerns(principal, row)]
    return rule_routes.page_in_memory(rows, _view, lambda row: (row.kind, row.subject), paging, parts=2)


@router.post("/freezes", operation="freeze", role=Role.OPERATOR)
async def freeze(body: FreezeRequest, editor: RuleEditor) -> FreezeView:
    """Freeze a scope, for a duration or until it is unfrozen. Running work continues."""
    faults = Faults()
    rule_routes.check_reason(body.why, faults)
    rule_routes.check_duration(body.seconds, faults)
    kind = FreezeKind(body.kind)
    subject, tenant = _subject(editor.principal, kind, body.subject, faults, where="subject")
    if not faults.total():
        await _check_known(editor.store, kind, subject, faults)
    faults.refuse("the freeze has")
    existing = await _find(editor.rules, kind, subject)
    row = FreezeRow(
        kind=kind, subject=subject, by=editor.audit.actor, why=body.why, since=EPOCH,
        until=await editor.until(body.seconds),
    )  # fmt: skip
    entry = editor.audit.entry(
        _object(kind, subject), tenant=tenant, why=body.why, before=_view(existing) if existing else None, after=body
    )
    return _view(await editor.put(editor.store.freeze(row, entry)))


@router.delete("/freezes", operation="unfreeze", role=Role.OPERATOR)
async def unfreeze(kind: FreezeKind, editor: RuleEditor, subject: str = "", why: str = "") -> ActionResult:
    """Unfreeze a scope."""
    faults = Faults()
    subject, tenant = _subject(editor.principal, kind, subject, faults, where="query:subject")
    faults.refuse("the request has")
    existing = await _find(editor.rules, kind, subject)
    entry = editor.audit.entry(
        _object(kind, subject), tenant=tenant, why=reason(why), before=_view(existing) if existing else None
    )
    return await editor.delete(editor.store.unfreeze(kind, subject, entry), entry)


def _subject(principal: Principal, kind: FreezeKind, requested: str, faults: Faults, *, where: str) -> tuple[str, str]:
    """Return the subject and the tenant of the audit entry. Raises Forbidden if the caller may not freeze it.

    A job without a tenant belongs to the caller's.
    """
    if kind in _CLUSTER_WIDE:
        permissions.check_all_tenants(principal)
        if kind is FreezeKind.POOL:
            validate_job.check_name(requested, where, faults)
        elif requested:
            faults.add(where, "must be empty for everything")
        return requested, INSTALLATION
    if kind is FreezeKind.TENANT:
        validate_job.check_name(requested, where, faults)
        return requested, permissions.tenant_to_write(principal, requested)
    named, slash, job = requested.rpartition("/")
    for part in (named, job) if slash else (job,):
        validate_job.check_name(part, where, faults)
    tenant = permissions.tenant_to_write(principal, named if slash else None)
    return f"{tenant}/{job}", tenant


async def _check_known(store: Store, kind: FreezeKind, subject: str, faults: Faults) -> None:
    """Report unknown subjects: freezing one would look like a success."""
    if kind is FreezeKind.POOL:
        found = subject in {row.id for row in await store.shards()}
    elif kind is FreezeKind.TENANT:
        found = await store.find_tenant(subject) is not None
    elif kind is FreezeKind.JOB:
        tenant, _, job = subject.partition("/")
        found = await store.find_job(tenant, job, None) is not None
    else:
        found = True
    if not found:
        faults.add("subject", f"there is no {kind} {subject}")


async def _find(rules: SharingRulesCache, kind: FreezeKind, subject: str) -> FreezeRow | None:
    rows = (await rules.refresh()).freezes
    return next((row for row in rows if (row.kind, row.subject) == (kind, subject)), None)


def _concerns(principal: Principal, row: FreezeRow) -> bool:
    """Return whether the caller may see a freeze."""
    return row.kind in _CLUSTER_WIDE or principal.sees(row.subject.partition("/")[0])


def _object(kind: FreezeKind, subject: str) -> str:
    """Return the audit object of a freeze."""
    return f"{kind}:{subject}" if subject else kind


def _view(row: FreezeRow) -> FreezeView:
    return view_of(FreezeView, row)
