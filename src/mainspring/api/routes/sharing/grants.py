"""P0 grants: which tenants may use priority P0 (ADM-3)."""

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
from mainspring.core.fairness.quotas import P0Grant
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import GrantRequest, GrantView

router = Router()


@router.get("/p0-grants", operation="list_p0_grants", role=Role.VIEWER)
async def list_p0_grants(
    principal: Principal, time: StoreTimeCache, rules: SharingRulesCache, paging: PageRequest, tenant: str | None = None
) -> Page[GrantView]:
    """List the active grants, by tenant."""
    wanted = permissions.tenant_to_read(principal, tenant)
    now = await time.now()
    grants = (await rules.refresh()).grants
    rows = [row for row in grants if wanted in {None, row.tenant} and row.holds_at(now)]
    return rule_routes.page_in_memory(rows, _view, lambda row: (row.tenant,), paging)


@router.put("/tenants/{name}/p0-grant", operation="grant_p0", role=Role.APPROVER, all_tenants=True)
async def grant_p0(name: str, body: GrantRequest, editor: RuleEditor) -> GrantView:
    """Grant a tenant P0, for a duration or until revoked. Requires access to all tenants."""
    faults = Faults()
    validate_job.check_name(name, "path:name", faults)
    rule_routes.check_reason(body.why, faults)
    rule_routes.check_duration(body.seconds, faults)
    faults.refuse("the grant has")
    existing = await _find(editor.rules, name)
    grant = P0Grant(
        tenant=name, by=editor.audit.actor, why=body.why, since=EPOCH, until=await editor.until(body.seconds)
    )
    entry = editor.audit.entry(
        name, tenant=name, why=body.why, before=_view(existing) if existing else None, after=body
    )
    return _view(await editor.put(editor.store.grant_p0(grant, entry)))


@router.delete("/tenants/{name}/p0-grant", operation="revoke_p0", role=Role.APPROVER, all_tenants=True)
async def revoke_p0(name: str, editor: RuleEditor, why: str = "") -> ActionResult:
    """Revoke a tenant's P0 grant; existing runs keep their priority. Requires access to all tenants."""
    faults = Faults()
    validate_job.check_name(name, "path:name", faults)
    faults.refuse("the request has")
    existing = await _find(editor.rules, name)
    entry = editor.audit.entry(name, tenant=name, why=reason(why), before=_view(existing) if existing else None)
    return await editor.delete(editor.store.revoke_p0(name, entry), entry)


async def _find(rules: SharingRulesCache, tenant: str) -> P0Grant | None:
    return next((row for row in (await rules.refresh()).grants if row.tenant == tenant), None)


def _view(row: P0Grant) -> GrantView:
    return view_of(GrantView, row)
