"""Wait for a result no longer than the client does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.requests import Request

T = TypeVar("T")


async def unless_disconnected(request: Request, waiting: Coroutine[None, None, T], ending: asyncio.Event) -> T | None:
    """Await a result; None if the client disconnects first, or the server stops."""
    tasks = [asyncio.create_task(one) for one in (waiting, _wait_for_disconnect(request), ending.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None  # type: ignore[return-value]  # the first one's result
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the rest of the body, which was read before
