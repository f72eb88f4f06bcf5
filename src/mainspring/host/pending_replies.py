"""Those who wait for a shard's answer to what they asked, each under a ticket, until the term is over.

What a worker has claimed is its own only once it has the answer: if nobody waits for that any more, the shard hears of
it, and gives the work to somebody else (WRK-2).
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
    """The open questions to one leader."""

    def __init__(self, inbox: Inbox, shard: str) -> None:
        self._inbox = inbox
        self._shard = shard
        self._waiting: dict[int, asyncio.Future[Answered]] = {}
        self._next = 1
        self._over = False

    async def ask(self, asked: Asked) -> Answered:
        """Put something to the shard; comes back with the answer. Raises Overloaded, or NotLeading if the term ends."""
        self.require_term()
        ticket, self._next = self._next, self._next + 1
        waiting: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = waiting
        try:
            self._inbox.offer(replace(asked, ticket=ticket))
            return await waiting
        except asyncio.CancelledError:
            if isinstance(asked, ClaimWork):
                # The answer may have come in the very moment in which nobody waited for it any more.
                has_come = waiting.done() and not waiting.cancelled()
                self._drop(ticket, waiting.result() if has_come else None, asked.worker)
            raise
        finally:
            del self._waiting[ticket]

    def answer(self, answered: Answered) -> None:
        """The shard's answer is durable."""
        waiting = self._waiting.get(answered.ticket)
        if waiting is not None and not waiting.done():
            waiting.set_result(answered)
        elif answered.claimed:
            self._drop(answered.ticket, answered, answered.worker)

    def require_term(self) -> None:
        """Raises NotLeading if the term is over."""
        if self._over:
            raise NotLeading(f"the term of {self._shard} is over")

    def end(self) -> None:
        """The term is over: nobody who waits gets an answer from us any more."""
        self._over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NotLeading(f"the term of {self._shard} is over"))

    def _drop(self, ticket: int, answered: Answered | None, worker: str) -> None:
        claimed = answered.claimed if answered is not None else ()
        attempts = tuple(one.assignment.attempt for one in claimed)
        self._inbox.put(ClaimDropped(worker=worker, claim=ticket, attempts=attempts), urgent=True)
