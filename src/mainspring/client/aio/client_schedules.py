"""The client's part for schedules: what is planned, what became of it, and the events that make things happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring.client.aio.api_calls import Calls
from mainspring.client.responses import decode
from mainspring.protocol.ids import new_id
from mainspring.protocol.rest.runs import LONGEST_PAGE, Done, Page
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

_EVENTS_AT_ONCE = 1_000
_EVENT_BYTES_AT_ONCE = 4 * 1024 * 1024
_BATCH = "application/cloudevents-batch+json"


class ScheduleCalls(Calls):
    """Schedules, their windows, and events. A schedule is named by its name or its id."""

    def schedules(self, *, job: str | None = None, limit: int | None = None) -> AsyncIterator[ScheduleView]:
        """The schedules, without their definitions."""
        return self._list("/schedules", ScheduleView, {"tenant": self.tenant, "job": job}, limit)

    async def schedule(self, name: str) -> ScheduleView:
        """A schedule with its definition."""
        return await self._get(f"/schedules/{name}", ScheduleView, self._of_tenant())

    async def create_schedule(
        self, definition: bytes | Mapping[str, object], why: str = "", *, since: datetime | None = None
    ) -> ScheduleView:
        """Make a schedule. Raises Conflict if there is one of that name.

        With `since` its windows after that instant have been missed; otherwise its first window is the next.
        """
        return await self._post("/schedules", self._wish(definition, why, since), ScheduleView, repeatable=False)

    async def put_schedule(
        self,
        name: str,
        definition: bytes | Mapping[str, object],
        why: str = "",
        *,
        since: datetime | None = None,
        if_match: int | None = None,
    ) -> ScheduleView:
        """Make a schedule, or change the one of that name as a whole; the same again changes nothing.

        `since` is for one that is new, as in `create_schedule`. Raises Outdated if `if_match` is said, and is not the
        version that it has.
        """
        wish = self._wish(definition, why, since)
        return await self._put(f"/schedules/{name}", wish, ScheduleView, version=if_match)

    async def delete_schedule(self, name: str, why: str = "", *, if_match: int | None = None) -> Done:
        """Take a schedule away. Its runs, and what became of its windows, stay."""
        params = {**self._of_tenant(), "why": why or None}
        return await self._delete(f"/schedules/{name}", version=if_match, params=params)

    async def pause_schedule(self, name: str, why: str = "") -> Done:
        """Plan nothing more of a schedule until it is resumed."""
        return await self._act(f"/schedules/{name}/pause", why, params=self._of_tenant())

    async def resume_schedule(self, name: str, why: str = "") -> Done:
        """Go on with a schedule that was paused, or disabled because it failed too often."""
        return await self._act(f"/schedules/{name}/resume", why, params=self._of_tenant())

    async def trigger(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        window_at: datetime | None = None,
        why: str = "",
        idempotency_key: str | None = None,
    ) -> FireView:
        """Fire a schedule now, or for one of its windows again. Repeated with the same key, it is the same fire."""
        wish = TriggerRequest(
            window_at=window_at,
            params={key: msgspec.Raw(msgspec.json.encode(value)) for key, value in (params or {}).items()},
            why=why,
        )
        key = idempotency_key or self._draw_key()
        return await self._post(f"/schedules/{name}/trigger", wish, FireView, key=key, params=self._of_tenant())

    async def backfill(self, name: str, wish: BackfillRequest, *, idempotency_key: str | None = None) -> BackfillView:
        """Run past windows of a schedule, or with `dry_run` only say which. Windows that ran are left out.

        Repeated with the same key, it is the same backfill.
        """
        key = idempotency_key or self._draw_key()
        return await self._post(f"/schedules/{name}/backfill", wish, BackfillView, key=key, params=self._of_tenant())

    async def backfills(self, name: str, *, limit: int | None = None) -> list[BackfillSummary]:
        """The backfills of a schedule, the latest first."""
        params = {**self._of_tenant(), "limit": None if limit is None else min(limit, LONGEST_PAGE)}
        page = await self._get(f"/schedules/{name}/backfills", Page[BackfillSummary], params)
        return page.items

    def fires(
        self,
        name: str,
        *,
        outcomes: Sequence[str] = (),
        since: datetime | None = None,
        before: datetime | None = None,
        backfill: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[FireView]:
        """What became of the windows of a schedule, the newest first."""
        wanted = {
            **self._of_tenant(), "outcome": outcomes, "since": _said(since), "before": _said(before),
            "backfill": backfill,
        }  # fmt: skip
        return self._list(f"/schedules/{name}/fires", FireView, wanted, limit)

    async def schedule_changes(self, name: str, *, limit: int | None = None) -> list[ChangeView]:
        """Who did what to a schedule, the latest first."""
        params = {**self._of_tenant(), "limit": None if limit is None else min(limit, LONGEST_PAGE)}
        page = await self._get(f"/schedules/{name}/changes", Page[ChangeView], params)
        return page.items

    async def upcoming(
        self,
        *,
        until: datetime | None = None,
        first_only: bool = False,
        with_last: bool = False,
        limit: int | None = None,
    ) -> list[UpcomingView]:
        """The windows to come of all schedules, soonest first; of the next day unless said.

        With `first_only`, only the next one of each schedule. With `with_last`, each also has what became of its
        schedule's latest window.
        """
        params = {
            "tenant": self.tenant, "until": _said(until), "first_only": first_only, "with_last": with_last,
            "limit": None if limit is None else min(limit, LONGEST_PAGE),
        }  # fmt: skip
        page = await self._get("/upcoming", Page[UpcomingView], params)
        return page.items

    def event(
        self,
        type: str,
        *,
        data: object = None,
        source: str = "/mainspring/client",
        id: str | None = None,
        subject: str = "",
    ) -> CloudEvent:
        """An event to send; without an id it gets a new one, so that sending it again is safe."""
        return CloudEvent(
            specversion="1.0",
            id=id or new_id("event", self._connection.clock.wall(), self._random),
            source=source,
            type=type,
            subject=subject,
            time=self._connection.clock.wall(),
            data=msgspec.UNSET if data is None else msgspec.Raw(msgspec.json.encode(data)),
        )

    async def send_events(self, events: Sequence[CloudEvent]) -> list[ReceivedView]:
        """Send events; when this comes back they are kept. One that had come before changes nothing."""
        received: list[ReceivedView] = []
        for body in _batches(events):
            answer = await self._connection.request(
                "POST", "/events", params=self._of_tenant(), body=body, media_type=_BATCH, repeatable=True
            )
            received += decode(answer, Page[ReceivedView]).items
        return received

    def received_events(self, *, type: str | None = None, limit: int | None = None) -> AsyncIterator[EventView]:
        """Events that came in, the latest first."""
        return self._list("/events/received", EventView, {"tenant": self.tenant, "type": type}, limit)

    def _wish(self, definition: bytes | Mapping[str, object], why: str, since: datetime | None) -> ScheduleRequest:
        text = definition if isinstance(definition, bytes) else msgspec.json.encode(definition)
        return ScheduleRequest(definition=msgspec.Raw(text), tenant=self.tenant, since=since, why=why)


def _batches(events: Sequence[CloudEvent]) -> Iterator[bytes]:
    """Events as bodies of requests, each of which a server takes."""
    texts: list[bytes] = []
    size = 0
    for event in events:
        text = msgspec.json.encode(event)
        if texts and (len(texts) >= _EVENTS_AT_ONCE or size + len(text) > _EVENT_BYTES_AT_ONCE):
            yield b"[" + b",".join(texts) + b"]"
            texts, size = [], 0
        texts.append(text)
        size += len(text)
    if texts:
        yield b"[" + b",".join(texts) + b"]"


def _said(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
