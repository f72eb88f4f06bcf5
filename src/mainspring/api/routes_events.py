"""What happens, as it happens: server-sent events (OBS-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mainspring.api.live import HEARTBEAT_SECONDS, Place, read_cursor, write_cursor
from mainspring.api.routing import Header, Router
from mainspring.api.services import Principal, Role, Services
from mainspring.api.standing import Standing
from mainspring.core.tasks import TaskState, Transition
from mainspring.errors import Unavailable
from mainspring.rest import TransitionView

log = structlog.get_logger()

router = Router()


@router.get("/events", role=Role.VIEWER, answers="text/event-stream")
async def follow_events(
    request: Request,
    principal: Principal,
    services: Services,
    run: str | None = None,
    task: str | None = None,
    state: list[TaskState] | None = None,
    after: str | None = None,
    last_event_id: Annotated[str | None, Header("Last-Event-ID")] = None,
) -> Response:
    """Every transition from now on, or behind a cursor: `after`, or the header Last-Event-ID.

    `event: transition` has a transition as its data and the cursor behind it as its id; `event: heartbeat` comes every
    5 s. Whoever is too slow is let go, and resumes by the last id without a gap.
    """
    said = last_event_id or after
    places = await services.live.now() if said is None else read_cursor(said)

    def is_wanted(transition: Transition) -> bool:
        return (
            principal.sees(transition.tenant)
            and (run is None or transition.run_id == run)
            and (task is None or transition.task_id == task)
            and (state is None or transition.end in state)
        )

    standing = Standing(services, request.headers, request.client.host if request.client else "")
    return StreamingResponse(_events(services, places, is_wanted, standing), media_type="text/event-stream")


async def _events(
    services: Services, places: dict[str, Place], is_wanted: Callable[[Transition], bool], standing: Standing
) -> AsyncIterator[bytes]:
    """Groups of transitions as text. What is not wanted moves the cursor on all the same."""
    yield _event("heartbeat", places, b"{}")
    said_at = services.clock.monotonic()
    try:
        async for group in services.live.follow(dict(places)):
            if not await standing.holds():
                return
            events = []
            for told in group:
                places[told.shard] = (told.batch_no, told.ordinal)
                if is_wanted(told.transition):
                    events.append(_event("transition", places, msgspec.json.encode(_view(told.transition))))
            silence = services.clock.monotonic() - said_at
            if not events and (not group or silence >= HEARTBEAT_SECONDS):
                events.append(_event("heartbeat", places, b"{}"))
            if events:
                said_at = services.clock.monotonic()
                yield b"".join(events)
    except Unavailable as fault:
        # The follower comes back with its cursor, and misses nothing.
        log.warning("events.unavailable", fault=str(fault))


def _event(kind: str, places: dict[str, Place], data: bytes) -> bytes:
    cursor = f"id: {write_cursor(places)}\n" if places else ""
    return f"event: {kind}\n{cursor}data: ".encode() + data + b"\n\n"


def _view(transition: Transition) -> TransitionView:
    return msgspec.convert(transition, TransitionView, from_attributes=True)
