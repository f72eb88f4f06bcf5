"""Open claims of a shard: which workers wait for how much work (WRK-2)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.shard.effects import ClaimedAttempt


class Claim(msgspec.Struct, kw_only=True):
    """One worker waits for work."""

    request_id: int
    worker: str
    left: int
    """How many more tasks it takes."""
    hold_seconds: float
    until: float
    """When it gets a reply at the latest, in shard time."""
    has_expired: bool = False
    claimed: list[ClaimedAttempt] = []
    """The content of its reply when the turn closes."""


class OpenClaims:
    """All open claims, by ticket. The oldest claim of a worker is served first.

    1. A claim that got work or has expired is closed by `take_ready`, at the end of the same turn.
    2. An attempt is recalled only before it started; `take_recalled` returns each once.
    """

    def __init__(self) -> None:
        self._open: dict[int, Claim] = {}
        self.open: Mapping[int, Claim] = self._open
        self._of: dict[str, dict[int, Claim]] = {}
        self._ready: dict[int, None] = {}
        """Claims that get a reply when the turn closes."""
        self._recalled: list[str] = []
        """Claimed attempts that were recalled before they started."""

    def has_recalled(self) -> bool:
        """Whether recalled attempts are still to be returned."""
        return bool(self._recalled)

    def add(self, claim: Claim) -> None:
        """Add a claim."""
        self._open[claim.request_id] = claim
        self._of.setdefault(claim.worker, {})[claim.request_id] = claim

    def close(self, request_id: int) -> Claim | None:
        """Remove a claim, if it is open."""
        claim = self._open.pop(request_id, None)
        self._ready.pop(request_id, None)
        if claim is not None:
            mine = self._of[claim.worker]
            del mine[request_id]
            if not mine:
                del self._of[claim.worker]
        return claim

    def deliver(self, claim: Claim, claimed: ClaimedAttempt) -> None:
        """Add an attempt to the reply of a claim."""
        claim.left -= 1
        claim.claimed.append(claimed)
        self._ready[claim.request_id] = None

    def expire(self, request_id: int) -> None:
        """End the wait of a claim: it gets its reply when the turn closes."""
        self._open[request_id].has_expired = True
        self._ready[request_id] = None

    def take_ready(self) -> list[Claim]:
        """Close and return the claims that get a reply now."""
        return [claim for claim in map(self.close, list(self._ready)) if claim is not None]

    def recall(self, attempt: str) -> None:
        """Recall a claimed attempt that has not started."""
        self._recalled.append(attempt)

    def take_recalled(self) -> list[str]:
        """Return the recalled attempts, each once."""
        recalled, self._recalled = self._recalled, []
        return recalled

    def first(self, worker: str) -> Claim | None:
        """The oldest claim of a worker that still takes work."""
        return next((claim for claim in self._of.get(worker, {}).values() if claim.left), None)

    def count(self, worker: str) -> int:
        """Number of open claims of a worker."""
        return len(self._of.get(worker, ()))

    def wanted(self, worker: str) -> int:
        """Total number of tasks that a worker still claims."""
        return sum(claim.left for claim in self._of.get(worker, {}).values())

    def reset_undelivered(self) -> None:
        """Discard the last decisions: nothing was claimed that had no reply."""
        for claim in self._open.values():
            claim.left += len(claim.claimed)
            claim.claimed = []
        self._ready = {request_id: None for request_id, claim in self._open.items() if claim.has_expired}
        self._recalled = []
