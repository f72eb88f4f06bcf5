"""How whoever is no leader reaches one: to have an act carried out, or to have a worker of its pool look for a file."""

from __future__ import annotations

import asyncio
from typing import Protocol

from mainspring.errors import Unavailable
from mainspring.host.host import Host
from mainspring.shard.effects import Answered
from mainspring.shard.events import Asked

LOOK_SECONDS = 5.0
"""A worker whose disk hangs does not answer."""


class Reach(Protocol):
    """The leaders of all shards, wherever they are."""

    async def ask(self, shard: str, act: Asked) -> Answered:
        """Have an act carried out; answers when that is durable. Raises Overloaded or NotLeading."""
        ...

    async def look(self, shard: str, path: str) -> bool:
        """Whether a worker of the pool finds a file. Raises NotLeading, or Unavailable if no worker answers."""
        ...


class HostReach:
    """The leaders of one host, and no others: all there is without a network."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def ask(self, shard: str, act: Asked) -> Answered:
        """Have the leader here carry out an act."""
        return await self._host.leader(shard).ask(act)

    async def look(self, shard: str, path: str) -> bool:
        """Have a worker of the leader here look for a file."""
        links = self._host.leader(shard).links
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return await links.look(path)
        except TimeoutError:
            raise Unavailable(f"no worker of {shard} has said within {LOOK_SECONDS:.0f} s what it sees") from None
