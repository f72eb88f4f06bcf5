"""Workers that speak plain HTTP (WRK-2), as routes see them: whose an attempt is, and who waits for work.

1. A worker's id in the pool is made of who asks and of the name that it gives itself: the rows alone say whose an
   attempt is, and nobody else's name can be used.
2. Where an attempt is led is remembered from its claim on, and asked for where it is not. What the rows say of its end
   is asked for whenever its leader does not have it.
3. A claim waits no longer than its caller does, nor than this server lives. What could not be handed over goes back to
   the queue (`host/pending_replies.py`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.requests import Request

from mainspring.api.http.problems import not_found
from mainspring.core.model.task import AttemptEnd
from mainspring.core.model.worker import CLAIMANT
from mainspring.protocol.errors import AttemptOver, ClaimExpired, Conflict, NotYours, Overloaded
from mainspring.shard.effects import Answered
from mainspring.shard.workers.claim_events import ClaimWork
from mainspring.store.ports.store import Store

if TYPE_CHECKING:
    from mainspring.api.services import Principal, Shards

T = TypeVar("T")
MOST_WAITING = 10_000
"""Claims that wait on one server."""
_MOST_KNOWN = 50_000
_SLACK_SECONDS = 5.0
"""A claim that its leader has not answered by then is answered with nothing: it may have lost it with a failed turn."""


class KnownAttempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Where an attempt is, and whose."""

    worker: str
    shard: str
    end: AttemptEnd | None = None

    def fault(self, attempt: str, otherwise: str) -> Conflict:
        """What a call is answered with that its leader did not take; `otherwise` is what the leader said."""
        if self.end is None:
            return Conflict(otherwise)
        if self.end is AttemptEnd.RETURNED:
            return ClaimExpired(f"the claim of {attempt} has expired, or it was called back before it started")
        return AttemptOver(f"{attempt} is over: it is {self.end}")


class Claims:
    """What is known of claimed attempts, and the claims that wait here."""

    def __init__(self, store: Store, shards: Shards) -> None:
        self._store = store
        self._shards = shards
        self._known: OrderedDict[str, KnownAttempt] = OrderedDict()
        self._waiting = 0
        self._ending = asyncio.Event()

    async def claim(self, request: Request, shard: str, act: ClaimWork) -> Answered | None:
        """Wait for work; None if there was none, or nobody waits for it any more. Raises Overloaded, NotLeading."""
        if self._waiting >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING:,} claims wait on this server")
        self._waiting += 1
        try:
            async with asyncio.timeout(act.wait_seconds + _SLACK_SECONDS):
                answered = await unless_gone(request, self._shards.ask(shard, act), self._ending)
        except TimeoutError:
            return None
        finally:
            self._waiting -= 1
        for one in answered.claimed if answered is not None else ():
            self._remember(one.assignment.attempt, KnownAttempt(worker=act.worker, shard=shard))
        return answered

    def end(self) -> None:
        """The server ends: whoever waits is answered with nothing."""
        self._ending.set()

    async def known(self, attempt: str, principal: Principal, worker_id: str | None) -> KnownAttempt:
        """A worker's own attempt, which may be over. Raises NotFound, or NotYours."""
        return _own(self._known.get(attempt) or await self._look(attempt), attempt, principal, worker_id)

    async def known_now(self, attempt: str, principal: Principal, worker_id: str | None) -> KnownAttempt:
        """The same, as the rows say it by now."""
        return _own(await self._look(attempt), attempt, principal, worker_id)

    async def _look(self, attempt: str) -> KnownAttempt:
        found = await self._store.find_attempts([attempt])
        task = await self._store.find_task(found[0].task_id) if found else None
        if task is None:
            raise not_found("claimed run", attempt)
        known = KnownAttempt(worker=found[0].worker_id, shard=task.shard, end=found[0].end)
        if known.end is None:
            self._remember(attempt, known)
        else:
            self._known.pop(attempt, None)
        return known

    def _remember(self, attempt: str, known: KnownAttempt) -> None:
        self._known[attempt] = known
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


def worker_in_pool(principal: Principal, worker_id: str) -> str:
    """The id under which a worker that gives itself a name is known in its pool."""
    return f"{_prefix(principal)}{worker_id}"


async def unless_gone(
    request: Request, waiting: Coroutine[None, None, T], ending: asyncio.Event | None = None
) -> T | None:
    """What somebody waits for; None if the caller goes away before, or the server ends."""
    asking = asyncio.create_task(waiting)
    others = [asyncio.create_task(_gone(request))]
    if ending is not None:
        others.append(asyncio.create_task(_set(ending)))
    try:
        await asyncio.wait([asking, *others], return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        for task in (asking, *others):
            task.cancel()
        await asyncio.gather(asking, *others, return_exceptions=True)


def _prefix(principal: Principal) -> str:
    return f"{CLAIMANT}{principal.name}/"


def _own(known: KnownAttempt, attempt: str, principal: Principal, worker_id: str | None) -> KnownAttempt:
    mine = worker_in_pool(principal, worker_id) if worker_id is not None else known.worker
    if not known.worker.startswith(_prefix(principal)) or known.worker != mine:
        raise NotYours(f"{attempt} is not yours: another worker has it, or had it")
    return known


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # what is left of the body: it was read before


async def _set(ending: asyncio.Event) -> None:
    await ending.wait()
