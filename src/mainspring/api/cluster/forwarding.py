"""Access to shard leaders for routes: each request goes to the leader, wherever it is.

local     the leader's own queue
remote    POST /internal/v1/ask on the leader's server, once; /internal/v1/probe-file to probe files on a worker, and
          /internal/v1/pool-status, diagnose, suppose and sums to read the leader's state
none      NotLeading: the client retries
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, Union

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.cluster.peers import Peers
from mainspring.api.http import bodies
from mainspring.api.worker_link.http_claims import unless_disconnected
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
Q = TypeVar("Q", bound=msgspec.Struct)


class _ActionMessage(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    action: msgspec.Raw


class _FileProbeMessage(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    path: str


class _PoolStatusMessage(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    tenant: str | None


class _DiagnoseMessage(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    subject: str


class _WhatIfMessage(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    task: str
    hypothesis: Hypothesis


class LeaderRouter:
    """Implements `services.Shards` and `leader_client.Reach` over the local host and remote servers."""

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
        return msgspec.msgpack.decode(await self._call_leader(shard, ASK, message, extra_seconds), type=ActionReply)

    async def probe_file(self, shard: str, path: str) -> bool:
        """Return whether a worker of the pool finds a file. Raises NotLeading, or Unavailable if no worker answers."""
        if shard in self._host.leaders:
            return await self._here.probe_file(shard, path)
        message = _FileProbeMessage(shard=shard, path=path)
        return msgspec.msgpack.decode(await self._call_leader(shard, PROBE_FILE, message), type=bool)

    async def pool_status(self, shard: str, tenant: str | None = None) -> PoolStatus:
        """Return the status of a pool, detailed for one tenant or all. Raises NotLeading."""
        if shard in self._host.leaders:
            return self._here.pool_status(shard, tenant)
        message = _PoolStatusMessage(shard=shard, tenant=tenant)
        return msgspec.msgpack.decode(await self._call_leader(shard, POOL_STATUS, message), type=PoolStatus)

    async def diagnose(self, shard: str, subject: str) -> Diagnosis | None:
        """Diagnose a task, or the most informative task of a run; None if the leader does not have it in memory.

        Raises NotLeading.
        """
        if shard in self._host.leaders:
            return await self._here.diagnose(shard, subject)
        message = _DiagnoseMessage(shard=shard, subject=subject)
        return msgspec.msgpack.decode(await self._call_leader(shard, DIAGNOSE, message), type=Diagnosis | None)

    async def what_if(self, shard: str, task_id: str, hypothesis: Hypothesis) -> Outcome | None:
        """Forecast a task under a hypothesis; None if the task does not wait. Raises NotLeading."""
        if shard in self._host.leaders:
            return await self._here.what_if(shard, task_id, hypothesis)
        message = _WhatIfMessage(shard=shard, task=task_id, hypothesis=hypothesis)
        return msgspec.msgpack.decode(await self._call_leader(shard, WHAT_IF, message), type=Outcome | None)

    async def summarize_waiting(self, shard: str, tenant: str | None = None) -> list[WaitingSummary]:
        """Count the queued tasks of a pool by reason, for one tenant or all. Raises NotLeading."""
        if shard in self._host.leaders:
            return self._here.summarize_waiting(shard, tenant)
        message = _PoolStatusMessage(shard=shard, tenant=tenant)
        return msgspec.msgpack.decode(await self._call_leader(shard, WAITING_SUMS, message), type=list[WaitingSummary])

    async def _call_leader(self, shard: str, path: str, message: msgspec.Struct, extra_seconds: float = 0.0) -> bytes:
        """Call the server that leads a shard. Raises Overloaded or NotLeading."""
        address = await self._peers.leader_address(shard)
        if address is None:
            raise NotLeading(f"{shard} has no leader")
        try:
            answer = await self._peers.call(
                "POST", address, path, body=msgspec.msgpack.encode(message), extra_seconds=extra_seconds
            )
        except Unreachable as fault:
            raise NotLeading(f"the leader of {shard} does not answer: {fault}") from fault
        if answer.status == 200:
            return answer.body
        self._peers.forget()
        if answer.status == _OVERLOADED:
            raise Overloaded(answer.body.decode("utf-8", "replace"))
        raise NotLeading(f"{address} no longer leads {shard}")

    async def answer(self, request: Request) -> Response:
        """Answer an action from another server. It is not forwarded: the caller looks up the new leader."""
        self._peers.check(request)
        message = msgspec.msgpack.decode(await bodies.read(request, _MAX_MESSAGE_BYTES), type=_ActionMessage)
        action = self._action_decoder.decode(message.action)
        try:
            pending = self._host.leader(message.shard).ask(action)
            reply = await (
                unless_disconnected(request, pending, self._ending) if isinstance(action, ClaimWork) else pending
            )
        except NotLeading as fault:
            return Response(str(fault), _NOT_LEADING)
        except Overloaded as fault:
            return Response(str(fault), _OVERLOADED)
        if reply is None:
            return Response("the server is stopping", _NOT_LEADING)
        return Response(msgspec.msgpack.encode(reply), media_type="application/msgpack")

    def end(self) -> None:
        """Reject waiting claims of other servers, so that the server can stop."""
        self._ending.set()

    async def answer_file_probe(self, request: Request) -> Response:
        """Answer a file probe from another server."""
        return await self._answer(request, _FileProbeMessage, lambda one: self._here.probe_file(one.shard, one.path))

    async def answer_pool_status(self, request: Request) -> Response:
        """Answer a request from another server for the status of a pool that is led here."""

        async def read_status(message: _PoolStatusMessage) -> PoolStatus:
            return self._here.pool_status(message.shard, message.tenant)

        return await self._answer(request, _PoolStatusMessage, read_status)

    async def answer_diagnosis(self, request: Request) -> Response:
        """Answer a diagnosis request from another server."""
        return await self._answer(request, _DiagnoseMessage, lambda one: self._here.diagnose(one.shard, one.subject))

    async def answer_what_if_message(self, request: Request) -> Response:
        """Answer a what-if request from another server."""
        return await self._answer(
            request, _WhatIfMessage, lambda one: self._here.what_if(one.shard, one.task, one.hypothesis)
        )

    async def answer_sums(self, request: Request) -> Response:
        """Answer a request from another server for the waiting reasons of a pool that is led here."""

        async def read_sums(message: _PoolStatusMessage) -> list[WaitingSummary]:
            return self._here.summarize_waiting(message.shard, message.tenant)

        return await self._answer(request, _PoolStatusMessage, read_sums)

    async def _answer(self, request: Request, kind: type[Q], call: Callable[[Q], Awaitable[object]]) -> Response:
        self._peers.check(request)
        message = msgspec.msgpack.decode(await bodies.read(request, _MAX_MESSAGE_BYTES), type=kind)
        try:
            answer = await call(message)
        except NotLeading as fault:
            return Response(str(fault), _NOT_LEADING)
        except Unavailable as fault:
            return Response(str(fault), _OVERLOADED)
        return Response(msgspec.msgpack.encode(answer), media_type="application/msgpack")


def _leaf_types(kind: type[ActionRequest]) -> list[type[ActionRequest]]:
    """Return all concrete action types: those without subclasses."""
    subclasses = kind.__subclasses__()
    return [one for each in subclasses for one in _leaf_types(each)] if subclasses else [kind]
