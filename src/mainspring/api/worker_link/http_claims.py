"""Claims of HTTP workers (WRK-2): ownership of attempts, and requests that wait for work.

1. A worker's id in the pool consists of the principal and its self-chosen name: the rows alone tell the owner of an
   attempt, and no other principal can use the name.
2. The shard of an attempt is cached from its claim on, and read where it is not. The end of an attempt is read whenever
   its leader does not have it.
3. A claim waits no longer than its client, nor than this server runs. Work that could not be delivered returns to the
   queue (`host/pending_replies.py`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request

from mainspring.api.auth.access import Access
from mainspring.api.auth.principal import Principal
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.http.disconnects import unless_disconnected
from mainspring.api.http.problems import not_found
from mainspring.api.request_components import RequestComponent
from mainspring.core.model.task import AttemptEnd
from mainspring.core.model.worker import CLAIMANT
from mainspring.protocol.errors import AttemptOver, ClaimExpired, Conflict, Overloaded, WrongWorker
from mainspring.protocol.wire import Outcome
from mainspring.shard.effects import ActionReply, ActionStatus
from mainspring.shard.workers.claim_events import ClaimEnded, ClaimHeartbeat, ClaimStarted, ClaimWork
from mainspring.store.ports.store import Store

MAX_WAITING = 10_000
"""Maximum number of waiting claims on one server."""
_MAX_CACHED = 50_000
_SAME = {
    Outcome.SUCCEEDED: frozenset({AttemptEnd.SUCCEEDED}),
    Outcome.FAILED: frozenset({AttemptEnd.FAILED, AttemptEnd.STOPPED, AttemptEnd.TIMED_OUT}),
}
"""Attempt ends for which a repeated result counts as the same."""
_SLACK_SECONDS = 5.0
"""Extra time before a claim is answered empty: the leader may have lost it with a failed turn."""


class AttemptLocation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Shard and worker of an attempt."""

    worker: str
    shard: str
    end: AttemptEnd | None = None

    def fault(self, attempt: str, leader_detail: str) -> Conflict:
        """Return the error of a call that the leader rejected; `leader_detail` is the leader's message."""
        if self.end is None:
            return Conflict(leader_detail)
        if self.end is AttemptEnd.RETURNED:
            return ClaimExpired(f"the claim of {attempt} has expired, or was recalled before it started")
        return AttemptOver(f"{attempt} has ended: {self.end}")


class Claims:
    """Claimed attempts, and waiting claims."""

    def __init__(self, store: Store, leaders: LeaderRouter) -> None:
        self._store = store
        self._leaders = leaders
        self._known: OrderedDict[str, AttemptLocation] = OrderedDict()
        self._waiting = 0
        self._ending = asyncio.Event()

    async def claim(self, request: Request, shard: str, action: ClaimWork) -> ActionReply | None:
        """Wait for work; None if there was none, or the client disconnected. Raises Overloaded, NotLeading."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING:,} claims are already waiting on this server")
        self._waiting += 1
        try:
            async with asyncio.timeout(action.wait_seconds + _SLACK_SECONDS):
                reply = await unless_disconnected(request, self._leaders.ask(shard, action), self._ending)
        except TimeoutError:
            return None
        finally:
            self._waiting -= 1
        for one in reply.claimed if reply is not None else ():
            self._remember(one.assignment.attempt, AttemptLocation(worker=action.worker, shard=shard))
        return reply

    def end(self) -> None:
        """Answer all waiting claims empty, because the server is stopping."""
        self._ending.set()

    async def known(self, attempt: str) -> AttemptLocation:
        """Return the location of an attempt, which may have ended. Raises NotFound."""
        return self._known.get(attempt) or await self.load(attempt)

    async def load(self, attempt: str) -> AttemptLocation:
        """Read the location of an attempt from the rows. Raises NotFound."""
        found = await self._store.find_attempts([attempt])
        task = await self._store.find_task(found[0].task_id) if found else None
        if task is None:
            raise not_found("claimed run", attempt)
        known = AttemptLocation(worker=found[0].worker_id, shard=task.shard, end=found[0].end)
        if known.end is None:
            self._remember(attempt, known)
        else:
            self._known.pop(attempt, None)
        return known

    def _remember(self, attempt: str, known: AttemptLocation) -> None:
        self._known[attempt] = known
        if len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)


def worker_in_pool(principal: Principal, worker_id: str) -> str:
    """Return the id in its pool of a worker with a self-chosen name."""
    return f"{_prefix(principal)}{worker_id}"


def _prefix(principal: Principal) -> str:
    return f"{CLAIMANT}{principal.name}/"


@dataclass(frozen=True, slots=True)
class OwnAttempts(RequestComponent):
    """Reports of a worker on its claimed attempts."""

    principal: Principal
    access: Access
    claims: Claims
    leaders: LeaderRouter

    def check(self) -> None:
        """Raise Forbidden unless the caller may act as a worker."""
        self.access.check_worker(self.principal)

    async def find(self, attempt: str, worker_id: str | None) -> AttemptLocation:
        """Return an attempt of the worker, which may have ended. Raises NotFound, or WrongWorker."""
        known = await self.claims.known(attempt)
        named = worker_id is None or known.worker == worker_in_pool(self.principal, worker_id)
        if not named or not known.worker.startswith(_prefix(self.principal)):
            raise WrongWorker(f"{attempt} belongs to another worker")
        return known

    async def running(self, attempt: str, worker_id: str | None) -> AttemptLocation:
        """Return an attempt of the worker. Raises NotFound, WrongWorker, or the fault of an attempt that has ended."""
        known = await self.find(attempt, worker_id)
        if known.end is not None:
            raise known.fault(attempt, "")
        return known

    async def report(
        self, known: AttemptLocation, kind: type[ClaimStarted | ClaimHeartbeat], attempt: str, **fields: Any
    ) -> ActionReply:
        """Report on a running attempt to its leader. Raises the fault of the attempt if the leader rejects it."""
        action = kind(worker=known.worker, attempt=attempt, by=self.principal.name, **fields)
        reply = await self.leaders.ask(known.shard, action)
        if reply.reply not in {ActionStatus.DONE, ActionStatus.ALREADY}:
            raise (await self.claims.load(attempt)).fault(attempt, reply.detail)
        return reply

    async def end(
        self,
        attempt: str,
        worker_id: str | None,
        outcome: Outcome,
        *,
        output: str | None = None,
        error: str | None = None,
    ) -> None:
        """Report the result of an attempt. A repeated one succeeds again; a late one is recorded only."""
        self.check()
        known = await self.find(attempt, worker_id)
        action = ClaimEnded(
            worker=known.worker, attempt=attempt, by=self.principal.name, outcome=outcome, output=output, error=error
        )
        detail = ""
        if known.end is None:
            answered = await self.leaders.ask(known.shard, action)
            if answered.reply is ActionStatus.DONE:
                return
            detail = answered.detail
            known = await self.claims.load(attempt)
        if known.end in _SAME[outcome]:
            return
        if known.end is not None:
            await self.leaders.ask(known.shard, msgspec.structs.replace(action, is_late=True))
        raise known.fault(attempt, detail)
