"""The claims that are open in a shard: who waits for how much work (WRK-2)."""

from __future__ import annotations

import msgspec

from mainspring.shard.effects import ClaimedAttempt


class Claim(msgspec.Struct, kw_only=True):
    """One worker waits for work."""

    ticket: int
    worker: str
    left: int
    """So much more it takes."""
    hold_seconds: float
    until: float
    """It is answered by then, whatever there is, in seconds of the shard's life."""
    is_over: bool = False
    claimed: list[ClaimedAttempt] = []
    """What it is answered with when the turn is over."""


class ClaimBook:
    """All open claims, by ticket. The first of a worker is served first."""

    def __init__(self) -> None:
        self.open: dict[int, Claim] = {}
        self._of: dict[str, dict[int, Claim]] = {}
        self.ready: dict[int, None] = {}
        """Claims that can be answered when the turn closes."""
        self.recalled: list[str] = []
        """Attempts that were claimed, and are to be given back before they start."""

    def add(self, claim: Claim) -> None:
        """A claim is open."""
        self.open[claim.ticket] = claim
        self._of.setdefault(claim.worker, {})[claim.ticket] = claim

    def close(self, ticket: int) -> Claim | None:
        """A claim is no longer open, if it was."""
        claim = self.open.pop(ticket, None)
        self.ready.pop(ticket, None)
        if claim is not None:
            mine = self._of[claim.worker]
            del mine[ticket]
            if not mine:
                del self._of[claim.worker]
        return claim

    def first(self, worker: str) -> Claim | None:
        """The oldest claim of a worker that still takes something."""
        return next((claim for claim in self._of.get(worker, {}).values() if claim.left), None)

    def count(self, worker: str) -> int:
        """How many claims a worker has open."""
        return len(self._of.get(worker, ()))

    def wanted(self, worker: str) -> int:
        """How much all claims of a worker still take."""
        return sum(claim.left for claim in self._of.get(worker, {}).values())

    def begin_again(self) -> None:
        """What was decided last is not to be: nothing was claimed that has not been answered."""
        for claim in self.open.values():
            claim.left += len(claim.claimed)
            claim.claimed = []
        self.ready = {ticket: None for ticket, claim in self.open.items() if claim.is_over}
        self.recalled = []
