"""Live stream of transitions: server-sent events, or JSON lines (OBS-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mainspring.api.auth.access import Access, SessionValidity
from mainspring.api.auth.principal import Role
from mainspring.api.http.list_filters import ListFilters, Query
from mainspring.api.http.routing import NDJSON, Header, Router
from mainspring.api.live.run_jobs import RunJobs
from mainspring.api.live.transitions import HEARTBEAT_SECONDS, Position, TransitionFeed, read_cursor, write_cursor
from mainspring.core.model.task import TaskState, Transition
from mainspring.core.query.filters import Filter, ListKind, matches
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.runs import EventLine, TransitionView
from mainspring.store.ports.front import TransitionRecord

log = structlog.get_logger()

router = Router()

Format = Literal["sse", "jsonl"]
_Write = Callable[[dict[str, Position], Transition | None], bytes]
_SSE = "text/event-stream"


@router.get("/events", operation="follow_events", role=Role.VIEWER, answers=_SSE)
async def follow_events(
    request: Request,
    lists: ListFilters,
    access: Access,
    live: TransitionFeed,
    run_jobs: RunJobs,
    clock: Clock,
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
    wanted = await lists.parse(ListKind.EVENTS, q, tenant=tenant, run=run, task=task, job=job, states=state)
    resume_cursor = last_event_id or after
    positions = await live.now() if resume_cursor is None else read_cursor(resume_cursor)
    lines = format == "jsonl" or (format is None and NDJSON in accept)
    stream = _Stream(live, run_jobs, clock, wanted, positions, _line if lines else _event)
    validity = access.session(request)
    parts = stream.follow(validity) if follow else stream.catch_up()
    return StreamingResponse(parts, media_type=NDJSON if lines else _SSE)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The encoded transitions of one client. Filtered ones still advance the cursor."""

    live: TransitionFeed
    run_jobs: RunJobs
    clock: Clock
    wanted: Filter
    positions: dict[str, Position]
    write: _Write

    async def follow(self, validity: SessionValidity) -> AsyncIterator[bytes]:
        """Stream transitions while the session is valid."""
        yield self.write(self.positions, None)
        sent_at = self.clock.monotonic()
        try:
            async for group in self.live.follow(dict(self.positions)):
                if not await validity.is_valid():
                    return
                text = await self._encode(group)
                if not text and (not group or self.clock.monotonic() - sent_at >= HEARTBEAT_SECONDS):
                    text = self.write(self.positions, None)
                if text:
                    sent_at = self.clock.monotonic()
                    yield text
        except Unavailable as fault:
            # The client resumes with its cursor, without a gap.
            log.warning("events.unavailable", fault=str(fault))

    async def catch_up(self) -> AsyncIterator[bytes]:
        """Stream the transitions up to now, and at the end the cursor to resume with."""
        async for group in self.live.catch_up(dict(self.positions)):
            text = await self._encode(group)
            if text:
                yield text
        yield self.write(self.positions, None)

    async def _encode(self, group: list[TransitionRecord]) -> bytes:
        jobs = await self._jobs(group)
        parts = []
        for entry in group:
            self.positions[entry.shard] = (entry.batch_no, entry.ordinal)
            if self._is_wanted(entry.transition, jobs):
                parts.append(self.write(self.positions, entry.transition))
        return b"".join(parts)

    async def _jobs(self, group: list[TransitionRecord]) -> dict[str, str]:
        """Return the jobs of runs that may match, if the filter needs them."""
        if self.wanted.job is None:
            return {}
        return await self.run_jobs.names(
            entry.transition.run_id for entry in group if _is_of(self.wanted, entry.transition)
        )

    def _is_wanted(self, transition: Transition, jobs: dict[str, str]) -> bool:
        wanted = self.wanted
        return _is_of(wanted, transition) and (
            wanted.job is None or matches(wanted.job, jobs.get(transition.run_id, ""))
        )


def _is_of(wanted: Filter, transition: Transition) -> bool:
    """Return whether a transition matches the filter, except for the job."""
    return (
        wanted.tenant in {None, transition.tenant}
        and wanted.run in {None, transition.run_id}
        and wanted.task in {None, transition.task_id}
        and (not wanted.states or transition.end in wanted.states)
    )


def _event(positions: dict[str, Position], transition: Transition | None) -> bytes:
    cursor = f"id: {write_cursor(positions)}\n" if positions else ""
    kind, data = ("heartbeat", b"{}") if transition is None else ("transition", msgspec.json.encode(_view(transition)))
    return f"event: {kind}\n{cursor}data: ".encode() + data + b"\n\n"


def _line(positions: dict[str, Position], transition: Transition | None) -> bytes:
    cursor = write_cursor(positions)
    line = (
        EventLine(event="heartbeat", cursor=cursor)
        if transition is None
        else EventLine(event="transition", cursor=cursor, transition=_view(transition))
    )
    return msgspec.json.encode(line) + b"\n"


def _view(transition: Transition) -> TransitionView:
    return msgspec.convert(transition, TransitionView, from_attributes=True)
