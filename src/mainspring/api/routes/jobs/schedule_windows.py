"""Windows of schedules: past fires, upcoming windows, changes and backfills (TRG-4, TRG-11)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http.cursors import DEFAULT_PAGE_SIZE, Limit, PageRequest, TimeCursor
from mainspring.api.http.routing import Router
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.views import schedule_views
from mainspring.api.views.view_of import view_of
from mainspring.core.schedules.windows import Outcome
from mainspring.host.schedules.schedule_actions import ScheduleActions, Upcoming
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import BackfillSummary, ChangeView, FireView, Instant, UpcomingView
from mainspring.store.ports.schedules import FireFilter
from mainspring.store.ports.store import Store

router = Router()

DEFAULT_OUTLOOK = timedelta(days=1)


@router.get("/upcoming", operation="list_upcoming", role=Role.VIEWER)
async def list_upcoming(
    principal: Principal,
    store: Store,
    time: StoreTimeCache,
    schedule_actions: ScheduleActions,
    until: Instant | None = None,
    first_only: bool = False,
    with_last: bool = False,
    tenant: str | None = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
) -> Page[UpcomingView]:
    """List the upcoming windows of all schedules, soonest first; default: the next day.

    With `first_only`, only the next one of each schedule; with `with_last`, each includes the latest fire of its
    schedule.
    """
    scope = permissions.tenant_to_read(principal, tenant)
    end = until or await time.now() + DEFAULT_OUTLOOK
    if first_only:
        rows = await store.next_schedules(scope, end, limit)
        coming = [Upcoming(window_at=row.next_at, schedule=row) for row in rows if row.next_at is not None]
    else:
        coming = await schedule_actions.upcoming(scope, end, limit)
    last: dict[str, FireView] = {}
    if with_last:
        for schedule_id in dict.fromkeys(one.schedule.id for one in coming):
            for fire in await store.fires(FireFilter(schedule_id=schedule_id), 1):
                last[schedule_id] = view_of(FireView, fire)
    return Page(
        items=[
            view_of(
                UpcomingView,
                one.schedule,
                window_at=one.window_at,
                schedule_id=one.schedule.id,
                schedule=one.schedule.name,
                last=last.get(one.schedule.id),
            )
            for one in coming
        ]
    )


@router.get("/schedules/{ref}/fires", operation="list_fires", role=Role.VIEWER)
async def list_fires(
    ref: str,
    visible: VisibleRows,
    paging: PageRequest,
    outcome: list[Outcome] | None = None,
    since: Instant | None = None,
    before: Instant | None = None,
    backfill: str | None = None,
    tenant: str | None = None,
) -> Page[FireView]:
    """List the fires of a schedule, newest window first."""
    position = TimeCursor.read(paging.cursor)
    row = await visible.schedule(ref, tenant)
    wanted = FireFilter(
        schedule_id=row.id,
        outcomes=tuple(outcome or ()),
        since=since,
        before=position.before(before),
        backfill_id=backfill,
    )
    rows = await visible.store.fires(wanted, paging.limit + position.skip)
    return position.page(rows, paging.limit, lambda fire: fire.window_at, partial(view_of, FireView))


@router.get("/schedules/{ref}/changes", operation="list_changes", role=Role.VIEWER)
async def list_changes(
    ref: str, visible: VisibleRows, tenant: str | None = None, limit: Limit = DEFAULT_PAGE_SIZE
) -> Page[ChangeView]:
    """List the changes of a schedule with their authors and reasons, latest first."""
    row = await visible.schedule(ref, tenant)
    return Page(items=[schedule_views.change_view(one) for one in await visible.store.schedule_changes(row.id, limit)])


@router.get("/schedules/{ref}/backfills", operation="list_backfills", role=Role.VIEWER)
async def list_backfills(
    ref: str, visible: VisibleRows, tenant: str | None = None, limit: Limit = DEFAULT_PAGE_SIZE
) -> Page[BackfillSummary]:
    """List the backfills of a schedule, latest first. Its fires have the results of their windows."""
    row = await visible.schedule(ref, tenant)
    return Page(
        items=[
            view_of(BackfillSummary, one, wanted=one.windows) for one in await visible.store.backfills(row.id, limit)
        ]
    )
