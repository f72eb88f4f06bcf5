"""Concurrency and rate groups: limits per time or per period, across jobs (PLC-12)."""

from __future__ import annotations

from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http import etags
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router
from mainspring.api.routes.sharing import rule_routes
from mainspring.api.routes.sharing.rule_routes import RuleEditor
from mainspring.api.submission.actions import reason
from mainspring.api.views.view_of import view_of
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.errors import Conflict
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import GroupRequest, GroupView

router = Router()

MAX_SLOTS = 1_000_000
MAX_GROUPS_PER_TENANT = 1_000
"""Maximum number of groups per tenant: every leader has all of them in memory."""
MIN_PERIOD_SECONDS = 1.0
"""Minimum period: allowances are valid for a part of it, and would expire unused."""


@router.get("/groups", operation="list_groups", role=Role.VIEWER)
async def list_groups(
    principal: Principal, rules: SharingRulesCache, paging: PageRequest, tenant: str | None = None
) -> Page[GroupView]:
    """List groups by tenant and name."""
    wanted = permissions.tenant_to_read(principal, tenant)
    rows = [row for row in (await rules.refresh()).groups if wanted in {None, row.tenant}]
    return rule_routes.page_in_memory(rows, _view, lambda row: (row.tenant, row.name), paging, parts=2)


@router.get("/groups/{name}", operation="get_group", role=Role.VIEWER, returns=GroupView)
async def get_group(
    name: str, principal: Principal, rules: SharingRulesCache, tenant: str | None = None, known: IfNoneMatch = None
) -> Response:
    """Get a group."""
    row = await _find(rules, permissions.tenant_to_write(principal, tenant), name)
    if row is None:
        raise not_found("group", name)
    return etags.answer(_view(row), row.version, known)


@router.put("/groups/{name}", operation="put_group", role=Role.OPERATOR, returns=GroupView)
async def put_group(
    name: str, body: GroupRequest, editor: RuleEditor, tenant: str | None = None, match: IfMatch = None
) -> Response:
    """Create a group or change its limits. Running tasks continue, even if they exceed the new limit."""
    owner = permissions.tenant_to_write(editor.principal, tenant)
    _check(owner, name, body)
    existing = await _find(editor.rules, owner, name)
    if existing is None and sum(row.tenant == owner for row in editor.rules.now.groups) >= MAX_GROUPS_PER_TENANT:
        raise Conflict(f"a tenant has at most {MAX_GROUPS_PER_TENANT} groups")
    expected = etags.expected(match, None if existing is None else existing.version, f"group {name}")
    row = view_of(GroupRow, body, tenant=owner, name=name, version=0, updated_at=EPOCH, updated_by=editor.audit.actor)
    entry = editor.audit.entry(name, tenant=owner, before=None if existing is None else _request(existing), after=body)
    kept = await editor.put(editor.store.put_group(row, expected, entry))
    return etags.answer(_view(kept), kept.version)


@router.delete("/groups/{name}", operation="drop_group", role=Role.OPERATOR)
async def drop_group(
    name: str, editor: RuleEditor, tenant: str | None = None, why: str = "", match: IfMatch = None
) -> ActionResult:
    """Delete a group: tasks that name it no longer wait for it."""
    owner = permissions.tenant_to_write(editor.principal, tenant)
    existing = await _find(editor.rules, owner, name)
    if existing is None:
        raise not_found("group", name)
    etags.expected(match, existing.version, f"group {name}")
    entry = editor.audit.entry(name, tenant=owner, why=reason(why), before=_request(existing))
    return await editor.delete(editor.store.drop_group(owner, name, entry), entry)


def _check(owner: str, name: str, body: GroupRequest) -> None:
    faults = Faults()
    validate_job.check_name(owner, "query:tenant", faults)
    validate_job.check_name(name, "path:name", faults)
    if not 1 <= body.most <= MAX_SLOTS:
        faults.add("most", f"must be from 1 to {MAX_SLOTS}")
    if body.per_seconds is not None and not MIN_PERIOD_SECONDS <= body.per_seconds <= rule_routes.MAX_SECONDS:
        faults.add("per_seconds", f"must be from {MIN_PERIOD_SECONDS:g} to {rule_routes.MAX_SECONDS:.0f}")
    rule_routes.check_note(body.note, faults)
    faults.refuse("the group has")


async def _find(rules: SharingRulesCache, tenant: str, name: str) -> GroupRow | None:
    rows = (await rules.refresh()).groups
    return next((row for row in rows if (row.tenant, row.name) == (tenant, name)), None)


def _request(row: GroupRow) -> GroupRequest:
    """Return the audit summary of a group."""
    return view_of(GroupRequest, row)


def _view(row: GroupRow) -> GroupView:
    return view_of(GroupView, row)
