"""Task logs, as text (WRK-8)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mainspring.api.auth.access import Access, SessionValidity
from mainspring.api.auth.principal import Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Header, Router
from mainspring.api.logs.logs import LogPiece, LogStore
from mainspring.core.model.task import Task
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import Store

MAX_ANSWER_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_POLL_SECONDS = 0.25
_MAX_EMPTY_READS = 8
"""Number of empty reads after the end of an attempt before a follower stops."""
_TEXT = "text/plain; charset=utf-8"
MAX_OFFSET = 2**53
_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")

router = Router()


@router.get("/tasks/{task_id}/log", operation="get_task_log", role=Role.VIEWER, answers="text/plain")
async def get_task_log(
    task_id: str,
    request: Request,
    visible: VisibleRows,
    store: Store,
    access: Access,
    logs: LogStore,
    attempt: int | None = None,
    offset: Annotated[int, msgspec.Meta(ge=-MAX_OFFSET, le=MAX_OFFSET)] = 0,
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ANSWER_BYTES)] = 1024 * 1024,
    follow: bool = False,
    part: Annotated[str | None, Header("Range")] = None,
) -> Response:
    """Get the log of a task's latest attempt, or of attempt number `attempt`.

    A negative `offset` counts from the end. With `follow` the response continues until the attempt ends, and `limit` is
    ignored. X-Log-Offset is the start of the response, X-Log-Size the current size, X-Log-Complete whether it is final.
    `Range: bytes=..` requests a part (206) instead of `offset` and `limit`; 416 if the log has nothing there (yet).
    """
    task = await visible.task(task_id)
    number, attempt_id = await _attempt(store, task, attempt)
    wanted = None if follow else _read_range(part)
    if wanted is not None:
        offset, limit = wanted
    piece = await logs.read(attempt_id, offset, min(limit, _CHUNK_BYTES))
    headers = {
        "X-Log-Attempt": str(number),
        "X-Log-Offset": str(piece.offset),
        "X-Log-Size": str(piece.size),
        "X-Log-Complete": str(piece.complete).lower(),
        "Accept-Ranges": "bytes",
    }
    if wanted is not None:
        return await _answer_part(logs, attempt_id, piece, limit, headers)
    if follow:
        validity = access.session(request)
        return StreamingResponse(
            _follow(store, logs, task_id, attempt_id, piece, validity), headers=headers, media_type=_TEXT
        )
    if len(piece.data) == limit or (piece.complete and piece.offset + len(piece.data) >= piece.size):
        return Response(piece.data, headers=headers, media_type=_TEXT)
    return StreamingResponse(_rest(logs, attempt_id, piece, limit), headers=headers, media_type=_TEXT)


async def _attempt(store: Store, task: Task, number: int | None) -> tuple[int, str]:
    """Return the number and id of an attempt; of those with the same number, that of the last generation."""
    if task.attempt_id is not None and number in {None, task.attempt}:
        return task.attempt, task.attempt_id
    for attempt in reversed(await store.attempts_of(task.id)):
        if number in {None, attempt.number}:
            return attempt.number, attempt.id
    raise not_found("attempt", f"{'' if number is None else number} of {task.id}".strip())


def _read_range(header: str | None) -> tuple[int, int] | None:
    """Parse a Range header into start and maximum length; None if it is unsupported (RFC 9110)."""
    match = _RANGE.fullmatch(header.strip()) if header is not None else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        return -int(match[2]), min(int(match[2]), MAX_ANSWER_BYTES)
    first, last = int(match[1]), int(match[2] or MAX_OFFSET)
    return (first, min(last - first + 1, MAX_ANSWER_BYTES)) if last >= first else None


async def _answer_part(logs: LogStore, attempt: str, piece: LogPiece, limit: int, headers: dict[str, str]) -> Response:
    if not piece.data:
        raise HTTPException(416, headers={"Content-Range": f"bytes */{piece.size}"})
    data = b"".join([chunk async for chunk in _rest(logs, attempt, piece, limit)])
    total = str(piece.size) if piece.complete else "*"
    span = f"bytes {piece.offset}-{piece.offset + len(data) - 1}/{total}"
    return Response(data, 206, {**headers, "Content-Range": span}, _TEXT)


async def _rest(logs: LogStore, attempt: str, piece: LogPiece, limit: int) -> AsyncIterator[bytes]:
    """Yield a piece and the contiguous rest, up to a limit."""
    left, position = limit, piece.offset
    while piece.data and piece.offset == position and left > 0:
        yield piece.data[:left]
        left -= len(piece.data)
        position += len(piece.data)
        piece = await logs.read(attempt, position, _CHUNK_BYTES)


async def _follow(
    store: Store, logs: LogStore, task_id: str, attempt: str, piece: LogPiece, validity: SessionValidity
) -> AsyncIterator[bytes]:
    """Yield a piece and what follows it, until the attempt has ended and the log is complete."""
    empty_reads = 0
    is_following = True
    while is_following and await validity.is_valid():
        if piece.data:
            empty_reads = 0
            yield piece.data
        elif piece.complete:
            return
        else:
            if await _has_ended(store, task_id, attempt):
                empty_reads += 1
            if empty_reads > _MAX_EMPTY_READS:
                return
            is_following = await logs.changed(attempt, _POLL_SECONDS)
        piece = await logs.read(attempt, piece.offset + len(piece.data), _CHUNK_BYTES)


async def _has_ended(store: Store, task_id: str, attempt: str) -> bool:
    try:
        task = await store.find_task(task_id)
    except Unavailable:
        return False  # unknown now; the next check decides
    return task is None or task.attempt_id != attempt or task.ended_at is not None
