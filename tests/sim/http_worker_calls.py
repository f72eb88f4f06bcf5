"""Calls of HTTP workers to a server: the real routes, on the server that leads.

The network is simulated: a call or its response may be lost or late. The server may notice or miss a connection that
is closed while a claim waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from inspect import signature
from random import Random
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request

from mainspring.api.auth.access import Access
from mainspring.api.auth.principal import ALL_TENANTS, Principal, Role
from mainspring.api.services import ServerInfo
from mainspring.api.worker_link.http_claims import Claims, OwnAttempts
from mainspring.protocol.errors import NotLeading, Unavailable
from mainspring.protocol.wire import Progress
from mainspring.shard.effects import ActionReply
from mainspring.shard.workers.claim_events import ClaimCall, ClaimHeartbeat
from mainspring.store.ports.store import Store
from tests.sim.leader_client import carry
from tests.sim.server import SHARD, SimServer
from tests.sim.store import HostStore

if TYPE_CHECKING:
    from mainspring.api.auth.authentication import TokenIdentities
    from mainspring.api.cluster.forwarding import LeaderRouter
    from tests.sim.world import World

PRINCIPAL = Principal(name="token:sim", tenant=ALL_TENANTS, roles=frozenset({Role.WORKER}))
TIMEOUT_SECONDS = 8.0
"""How long a worker waits for a reply, beyond the wait time that it requested."""
_MOST_TRAVEL = 0.05

Call = Callable[["Way"], Coroutine[Any, Any, Any]]


class Connection:
    """A request whose caller may disconnect."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        """Return when the caller has disconnected."""
        await self.closed.wait()
        return {"type": "http.disconnect"}

    def as_request(self) -> Request:
        """The request, as a route sees it."""
        return cast("Request", self)


class Way:
    """Environment of the routes of one server process: its leader, and the store."""

    def __init__(self, world: World, server: SimServer) -> None:
        self._world = world
        self._server = server
        store = cast("Store", HostStore(world, f"claims:{server.process.name}"))
        leaders = cast("LeaderRouter", self)
        access = Access(cast("TokenIdentities", None), world.clock, cluster_secret="secret", enrollment=None)
        self._components = {
            "attempts": OwnAttempts(PRINCIPAL, access, Claims(store, leaders), leaders), "store": store, "time": self,
            "logs": self, "server": ServerInfo(name="sim", address="", version="", pool=SHARD),
        }  # fmt: skip

    def components(self, route: Callable[..., Any]) -> dict[str, Any]:
        """Return the components that a route receives."""
        return {name: self._components[name] for name in signature(route).parameters if name in self._components}

    async def ask(self, shard: str, action: ClaimCall) -> ActionReply:
        """Let the leader execute an event; the checker sees the request and the reply."""
        leader, checker = self._server.leader(), self._world.checker
        if leader is None:
            raise NotLeading(f"nobody leads {shard} here")
        if isinstance(action, ClaimHeartbeat) and action.percent is not None:
            checker.moved(leader.term, Progress(action.attempt, action.percent, action.note or ""))
        request_id = leader._pending_replies._next
        question = checker.claims.asked(checker.model, leader.term, request_id, action)
        try:
            answered = await leader.ask(action)
        except asyncio.CancelledError:
            checker.claims.dropped(leader.term, request_id)
            raise
        checker.claims.answered(checker.model, question, answered)
        return answered

    async def now(self) -> object:
        """The store's time."""
        return self._world.store_clock.wall()

    async def add(self, attempt: str, text: bytes) -> None:
        """Drop logs."""


class Calls:
    """Connections to all servers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ways: dict[str, Way] = {}

    async def call(
        self,
        random: Random,
        call: Call,
        *,
        give_up_after: float = TIMEOUT_SECONDS,
        connection: Connection | None = None,
    ) -> Any:
        """Call the route where the leader is. Raises Unavailable without a reply, or the route's error."""
        world = self._world
        fate, late = self._fate(random), random.random() * _MOST_TRAVEL
        await asyncio.sleep(late * (40 if fate == "claim_call_late" else 1))
        server = next((one for one in world.servers if one.leader() is not None), None)
        if server is None or fate == "claim_call_lost":
            raise Unavailable("nobody answers")
        way = self._ways.get(server.process.name)
        if way is None:
            way = self._ways[server.process.name] = Way(world, server)
        answer: asyncio.Future[Any] = world.loop.create_future()
        world.loop.create_task(carry(call(way), answer), context=server.process.context)
        try:
            async with asyncio.timeout(give_up_after):
                result = await answer
        except TimeoutError:
            if connection is not None:
                connection.closed.set()
            raise Unavailable(f"{server.name} does not answer in time") from None
        await asyncio.sleep(late * (60 if fate == "claim_answer_late" else 1))
        if fate == "claim_answer_lost":
            raise Unavailable("the answer was lost")
        return result

    def _fate(self, random: Random) -> str | None:
        draw = random.random()
        if self._world.is_calm() or draw >= 0.12:
            return None
        kind = ("claim_call_lost", "claim_call_late", "claim_answer_lost", "claim_answer_late")[int(draw * 100) % 4]
        self._world.trace.fault(kind)
        return kind
