"""The shards as routes see them: an act goes to the leader, wherever that is.

here        the leader's own queue
elsewhere   POST /internal/v1/ask on the leader's server, once; /internal/v1/look for a question to a worker
nowhere     NotLeading: the caller comes back in a moment
"""

from __future__ import annotations

from typing import Union

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api import bodies
from mainspring.api.peers import Peers
from mainspring.errors import NotLeading, Overloaded, Unavailable, Unreachable
from mainspring.host.host import Host
from mainspring.host.reaching import HostReach
from mainspring.shard.effects import Answered
from mainspring.shard.events import Asked, Event

ASK = "/internal/v1/ask"
LOOK = "/internal/v1/look"
_LARGEST_ACT_BYTES = 1024 * 1024
_NOT_LEADING, _OVERLOADED = 421, 503


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    act: msgspec.Raw


class _LookQuestion(msgspec.Struct, frozen=True, kw_only=True):
    shard: str
    path: str


class Forwarding:
    """Implements `services.Shards` and `reaching.Reach` over the host here and the servers elsewhere."""

    def __init__(self, host: Host, peers: Peers) -> None:
        self._host = host
        self._here = HostReach(host)
        self._peers = peers
        self._acts = msgspec.msgpack.Decoder(Union[tuple(_concrete(Asked))])  # noqa: UP007 - made when the program runs

    def leads(self) -> list[str]:
        """The shards that this server leads."""
        return sorted(self._host.leaders)

    async def leader_address(self, shard: str) -> str | None:
        """Where the leader of a shard is reached; None if there is none, or if it is this server."""
        return None if shard in self._host.leaders else await self._peers.leader_address(shard)

    async def ask(self, shard: str, act: Event) -> Answered:
        """Have an act carried out by the leader; answers when that is durable. Raises Overloaded or NotLeading."""
        if not isinstance(act, Asked):
            raise TypeError(f"{type(act).__name__} is nothing that one asks for")
        if shard in self._host.leaders:
            return await self._here.ask(shard, act)
        question = _Question(shard=shard, act=msgspec.Raw(msgspec.msgpack.encode(act)))
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, ASK, question), type=Answered)

    async def look(self, shard: str, path: str) -> bool:
        """Whether a worker of the pool finds a file. Raises NotLeading, or Unavailable if no worker answers."""
        if shard in self._host.leaders:
            return await self._here.look(shard, path)
        question = _LookQuestion(shard=shard, path=path)
        return msgspec.msgpack.decode(await self._ask_elsewhere(shard, LOOK, question), type=bool)

    async def _ask_elsewhere(self, shard: str, path: str, question: msgspec.Struct) -> bytes:
        """What the server that leads a shard answers. Raises Overloaded or NotLeading."""
        address = await self._peers.leader_address(shard)
        if address is None:
            raise NotLeading(f"nobody leads {shard} at the moment")
        try:
            answer = await self._peers.call("POST", address, path, body=msgspec.msgpack.encode(question))
        except Unreachable as fault:
            raise NotLeading(f"the leader of {shard} does not answer: {fault}") from fault
        if answer.status == 200:
            return answer.body
        self._peers.forget()
        if answer.status == _OVERLOADED:
            raise Overloaded(answer.body.decode("utf-8", "replace"))
        raise NotLeading(f"{address} does not lead {shard} any more")

    async def answer(self, request: Request) -> Response:
        """Another server asks. It is not sent on: whoever asked looks again, and finds the new leader."""
        self._peers.check(request)
        question = msgspec.msgpack.decode(await bodies.read(request, _LARGEST_ACT_BYTES), type=_Question)
        act = self._acts.decode(question.act)
        try:
            answered = await self._host.leader(question.shard).ask(act)
        except NotLeading as fault:
            return Response(str(fault), _NOT_LEADING)
        except Overloaded as fault:
            return Response(str(fault), _OVERLOADED)
        return Response(msgspec.msgpack.encode(answered), media_type="application/msgpack")

    async def answer_look(self, request: Request) -> Response:
        """Another server asks what a worker here sees."""
        self._peers.check(request)
        question = msgspec.msgpack.decode(await bodies.read(request, _LARGEST_ACT_BYTES), type=_LookQuestion)
        try:
            exists = await self._here.look(question.shard, question.path)
        except NotLeading as fault:
            return Response(str(fault), _NOT_LEADING)
        except Unavailable as fault:
            return Response(str(fault), _OVERLOADED)
        return Response(msgspec.msgpack.encode(exists), media_type="application/msgpack")


def _concrete(kind: type[Asked]) -> list[type[Asked]]:
    """All acts that somebody can ask for: those without a more special one."""
    special = kind.__subclasses__()
    return [one for each in special for one in _concrete(each)] if special else [kind]
