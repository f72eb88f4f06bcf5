"""Access to shard leaders for routes: each request goes to the leader, wherever it is.

local     the leader's own queue
remote    POST /internal/v1/ask on the leader's server, once; /internal/v1/look to probe files on a worker, and
          /internal/v1/standing, diagnose, suppose and sums to read the leader's state
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
from mainspring.api.worker_link.http_claims import unless_gone
from mainspring.core.explain.diagnosis import Diagnosis, WaitingSum
from mainspring.core.explain.what_if import Outcome, Supposal
from mainspring.core.fairness.pool_status import Standing
from mainspring.host.host import Host
from mainspring.host.leader_client import HostReach
from mainspring.protocol.errors import NotLeading, Overloaded, Unavailable, Unreachable
from mainspring.shard.effects import Answered
from mainspring.shard.events import Asked, Event
from mainspring.shard.workers.claim_events import ClaimWork

ASK = "/internal/v1/ask"
LOOK = "/internal/v1/look"
STANDING = "/internal/v1/standing"
DIAGNOSE = "/internal/v1/diagnose"
SUPPOSE = "/internal/v1/suppose"
SUMS = "/internal/v1/sums"
_LARGEST_ACT_BYTES = 4 * 1024 * 1024
_NOT_LEADING, _OVERLOADED = 421, 503
Q = TypeVar("Q", bound=msgspec.Struct)


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    act: msgspec.Raw


class _LookQuestion(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    path: str


class _StandingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    tenant: str | None


class _DiagnoseQuestion(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    subject: str


class _SupposeQuestion(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    task: str
    supposal: Supposal


class Forwarding:
    """Implements `services.Shards` and `leader_client.Reach` over the local host and remote servers."""

    def __init__(self, host: Host, peers: Peers) -> None:
        self._host = host
        self._here = HostReach(host)
        self._peers = peers
        self._ending = asyncio.Event()
        self._acts = msgspec.msgpack.Decoder(Union[tuple(_concrete(Asked))])  # noqa: UP007 - built at runtime

    def leads(self) -> list[str]:
        """Return the shards that this server leads."""
        return sorted(self._host.leaders)

    async def leader_address(self, shard: str) -> str | None:
        """Return the address of a shard's leader; None if there is none, or if it is this server."""
        return None if shard in self._host.leaders else await self._peers.leader_address(shard)

    async def ask(self, shard: str, act: Event) -> Answered:
        """Have the leader execute an action; returns once it is durable. Raises Overloaded or NotLeading."""
        if not isinstance(act, Asked):
            raise TypeError(f"{type(act).__name__} is not a request")
        if shard in self._host.leaders:
            return await self._here.ask(shard, act)
        question = _Question(shard=shard, act=msgspec.Raw(msgspec.msgpack.encode(act)))
        waits = act.wait_seconds if isinstance(act, ClaimWork) else 0.0
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, ASK, question, waits), type=Answered)

    async def look(self, shard: str, path: str) -> bool:
        """Return whether a worker of the pool finds a file. Raises NotLeading, or Unavailable if no worker answers."""
        if shard in self._host.leaders:
            return await self._here.look(shard, path)
        question = _LookQuestion(shard=shard, path=path)
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, LOOK, question), type=bool)

    async def standing(self, shard: str, tenant: str | None = None) -> Standing:
        """Return the status of a pool, detailed for one tenant or all. Raises NotLeading."""
        if shard in self._host.leaders:
            return self._here.standing(shard, tenant)
        question = _StandingQuestion(shard=shard, tenant=tenant)
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, STANDING, question), type=Standing)

    async def diagnose(self, shard: str, subject: str) -> Diagnosis | None:
        """Diagnose a task, or the most informative task of a run; None if the leader does not have it in memory.

        Raises NotLeading.
        """
        if shard in self._host.leaders:
            return await self._here.diagnose(shard, subject)
        question = _DiagnoseQuestion(shard=shard, subject=subject)
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, DIAGNOSE, question), type=Diagnosis | None)

    async def suppose(self, shard: str, task_id: str, supposal: Supposal) -> Outcome | None:
        """Forecast a task under a hypothesis; None if the task does not wait. Raises NotLeading."""
        if shard in self._host.leaders:
            return await self._here.suppose(shard, task_id, supposal)
        question = _SupposeQuestion(shard=shard, task=task_id, supposal=supposal)
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, SUPPOSE, question), type=Outcome | None)

    async def waiting_sums(self, shard: str, tenant: str | None = None) -> list[WaitingSum]:
        """Count the queued tasks of a pool by reason, for one tenant or all. Raises NotLeading."""
        if shard in self._host.leaders:
            return self._here.waiting_sums(shard, tenant)
        question = _StandingQuestion(shard=shard, tenant=tenant)
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, SUMS, question), type=list[WaitingSum])

    async def _ask_elsewhere(self, shard: str, path: str, question: msgspec.Struct, waits: float = 0.0) -> bytes:
        """Call the server that leads a shard. Raises Overloaded or NotLeading."""
        address = await self._peers.leader_address(shard)
        if address is None:
            raise NotLeading(f"{shard} has no leader")
        try:
            answer = await self._peers.call("POST", address, path, body=msgspec.msgpack.encode(question), waits=waits)
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
        question = msgspec.msgpack.decode(await bodies.read(request, _LARGEST_ACT_BYTES), type=_Question)
        act = self._acts.decode(question.act)
        try:
            asking = self._host.leader(question.shard).ask(act)
            answered = await (unless_gone(request, asking, self._ending) if isinstance(act, ClaimWork) else asking)
        except NotLeading as fault:
            return Response(str(fault), _NOT_LEADING)
        except Overloaded as fault:
            return Response(str(fault), _OVERLOADED)
        if answered is None:
            return Response("the server is stopping", _NOT_LEADING)
        return Response(msgspec.msgpack.encode(answered), media_type="application/msgpack")

    def end(self) -> None:
        """Reject waiting claims of other servers, so that the server can stop."""
        self._ending.set()

    async def answer_look(self, request: Request) -> Response:
        """Answer a file probe from another server."""
        return await self._answer(request, _LookQuestion, lambda one: self._here.look(one.shard, one.path))

    async def answer_standing(self, request: Request) -> Response:
        """Answer a request from another server for the status of a pool that is led here."""

        async def stand(question: _StandingQuestion) -> Standing:
            return self._here.standing(question.shard, question.tenant)

        return await self._answer(request, _StandingQuestion, stand)

    async def answer_diagnose(self, request: Request) -> Response:
        """Answer a diagnosis request from another server."""
        return await self._answer(request, _DiagnoseQuestion, lambda one: self._here.diagnose(one.shard, one.subject))

    async def answer_suppose(self, request: Request) -> Response:
        """Answer a what-if request from another server."""
        return await self._answer(
            request, _SupposeQuestion, lambda one: self._here.suppose(one.shard, one.task, one.supposal)
        )

    async def answer_sums(self, request: Request) -> Response:
        """Answer a request from another server for the waiting reasons of a pool that is led here."""

        async def add_up(question: _StandingQuestion) -> list[WaitingSum]:
            return self._here.waiting_sums(question.shard, question.tenant)

        return await self._answer(request, _StandingQuestion, add_up)

    async def _answer(self, request: Request, kind: type[Q], call: Callable[[Q], Awaitable[object]]) -> Response:
        self._peers.check(request)
        question = msgspec.msgpack.decode(await bodies.read(request, _LARGEST_ACT_BYTES), type=kind)
        try:
            answer = await call(question)
        except NotLeading as fault:
            return Response(str(fault), _NOT_LEADING)
        except Unavailable as fault:
            return Response(str(fault), _OVERLOADED)
        return Response(msgspec.msgpack.encode(answer), media_type="application/msgpack")


def _concrete(kind: type[Asked]) -> list[type[Asked]]:
    """Return all concrete action types: those without subclasses."""
    special = kind.__subclasses__()
    return [one for each in special for one in _concrete(each)] if special else [kind]
