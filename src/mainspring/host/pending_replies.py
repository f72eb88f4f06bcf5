"""Requests to a shard that wait for its reply, by number, until the term ends.

A claim takes effect only when the worker gets the reply: if the caller no longer waits, the shard gets an event, and
assigns the work to another worker (WRK-2).
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from mainspring.host.inbox import Inbox
from mainspring.protocol.errors import NotLeading
from mainspring.shard.effects import Answered
from mainspring.shard.events import Asked
from mainspring.shard.workers.claim_events import ClaimDropped, ClaimWork


class Tickets:
    """The pending replies of one leader."""

    def __init__(self, inbox: Inbox, shard: str) -> None:
        self._inbox = inbox
        self._shard = shard
        self._waiting: dict[int, asyncio.Future[Answered]] = {}
        self._next = 1
        self._over = False

    async def ask(self, asked: Asked) -> Answered:
        """Send a request to the shard and wait for its reply. Raises Overloaded, or NotLeading if the term ends."""
        self.require_term()
        ticket, self._next = self._next, self._next + 1
        waiting: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = waiting
        try:
            self._inbox.offer(replace(asked, ticket=ticket))
            return await waiting
        except asyncio.CancelledError:
            if isinstance(asked, ClaimWork):
                # The reply may have arrived just when the caller stopped waiting.
                has_come = waiting.done() and not waiting.cancelled()
                self._drop(ticket, waiting.result() if has_come else None, asked.worker)
            raise
        finally:
            del self._waiting[ticket]

    def answer(self, answered: Answered) -> None:
        """Deliver a durable reply."""
        waiting = self._waiting.get(answered.ticket)
        if waiting is not None and not waiting.done():
            waiting.set_result(answered)
        elif answered.claimed:
            self._drop(answered.ticket, answered, answered.worker)

    def require_term(self) -> None:
        """Raise NotLeading if the term has ended."""
        if self._over:
            raise NotLeading(f"the term of {self._shard} has ended")

    def end(self) -> None:
        """Fail all pending replies: the term has ended."""
        self._over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NotLeading(f"the term of {self._shard} has ended"))

    def _drop(self, ticket: int, answered: Answered | None, worker: str) -> None:
        claimed = answered.claimed if answered is not None else ()
        attempts = tuple(one.assignment.attempt for one in claimed)
        self._inbox.put(ClaimDropped(worker=worker, claim=ticket, attempts=attempts), urgent=True)
