"""Schedules: create, change, pause, trigger and backfill (TRG-9, TRG-11). Their fires are in `schedule_windows.py`.

A schedule is named by its id, or by its name in the caller's tenant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http import etags
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import refusal
from mainspring.api.http.routing import Router, json_response
from mainspring.api.request_components import RequestComponent
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import reason
from mainspring.api.submission.definitions import faults_in, new_schedule_entry, schedule_entry
from mainspring.api.submission.idempotency import REPLAYED, Key, key_for
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.views import schedule_views
from mainspring.api.views.view_of import view_of
from mainspring.core.schedules.backfill import Backfill, BackfillCommand
from mainspring.core.schedules.schedule_actions import TriggerCommand, check_since
from mainspring.core.schedules.schedule_json import decode_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.host.schedules.schedule_actions import NewScheduleRequest, ScheduleActions
from mainspring.protocol.errors import VersionMismatch
from mainspring.protocol.rest.runs import ActionRequest, ActionResult, Page
from mainspring.protocol.rest.schedules import (
    BackfillRequest,
    BackfillView,
    BackfillWindowView,
    FireView,
    ScheduleRequest,
    ScheduleView,
    TriggerRequest,
)
from mainspring.store.ports.schedules import BackfillRow, ScheduleFilter, ScheduleRow
from mainspring.store.ports.store import Store

router = Router()

Version = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


@dataclass(frozen=True, slots=True)
class ScheduleEditor(RequestComponent):
    """Changes of schedules by the caller, with their audit entries."""

    visible: VisibleRows
    schedule_actions: ScheduleActions
    time: StoreTimeCache
    audit: Auditor

    async def create(self, tenant: str, body: ScheduleRequest, spec: ScheduleSpec) -> Response:
        """Create a schedule, and respond with it."""
        why = reason(body.why)
        since = None if body.since is None else check_since(body.since, await self.time.now())
        entry = new_schedule_entry(self.audit, spec, tenant=tenant, why=why)
        with faults_in("definition"):
            request = NewScheduleRequest(spec=spec, since=since, audit=entry)
            row = await self.schedule_actions.create(tenant, request, by=self.audit.actor, why=why)
        view = schedule_views.schedule_view(row, with_definition=True)
        return etags.answer(view, row.version, status=201, headers={"Location": f"/api/v1/schedules/{row.id}"})


@router.get("/schedules", operation="list_schedules", role=Role.VIEWER)
async def list_schedules(
    principal: Principal,
    store: Store,
    paging: PageRequest,
    job: str | None = None,
    enabled: bool | None = None,
    paused: bool | None = None,
    tenant: str | None = None,
) -> Page[ScheduleView]:
    """List schedules by id, without definitions and without deleted ones."""
    wanted = ScheduleFilter(
        tenant=permissions.tenant_to_read(principal, tenant),
        job=job,
        enabled=enabled,
        paused=paused,
        after=paging.after(),
    )
    rows = await store.list_schedules(wanted, paging.limit)
    return paging.page(rows, schedule_views.schedule_view, lambda row: [row.id])


@router.post("/schedules", operation="create_schedule", role=Role.SUBMITTER, status=201, returns=ScheduleView)
async def create_schedule(body: ScheduleRequest, principal: Principal, editor: ScheduleEditor) -> Response:
    """Create a schedule. An existing name is a conflict (409); use PUT to change it."""
    tenant = permissions.tenant_to_write(principal, body.tenant)
    return await editor.create(tenant, body, _read(body))


@router.get("/schedules/{ref}", operation="get_schedule", role=Role.VIEWER, returns=ScheduleView)
async def get_schedule(
    ref: str, visible: VisibleRows, tenant: str | None = None, known: IfNoneMatch = None
) -> Response:
    """Get a schedule with its definition; the ETag is its version. By id also a deleted one."""
    row = await visible.schedule(ref, tenant)
    return etags.answer(schedule_views.schedule_view(row, with_definition=True), row.version, known)


@router.put("/schedules/{ref}", operation="put_schedule", role=Role.SUBMITTER, returns=ScheduleView, also=201)
async def put_schedule(
    ref: str, body: ScheduleRequest, editor: ScheduleEditor, version: Version | None = None, match: IfMatch = None
) -> Response:
    """Replace a schedule, or create it (201). Idempotent.

    Windows before the change are not fired for it, whatever `since` is. With `version` or `If-Match` it is changed only
    if that is its current version (412).
    """
    principal = editor.visible.principal
    tenant = permissions.tenant_to_write(principal, body.tenant)
    spec, why = _read(body), reason(body.why)
    row = await editor.visible.store.find_schedule(tenant, ref)
    if row is None or row.deleted_at is not None or not principal.sees(row.tenant):
        if spec.name != ref:
            raise refusal("definition.name", f"must be {ref[:200]!a}, as in the path")
        if version is not None or match is not None:
            raise VersionMismatch(f"there is no schedule {ref[:200]!a} to change")
        return await editor.create(tenant, body, spec)
    expected = etags.expected(match, row.version, "the schedule")
    entry = schedule_entry(editor.audit, row, spec, why=why)
    with faults_in("definition"):
        changed = await editor.schedule_actions.change(
            row.id, spec, by=entry.actor, why=why, version=version or expected, audit=entry
        )
    return etags.answer(schedule_views.schedule_view(changed, with_definition=True), changed.version)


@router.delete("/schedules/{ref}", operation="delete_schedule", role=Role.OPERATOR)
async def delete_schedule(
    ref: str, editor: ScheduleEditor, tenant: str | None = None, why: str = "", match: IfMatch = None
) -> ActionResult:
    """Delete a schedule. Running runs continue, and its fires stay readable."""
    row = await editor.visible.schedule(ref, tenant)
    why = reason(why)
    expected = etags.expected(match, row.version, "the schedule")
    entry = editor.audit.entry(row.id, tenant=row.tenant, why=why, before=schedule_views.definition(row.spec))
    await editor.schedule_actions.delete(row.id, by=entry.actor, why=why, version=expected, audit=entry)
    return ActionResult(changed=True)


def _add_action(verb: str, act: Callable[..., Awaitable[ScheduleRow]], about: str) -> None:
    """Add the route of an action on a schedule without further arguments."""

    async def execute(ref: str, body: ActionRequest, editor: ScheduleEditor, tenant: str | None = None) -> ActionResult:
        row = await editor.visible.schedule(ref, tenant)
        entry = editor.audit.entry(row.id, tenant=row.tenant, why=reason(body.why))
        changed = await act(editor.schedule_actions, row.id, by=entry.actor, why=entry.why, audit=entry)
        is_changed = (row.paused, row.enabled) != (changed.paused, changed.enabled)
        return ActionResult(changed=is_changed, detail=changed.because)

    execute.__doc__ = about
    router.post(f"/schedules/{{ref}}/{verb}", operation=f"{verb}_schedule", role=Role.OPERATOR)(execute)


_add_action(
    "pause", ScheduleActions.pause, "Pause a schedule: it fires no windows until it is resumed. Running runs continue."
)
_add_action(
    "resume",
    ScheduleActions.resume,
    """Resume a schedule that was paused, or disabled because it failed too often.

    Windows that were due meanwhile are not made up; use a backfill.
    """,
)


@router.post(
    "/schedules/{ref}/trigger",
    operation="trigger_schedule",
    role=Role.SUBMITTER,
    returns=FireView,
    rate_class=RateClass.SUBMISSION,
)
async def trigger_schedule(
    ref: str, body: TriggerRequest, editor: ScheduleEditor, tenant: str | None = None, key: Key = None
) -> Response:
    """Trigger a schedule now, or one of its windows again, even if it is paused.

    Once for each `Idempotency-Key`.
    """
    row = await editor.visible.schedule(ref, tenant)
    params = msgspec.json.encode(body.params).decode() if body.params else None
    entry = editor.audit.entry(row.id, tenant=row.tenant, why=reason(body.why), after={"window_at": body.window_at})
    triggered = await editor.schedule_actions.trigger(
        row.id, TriggerCommand(window_at=body.window_at, params=params, by=entry.actor, why=entry.why), entry,
        key_for(key, row.tenant, "trigger_schedule", row.id, body),
    )  # fmt: skip
    return json_response(view_of(FireView, triggered.fire), headers=REPLAYED if triggered.is_replay else None)


@router.post(
    "/schedules/{ref}/backfill",
    operation="backfill_schedule",
    role=Role.SUBMITTER,
    returns=BackfillView,
    rate_class=RateClass.SUBMISSION,
)
async def backfill_schedule(
    ref: str, body: BackfillRequest, editor: ScheduleEditor, tenant: str | None = None, key: Key = None
) -> Response:
    """Run past windows of a schedule; with `dry_run` only list them. Windows that ran are omitted.

    Once for each `Idempotency-Key`.
    """
    row = await editor.visible.schedule(ref, tenant)
    schedule_actions, audit = editor.schedule_actions, editor.audit
    backfill_request = view_of(BackfillCommand, body, by=audit.actor, why=reason(body.why))
    if body.dry_run:
        audit.skip_entry()
        return json_response(
            _backfill_view(row, backfill_request, None, await schedule_actions.plan_backfill(row.id, backfill_request))
        )
    entry = audit.entry(row.id, tenant=row.tenant, why=backfill_request.why, after=backfill_request)
    created = await schedule_actions.backfill(
        row.id, backfill_request, entry, key_for(key, row.tenant, "backfill_schedule", row.id, body)
    )
    headers = REPLAYED if created.is_replay else None
    return json_response(_backfill_view(row, backfill_request, created.row, created.planned), headers=headers)


def _read(body: ScheduleRequest) -> ScheduleSpec:
    with faults_in("definition"):
        return decode_schedule(bytes(body.definition))


def _backfill_view(
    row: ScheduleRow, backfill_request: BackfillCommand, kept: BackfillRow | None, planned: Backfill
) -> BackfillView:
    return view_of(
        BackfillView,
        backfill_request,
        id=None if kept is None else kept.id,
        schedule_id=row.id,
        total=planned.total,
        wanted=sum(window.is_wanted for window in planned.windows),
        windows=[view_of(BackfillWindowView, one) for one in planned.windows],
    )
