"""Calls of a simulated server to the leader, which may be another server: they may never return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mainspring.host.loop import Leader
from mainspring.protocol.errors import MainspringError, NotLeading, Unavailable
from mainspring.shard.effects import ActionReply
from mainspring.shard.events import ActionRequest

if TYPE_CHECKING:
    from tests.sim.world import World

TIMEOUT_SECONDS = 5.0


class SimLeaderClient:
    """The leader, on any server."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def ask(self, shard: str, action: ActionRequest) -> ActionReply:
        """Execute an action on the leader."""
        return await self._call(shard, lambda leader: leader.ask(action))

    async def probe_file(self, shard: str, path: str) -> bool:
        """Let a worker probe a file."""
        return await self._call(shard, lambda leader: leader.links.probe_file(path))

    async def _call(self, shard: str, call: Callable[[Leader], Coroutine[Any, Any, Any]]) -> Any:
        """Execute the call in the leader's process, which may be stalled or killed before it replies."""
        for server in self._world.servers:
            leader = server.leader()
            if leader is not None:
                answer: asyncio.Future[Any] = self._world.loop.create_future()
                carried = carry(call(leader), answer)
                self._world.loop.create_task(carried, context=server.process.context)
                try:
                    async with asyncio.timeout(TIMEOUT_SECONDS):
                        return await answer
                except TimeoutError:
                    raise Unavailable(f"{server.name} does not answer") from None
        raise NotLeading(f"nobody leads {shard}")


async def carry(call: Coroutine[Any, Any, Any], answer: asyncio.Future[Any]) -> None:
    """Pass the result of a call, or its error, to a caller that may have disconnected."""
    try:
        result = await call
    except MainspringError as fault:
        if not answer.done():
            answer.set_exception(fault)
    else:
        if not answer.done():
            answer.set_result(result)
