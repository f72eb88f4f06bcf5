"""Live stream of transitions: server-sent events, or JSON lines (OBS-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mainspring.api.auth.session_validity import Standing
from mainspring.api.http import list_filters
from mainspring.api.http.list_filters import Query
from mainspring.api.http.routing import NDJSON, Header, Router
from mainspring.api.live.transitions import HEARTBEAT_SECONDS, Place, read_cursor, write_cursor
from mainspring.api.services import Principal, Role, Services
from mainspring.core.model.task import TaskState, Transition
from mainspring.core.query.filters import Listed, Wanted, fits
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.runs import EventLine, TransitionView
from mainspring.store.ports.front import Told

log = structlog.get_logger()

router = Router()

Format = Literal["sse", "jsonl"]
_Write = Callable[[dict[str, Place], Transition | None], bytes]
_SSE = "text/event-stream"


@router.get("/events", operation="follow_events", role=Role.VIEWER, answers=_SSE)
async def follow_events(
    request: Request,
    principal: Principal,
    services: Services,
    q: Query = "",
    tenant: str | None = None,
    run: str | None = None,
    task: str | None = None,
    job: str | None = None,
    state: list[TaskState] | None = None,
    after: str | None = None,
    follow: bool = True,
    format: Format | None = None,
    accept: Annotated[str, Header("Accept")] = "",
    last_event_id: Annotated[str | None, Header("Last-Event-ID")] = None,
) -> Response:
    """Stream transitions from now on, or after a cursor: `after`, or the header Last-Event-ID.

    `event: transition` has a transition as its data and its cursor as its id; `event: heartbeat` is sent every 5 s. A
    slow client is disconnected, and resumes at the last id without a gap. An empty `after` starts with the oldest
    stored transition. With `follow=false` the response ends at the current position.

    As JSON lines: `Accept: application/x-ndjson` or `format=jsonl`.
    """
    wanted = await list_filters.wanted_of(
        services, principal, Listed.EVENTS, q, tenant=tenant, run=run, task=task, job=job, states=state
    )
    said = last_event_id or after
    places = await services.live.now() if said is None else read_cursor(said)
    lines = format == "jsonl" or (format is None and NDJSON in accept)
    stream = _Stream(services, wanted, places, _line if lines else _event)
    standing = Standing(services, request)
    parts = stream.follow(standing) if follow else stream.catch_up()
    return StreamingResponse(parts, media_type=NDJSON if lines else _SSE)


class _Stream:
    """The encoded transitions of one client. Filtered ones still advance the cursor."""

    def __init__(self, services: Services, wanted: Wanted, places: dict[str, Place], write: _Write) -> None:
        self._services = services
        self._wanted = wanted
        self._places = places
        self._write = write

    async def follow(self, standing: Standing) -> AsyncIterator[bytes]:
        """Stream transitions while the session is valid."""
        yield self._write(self._places, None)
        clock = self._services.clock
        said_at = clock.monotonic()
        try:
            async for group in self._services.live.follow(dict(self._places)):
                if not await standing.is_valid():
                    return
                text = await self._told(group)
                if not text and (not group or clock.monotonic() - said_at >= HEARTBEAT_SECONDS):
                    text = self._write(self._places, None)
                if text:
                    said_at = clock.monotonic()
                    yield text
        except Unavailable as fault:
            # The client resumes with its cursor, without a gap.
            log.warning("events.unavailable", fault=str(fault))

    async def catch_up(self) -> AsyncIterator[bytes]:
        """Stream the transitions up to now, and at the end the cursor to resume with."""
        async for group in self._services.live.so_far(dict(self._places)):
            text = await self._told(group)
            if text:
                yield text
        yield self._write(self._places, None)

    async def _told(self, group: list[Told]) -> bytes:
        jobs = await self._jobs(group)
        parts = []
        for told in group:
            self._places[told.shard] = (told.batch_no, told.ordinal)
            if self._is_wanted(told.transition, jobs):
                parts.append(self._write(self._places, told.transition))
        return b"".join(parts)

    async def _jobs(self, group: list[Told]) -> dict[str, str]:
        """Return the jobs of runs that may match, if the filter needs them."""
        if self._wanted.job is None:
            return {}
        return await self._services.run_jobs.names(
            told.transition.run_id for told in group if _is_of(self._wanted, told.transition)
        )

    def _is_wanted(self, transition: Transition, jobs: dict[str, str]) -> bool:
        wanted = self._wanted
        return _is_of(wanted, transition) and (wanted.job is None or fits(wanted.job, jobs.get(transition.run_id, "")))


def _is_of(wanted: Wanted, transition: Transition) -> bool:
    """Return whether a transition matches the filter, except for the job."""
    return (
        wanted.tenant in {None, transition.tenant}
        and wanted.run in {None, transition.run_id}
        and wanted.task in {None, transition.task_id}
        and (not wanted.states or transition.end in wanted.states)
    )


def _event(places: dict[str, Place], transition: Transition | None) -> bytes:
    cursor = f"id: {write_cursor(places)}\n" if places else ""
    kind, data = ("heartbeat", b"{}") if transition is None else ("transition", msgspec.json.encode(_view(transition)))
    return f"event: {kind}\n{cursor}data: ".encode() + data + b"\n\n"


def _line(places: dict[str, Place], transition: Transition | None) -> bytes:
    cursor = write_cursor(places)
    line = (
        EventLine(event="heartbeat", cursor=cursor)
        if transition is None
        else EventLine(event="transition", cursor=cursor, transition=_view(transition))
    )
    return msgspec.json.encode(line) + b"\n"


def _view(transition: Transition) -> TransitionView:
    return msgspec.convert(transition, TransitionView, from_attributes=True)
