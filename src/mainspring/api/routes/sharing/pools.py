"""Pools, and policies that pin jobs to them (ADM-8). Changes require access to all tenants."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from mainspring.api.auth.principal import Role
from mainspring.api.http import etags
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router
from mainspring.api.routes.sharing import rule_routes
from mainspring.api.routes.sharing.rule_routes import RuleEditor
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import reason
from mainspring.api.views import quantities
from mainspring.api.views.view_of import view_of
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.fairness.pools import Policy, PoolRow, blocking_policy, read_labels
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.model.audit_entry import INSTALLATION
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import PolicyRequest, PolicyView, PoolRequest, PoolView
from mainspring.store.ports.store import Store

router = Router()

MAX_ZONES = 100


@router.get("/pools", operation="list_pools", role=Role.VIEWER)
async def list_pools(
    store: Store, time: StoreTimeCache, rules: SharingRulesCache, paging: PageRequest
) -> Page[PoolView]:
    """List pools by name: those with a shard, and those that were configured."""
    found = await _pools(store, time, rules)
    return rule_routes.page_in_memory(found.values(), lambda pool: pool, lambda pool: (pool.name,), paging)


@router.get("/pools/{name}", operation="get_pool", role=Role.VIEWER, returns=PoolView)
async def get_pool(
    name: str, store: Store, time: StoreTimeCache, rules: SharingRulesCache, known: IfNoneMatch = None
) -> Response:
    """Get a pool."""
    view = await _find_pool(store, time, rules, name)
    return etags.answer(view, view.version, known)


@router.put("/pools/{name}", operation="put_pool", role=Role.ADMIN, returns=PoolView, all_tenants=True)
async def put_pool(name: str, body: PoolRequest, editor: RuleEditor, match: IfMatch = None) -> Response:
    """Configure a pool, which need not exist yet. Requires access to all tenants.

    Running tasks continue. Queued tasks that the new labels or zones exclude stay queued.
    """
    row = _pool_row(name, body, editor.audit.actor)
    existing = next((one for one in (await editor.rules.refresh()).pools if one.name == name), None)
    expected = etags.expected(match, None if existing is None else existing.version, f"pool {name}")
    before = None if existing is None else _audit_summary(existing)
    entry = editor.audit.entry(name, tenant=INSTALLATION, before=before, after=_audit_summary(row))
    kept = await editor.put(editor.store.put_pool(row, expected, entry))
    return etags.answer(await _find_pool(editor.store, editor.time, editor.rules, name), kept.version)


@router.get("/policies", operation="list_policies", role=Role.VIEWER)
async def list_policies(rules: SharingRulesCache, paging: PageRequest) -> Page[PolicyView]:
    """List policies by name, with the pools that satisfy each."""
    current = await rules.refresh()
    return rule_routes.page_in_memory(
        current.policies, lambda row: _policy_view(row, current), lambda row: (row.name,), paging
    )


@router.put("/policies/{name}", operation="put_policy", role=Role.ADMIN, returns=PolicyView, all_tenants=True)
async def put_policy(name: str, body: PolicyRequest, editor: RuleEditor, match: IfMatch = None) -> Response:
    """Restrict jobs with a label to pools with certain labels. Requires access to all tenants.

    Running tasks continue; queued tasks in other pools no longer start there.
    """
    _check_policy(name, body)
    existing = await _find_policy(editor.rules, name)
    expected = etags.expected(match, None if existing is None else existing.version, f"policy {name}")
    row = view_of(
        Policy, body, name=name, requires=_labels(body.requires), version=0, updated_at=EPOCH,
        updated_by=editor.audit.actor,
    )  # fmt: skip
    entry = editor.audit.entry(
        name, tenant=INSTALLATION, before=None if existing is None else _request(existing), after=body
    )
    kept = await editor.put(editor.store.put_policy(row, expected, entry))
    return etags.answer(_policy_view(kept, editor.rules.now), kept.version)


@router.delete("/policies/{name}", operation="drop_policy", role=Role.ADMIN, all_tenants=True)
async def drop_policy(name: str, editor: RuleEditor, why: str = "", match: IfMatch = None) -> ActionResult:
    """Delete a policy. Requires access to all tenants."""
    existing = await _find_policy(editor.rules, name)
    if existing is None:
        raise not_found("policy", name)
    etags.expected(match, existing.version, f"policy {name}")
    entry = editor.audit.entry(name, tenant=INSTALLATION, why=reason(why), before=_request(existing))
    return await editor.delete(editor.store.drop_policy(name, entry), entry)


async def _pools(store: Store, time: StoreTimeCache, rules: SharingRulesCache) -> dict[str, PoolView]:
    """Return all pools by name."""
    described = {row.name: row for row in (await rules.refresh()).pools}
    now = await time.now()
    leaders = {row.id: row.leader if row.lease_until > now else "" for row in await store.shards()}
    return {name: _pool_view(name, described.get(name), leaders.get(name, "")) for name in {*described, *leaders}}


async def _find_pool(store: Store, time: StoreTimeCache, rules: SharingRulesCache, name: str) -> PoolView:
    view = (await _pools(store, time, rules)).get(name)
    if view is None:
        raise not_found("pool", name)
    return view


def _pool_row(name: str, body: PoolRequest, by: str) -> PoolRow:
    """Validate and build a pool. Raises Refused."""
    faults = Faults()
    validate_job.check_name(name, "path:name", faults)
    validate_job.check_labels(body.labels, "labels", faults)
    if len(body.zones) > MAX_ZONES:
        faults.add("zones", f"has {len(body.zones)} zones, at most {MAX_ZONES} are allowed")
    for number, zone in enumerate(body.zones[:MAX_ZONES]):
        validate_job.check_name(zone, f"zones[{number}]", faults)
    largest = None
    if body.max_resources is not None:
        largest = quantities.read_largest(body.max_resources, "max_resources", faults)
    rule_routes.check_note(body.note, faults)
    faults.refuse("the pool has")
    return PoolRow(
        name=name, labels=_labels(body.labels), zones=tuple(dict.fromkeys(body.zones)), max_resources=largest,
        note=body.note, version=0, updated_at=EPOCH, updated_by=by,
    )  # fmt: skip


def _check_policy(name: str, body: PolicyRequest) -> None:
    faults = Faults()
    validate_job.check_name(name, "path:name", faults)
    longest = validate_job.MAX_JOB_LABEL_LENGTH
    if not validate_job.JOB_LABEL.fullmatch(body.label):
        faults.add("label", f"is not a valid job label: use 1 to {longest} letters, digits, dots, hyphens, slashes")
    if len(body.value) > longest:
        faults.add("value", f"must have at most {longest} characters")
    if not body.requires:
        faults.add("requires", "must have at least one label")
    validate_job.check_labels(body.requires, "requires", faults)
    rule_routes.check_note(body.note, faults)
    faults.refuse("the policy has")


async def _find_policy(rules: SharingRulesCache, name: str) -> Policy | None:
    return next((row for row in (await rules.refresh()).policies if row.name == name), None)


def _labels(labels: dict[str, str]) -> str:
    return msgspec.json.encode(labels, order="sorted").decode()


def _audit_summary(row: PoolRow) -> PoolRequest:
    """Return the audit summary of a pool."""
    largest = None if row.max_resources is None else quantities.show_largest(row.max_resources)
    return PoolRequest(labels=read_labels(row.labels), zones=row.zones, max_resources=largest, note=row.note)


def _request(row: Policy) -> PolicyRequest:
    """Return the audit summary of a policy."""
    return view_of(PolicyRequest, row, requires=read_labels(row.requires))


def _pool_view(name: str, row: PoolRow | None, leader: str) -> PoolView:
    """Convert a pool; an unconfigured one has only a leader."""
    if row is None:
        return PoolView(name=name, labels={}, zones=[], max_resources=None, note="", leader=leader, version=0)
    return view_of(
        PoolView, row, labels=read_labels(row.labels), max_resources=_audit_summary(row).max_resources, leader=leader
    )


def _policy_view(row: Policy, rules: AllRules) -> PolicyView:
    concerned = {row.label: row.value}
    return view_of(
        PolicyView, row, requires=read_labels(row.requires),
        pools=[pool.name for pool in rules.pools if blocking_policy([row], concerned, pool) is None],
    )  # fmt: skip
