"""Requests to a shard that wait for its reply, by number, until the term ends.

A claim takes effect only when the worker gets the reply: if the caller no longer waits, the shard gets an event, and
assigns the work to another worker (WRK-2).
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from mainspring.host.inbox import Inbox
from mainspring.protocol.errors import NotLeading
from mainspring.shard.effects import ActionReply
from mainspring.shard.events import ActionRequest
from mainspring.shard.workers.claim_events import ClaimAbandoned, ClaimWork


class PendingReplies:
    """The pending replies of one leader."""

    def __init__(self, inbox: Inbox, shard: str) -> None:
        self._inbox = inbox
        self._shard = shard
        self._waiting: dict[int, asyncio.Future[ActionReply]] = {}
        self._next = 1
        self._is_closed = False

    async def ask(self, asked: ActionRequest) -> ActionReply:
        """Send a request to the shard and wait for its reply. Raises Overloaded, or NotLeading if the term ends."""
        self.require_term()
        request_id, self._next = self._next, self._next + 1
        waiting: asyncio.Future[ActionReply] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = waiting
        try:
            self._inbox.offer(replace(asked, request_id=request_id))
            return await waiting
        except asyncio.CancelledError:
            if isinstance(asked, ClaimWork):
                # The reply may have arrived just when the caller stopped waiting.
                has_result = waiting.done() and not waiting.cancelled()
                self._abandon_claim(request_id, waiting.result() if has_result else None, asked.worker)
            raise
        finally:
            del self._waiting[request_id]

    def answer(self, answered: ActionReply) -> None:
        """Deliver a durable reply."""
        waiting = self._waiting.get(answered.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answered)
        elif answered.claimed:
            self._abandon_claim(answered.request_id, answered, answered.worker)

    def require_term(self) -> None:
        """Raise NotLeading if the term has ended."""
        if self._is_closed:
            raise NotLeading(f"the term of {self._shard} has ended")

    def end(self) -> None:
        """Fail all pending replies: the term has ended."""
        self._is_closed = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NotLeading(f"the term of {self._shard} has ended"))

    def _abandon_claim(self, request_id: int, answered: ActionReply | None, worker: str) -> None:
        claimed = answered.claimed if answered is not None else ()
        attempts = tuple(one.assignment.attempt for one in claimed)
        self._inbox.put(ClaimAbandoned(worker=worker, claim=request_id, attempts=attempts), urgent=True)
