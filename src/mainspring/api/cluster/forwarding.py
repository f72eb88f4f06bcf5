"""Access to shard leaders for routes: each request goes to the leader, wherever it is.

local     the leader's own queue
remote    a POST to the leader's server, once: /internal/v1/ask for actions, and a path for each read-only call
none      NotLeading: the client retries
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, Union

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mainspring.api.cluster.peers import Peers
from mainspring.api.http import bodies
from mainspring.api.http.disconnects import unless_disconnected
from mainspring.core.explain.diagnosis import Diagnosis, WaitingSummary
from mainspring.core.explain.what_if import Hypothesis, Outcome
from mainspring.core.fairness.pool_status import PoolStatus
from mainspring.host.host import Host
from mainspring.host.leader_client import LocalLeaderClient
from mainspring.protocol.errors import NotLeading, Overloaded, Unavailable, Unreachable
from mainspring.shard.effects import ActionReply
from mainspring.shard.events import ActionRequest, Event
from mainspring.shard.workers.claim_events import ClaimWork

ASK = "/internal/v1/ask"
PROBE_FILE = "/internal/v1/probe-file"
POOL_STATUS = "/internal/v1/pool-status"
DIAGNOSE = "/internal/v1/diagnose"
WHAT_IF = "/internal/v1/what-if"
WAITING_SUMS = "/internal/v1/waiting"
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_NOT_LEADING, _OVERLOADED = 421, 503


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    shard: str


class _ActionMessage(_Message, frozen=True, kw_only=True):
    action: msgspec.Raw


class _FileProbeMessage(_Message, frozen=True, kw_only=True):
    path: str


class _PoolStatusMessage(_Message, frozen=True, kw_only=True):
    tenant: str | None


class _DiagnoseMessage(_Message, frozen=True, kw_only=True):
    subject: str


class _WhatIfMessage(_Message, frozen=True, kw_only=True):
    task: str
    hypothesis: Hypothesis


M = TypeVar("M", bound=_Message)
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class _Call(Generic[M, A]):
    """A read-only call of a leader: its internal path, its types, and its implementation on the leader's server."""

    path: str
    message: type[M]
    reply: object
    """Type of the reply."""
    answer: Callable[[LocalLeaderClient, M], Awaitable[A]]


_PROBE = _Call(PROBE_FILE, _FileProbeMessage, bool, lambda here, message: here.probe_file(message.shard, message.path))
_STATUS = _Call(
    POOL_STATUS, _PoolStatusMessage, PoolStatus, lambda here, message: here.pool_status(message.shard, message.tenant)
)
_DIAGNOSIS = _Call(
    DIAGNOSE, _DiagnoseMessage, Diagnosis | None, lambda here, message: here.diagnose(message.shard, message.subject)
)
_FORECAST = _Call(
    WHAT_IF, _WhatIfMessage, Outcome | None,
    lambda here, message: here.what_if(message.shard, message.task, message.hypothesis),
)  # fmt: skip
_WAITING = _Call(
    WAITING_SUMS, _PoolStatusMessage, list[WaitingSummary],
    lambda here, message: here.summarize_waiting(message.shard, message.tenant),
)  # fmt: skip
_CALLS: tuple[_Call[Any, Any], ...] = (_PROBE, _STATUS, _DIAGNOSIS, _FORECAST, _WAITING)


class LeaderRouter:
    """Client of all leaders (`host/leader_client.py`), on this server and on others."""

    def __init__(self, host: Host, peers: Peers) -> None:
        self._host = host
        self._here = LocalLeaderClient(host)
        self._peers = peers
        self._ending = asyncio.Event()
        self._action_decoder = msgspec.msgpack.Decoder(Union[tuple(_leaf_types(ActionRequest))])  # noqa: UP007 - built at runtime

    def leads(self) -> list[str]:
        """Return the shards that this server leads."""
        return sorted(self._host.leaders)

    async def leader_address(self, shard: str) -> str | None:
        """Return the address of a shard's leader; None if there is none, or if it is this server."""
        return None if shard in self._host.leaders else await self._peers.leader_address(shard)

    async def ask(self, shard: str, action: Event) -> ActionReply:
        """Have the leader execute an action; returns once it is durable. Raises Overloaded or NotLeading."""
        if not isinstance(action, ActionRequest):
            raise TypeError(f"{type(action).__name__} is not a request")
        if shard in self._host.leaders:
            return await self._here.ask(shard, action)
        message = _ActionMessage(shard=shard, action=msgspec.Raw(msgspec.msgpack.encode(action)))
        extra_seconds = action.wait_seconds if isinstance(action, ClaimWork) else 0.0
        return msgspec.msgpack.decode(await self._call_leader(ASK, message, extra_seconds), type=ActionReply)

    async def probe_file(self, shard: str, path: str) -> bool:
        """Return whether a worker of the pool finds a file. Raises NotLeading, or Unavailable if no worker answers."""
        return await self._call(_PROBE, _FileProbeMessage(shard=shard, path=path))

    async def pool_status(self, shard: str, tenant: str | None = None) -> PoolStatus:
        """Return the status of a pool, detailed for one tenant or all. Raises NotLeading."""
        return await self._call(_STATUS, _PoolStatusMessage(shard=shard, tenant=tenant))

    async def diagnose(self, shard: str, subject: str) -> Diagnosis | None:
        """Diagnose a task, or the most informative task of a run; None if the leader does not have it in memory.

        Raises NotLeading.
        """
        return await self._call(_DIAGNOSIS, _DiagnoseMessage(shard=shard, subject=subject))

    async def what_if(self, shard: str, task_id: str, hypothesis: Hypothesis) -> Outcome | None:
        """Forecast a task under a hypothesis; None if the task does not wait. Raises NotLeading."""
        return await self._call(_FORECAST, _WhatIfMessage(shard=shard, task=task_id, hypothesis=hypothesis))

    async def summarize_waiting(self, shard: str, tenant: str | None = None) -> list[WaitingSummary]:
        """Count the queued tasks of a pool by reason, for one tenant or all. Raises NotLeading."""
        return await self._call(_WAITING, _PoolStatusMessage(shard=shard, tenant=tenant))

    async def _call(self, call: _Call[M, A], message: M) -> A:
        if message.shard in self._host.leaders:
            return await call.answer(self._here, message)
        reply: A = msgspec.msgpack.decode(await self._call_leader(call.path, message), type=call.reply)
        return reply

    async def _call_leader(self, path: str, message: _Message, extra_seconds: float = 0.0) -> bytes:
        """Call the server that leads a shard. Raises Overloaded or NotLeading."""
        shard = message.shard
        address = await self._peers.leader_address(shard)
        if address is None:
            raise NotLeading(f"{shard} has no leader")
        try:
            answer = await self._peers.call(
                "POST", address, path, body=msgspec.msgpack.encode(message), extra_seconds=extra_seconds
            )
        except Unreachable as fault:
            raise NotLeading(f"the leader of {shard} does not answer: {fault}") from fault
        if answer.status_code == 200:
            return answer.content
        self._peers.forget()
        if answer.status_code == _OVERLOADED:
            raise Overloaded(answer.content.decode("utf-8", "replace"))
        raise NotLeading(f"{address} no longer leads {shard}")

    # the other side, on the server that leads

    def routes(self) -> list[Route]:
        """Return the routes for other servers. Requests are not forwarded: the caller looks up the new leader."""
        calls = [Route(call.path, partial(self._answer, call), methods=["POST"]) for call in _CALLS]
        return [Route(ASK, self._answer_action, methods=["POST"]), *calls]

    def end(self) -> None:
        """Reject waiting claims of other servers, so that the server can stop."""
        self._ending.set()

    async def _answer_action(self, request: Request) -> Response:
        message = await self._read(request, _ActionMessage)
        action = self._action_decoder.decode(message.action)

        async def execute() -> ActionReply:
            pending = self._host.leader(message.shard).ask(action)
            if not isinstance(action, ClaimWork):
                return await pending
            reply = await unless_disconnected(request, pending, self._ending)
            if reply is None:
                raise NotLeading("the server is stopping")
            return reply

        return await _respond(execute())

    async def _answer(self, call: _Call[M, A], request: Request) -> Response:
        return await _respond(call.answer(self._here, await self._read(request, call.message)))

    async def _read(self, request: Request, kind: type[M]) -> M:
        self._peers.check(request)
        return msgspec.msgpack.decode(await bodies.read(request, _MAX_MESSAGE_BYTES), type=kind)


async def _respond(answer: Awaitable[object]) -> Response:
    try:
        return Response(msgspec.msgpack.encode(await answer), media_type="application/msgpack")
    except NotLeading as fault:
        return Response(str(fault), _NOT_LEADING)
    except Unavailable as fault:
        return Response(str(fault), _OVERLOADED)


def _leaf_types(kind: type[ActionRequest]) -> list[type[ActionRequest]]:
    """Return all concrete action types: those without subclasses."""
    subclasses = kind.__subclasses__()
    return [one for each in subclasses for one in _leaf_types(each)] if subclasses else [kind]
