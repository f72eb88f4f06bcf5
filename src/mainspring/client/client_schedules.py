# Generated from aio/client_schedules.py by tools/sync_client.py: edit that file, then run `make client`.
"""Client methods for schedules: definitions, windows, backfills, events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring.client.api_calls import Calls, batched
from mainspring.client.responses import decode
from mainspring.protocol.ids import new_id
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.schedules import (
    BackfillRequest,
    BackfillSummary,
    BackfillView,
    ChangeView,
    CloudEvent,
    EventView,
    FireView,
    ReceivedView,
    ScheduleRequest,
    ScheduleView,
    TriggerRequest,
    UpcomingView,
)

_EVENTS_PER_BATCH = 1_000
_MAX_BATCH_BYTES = 4 * 1024 * 1024
_BATCH = "application/cloudevents-batch+json"


class ScheduleCalls(Calls):
    """Schedules, windows and events. Schedules are identified by name or id."""

    def schedules(self, *, job: str | None = None, limit: int | None = None) -> Iterator[ScheduleView]:
        """List the schedules, without definitions."""
        return self._list("/schedules", ScheduleView, {**self._of_tenant(), "job": job}, limit)

    def schedule(self, name: str) -> ScheduleView:
        """Get a schedule with its definition."""
        return self._get(f"/schedules/{name}", ScheduleView, self._of_tenant())

    def create_schedule(
        self, definition: bytes | Mapping[str, object], why: str = "", *, since: datetime | None = None
    ) -> ScheduleView:
        """Create a schedule. Raises Conflict if the name exists.

        With `since`, windows after that time count as missed; otherwise the next window is the first.
        """
        return self._post("/schedules", self._schedule_request(definition, why, since), ScheduleView, repeatable=False)

    def put_schedule(
        self,
        name: str,
        definition: bytes | Mapping[str, object],
        why: str = "",
        *,
        since: datetime | None = None,
        if_match: int | None = None,
    ) -> ScheduleView:
        """Create or replace a schedule. Idempotent.

        `since` applies to a new schedule, as in `create_schedule`. Raises VersionMismatch if `if_match` is set and not
        its version.
        """
        request = self._schedule_request(definition, why, since)
        return self._put(f"/schedules/{name}", request, ScheduleView, version=if_match)

    def delete_schedule(self, name: str, why: str = "", *, if_match: int | None = None) -> ActionResult:
        """Delete a schedule. Its runs, and the records of its windows, are kept."""
        return self._delete(f"/schedules/{name}", why, version=if_match, params=self._of_tenant())

    def pause_schedule(self, name: str, why: str = "") -> ActionResult:
        """Pause a schedule: no window is planned until it is resumed."""
        return self._post_action(f"/schedules/{name}/pause", why, params=self._of_tenant())

    def resume_schedule(self, name: str, why: str = "") -> ActionResult:
        """Resume a schedule that was paused, or disabled after too many failures."""
        return self._post_action(f"/schedules/{name}/resume", why, params=self._of_tenant())

    def trigger(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        window_at: datetime | None = None,
        why: str = "",
        idempotency_key: str | None = None,
    ) -> FireView:
        """Trigger a schedule now, or repeat one of its windows. Idempotent per key."""
        request = TriggerRequest(
            window_at=window_at,
            params={key: msgspec.Raw(msgspec.json.encode(value)) for key, value in (params or {}).items()},
            why=why,
        )
        key = idempotency_key or self._draw_key()
        return self._post(f"/schedules/{name}/trigger", request, FireView, key=key, params=self._of_tenant())

    def backfill(self, name: str, request: BackfillRequest, *, idempotency_key: str | None = None) -> BackfillView:
        """Run past windows of a schedule, or with `dry_run` only list them. Windows that already ran are skipped.

        Idempotent per key.
        """
        key = idempotency_key or self._draw_key()
        return self._post(f"/schedules/{name}/backfill", request, BackfillView, key=key, params=self._of_tenant())

    def backfills(self, name: str, *, limit: int | None = None) -> list[BackfillSummary]:
        """List the backfills of a schedule, latest first."""
        return self._page(f"/schedules/{name}/backfills", BackfillSummary, self._of_tenant(), limit)

    def fires(
        self,
        name: str,
        *,
        outcomes: Sequence[str] = (),
        since: datetime | None = None,
        before: datetime | None = None,
        backfill: str | None = None,
        limit: int | None = None,
    ) -> Iterator[FireView]:
        """List the windows of a schedule with their outcome, newest first."""
        wanted = {
            **self._of_tenant(), "outcome": outcomes, "since": since, "before": before, "backfill": backfill,
        }  # fmt: skip
        return self._list(f"/schedules/{name}/fires", FireView, wanted, limit)

    def schedule_changes(self, name: str, *, limit: int | None = None) -> list[ChangeView]:
        """List the changes of a schedule, latest first."""
        return self._page(f"/schedules/{name}/changes", ChangeView, self._of_tenant(), limit)

    def upcoming(
        self,
        *,
        until: datetime | None = None,
        first_only: bool = False,
        with_last: bool = False,
        limit: int | None = None,
    ) -> list[UpcomingView]:
        """List upcoming windows of all schedules, soonest first (default: the next 24 hours).

        `first_only` lists only the next window of each schedule; `with_last` adds the outcome of its latest window.
        """
        wanted = {**self._of_tenant(), "until": until, "first_only": first_only, "with_last": with_last}
        return self._page("/upcoming", UpcomingView, wanted, limit)

    def event(
        self,
        type: str,
        *,
        data: object = None,
        source: str = "/mainspring/client",
        id: str | None = None,
        subject: str = "",
    ) -> CloudEvent:
        """Build an event. The default id is new, so that sending the event again is idempotent."""
        return CloudEvent(
            specversion="1.0",
            id=id or new_id("event", self._connection.clock.wall(), self._random),
            source=source,
            type=type,
            subject=subject,
            time=self._connection.clock.wall(),
            data=msgspec.UNSET if data is None else msgspec.Raw(msgspec.json.encode(data)),
        )

    def send_events(self, events: Sequence[CloudEvent]) -> list[ReceivedView]:
        """Send events; they are durable on return. Duplicates are ignored."""
        received: list[ReceivedView] = []
        texts = map(msgspec.json.encode, events)
        for batch in batched(texts, len, max_items=_EVENTS_PER_BATCH, max_bytes=_MAX_BATCH_BYTES):
            body = b"[" + b",".join(batch) + b"]"
            answer = self._connection.request(
                "POST", "/events", params=self._of_tenant(), body=body, media_type=_BATCH, repeatable=True
            )
            received += decode(answer, Page[ReceivedView]).items
        return received

    def received_events(self, *, type: str | None = None, limit: int | None = None) -> Iterator[EventView]:
        """List received events, latest first."""
        return self._list("/events/received", EventView, {**self._of_tenant(), "type": type}, limit)

    def _schedule_request(
        self, definition: bytes | Mapping[str, object], why: str, since: datetime | None
    ) -> ScheduleRequest:
        text = definition if isinstance(definition, bytes) else msgspec.json.encode(definition)
        return ScheduleRequest(definition=msgspec.Raw(text), tenant=self.tenant, since=since, why=why)
