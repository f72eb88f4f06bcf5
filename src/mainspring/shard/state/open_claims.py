"""Open claims of a shard: which workers wait for how much work (WRK-2)."""

from __future__ import annotations

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
    """All open claims, by ticket. The oldest claim of a worker is served first."""

    def __init__(self) -> None:
        self.open: dict[int, Claim] = {}
        self._of: dict[str, dict[int, Claim]] = {}
        self.ready: dict[int, None] = {}
        """Claims that get a reply when the turn closes."""
        self.recalled: list[str] = []
        """Claimed attempts that were recalled before they started."""

    def add(self, claim: Claim) -> None:
        """Add a claim."""
        self.open[claim.request_id] = claim
        self._of.setdefault(claim.worker, {})[claim.request_id] = claim

    def close(self, request_id: int) -> Claim | None:
        """Remove a claim, if it is open."""
        claim = self.open.pop(request_id, None)
        self.ready.pop(request_id, None)
        if claim is not None:
            mine = self._of[claim.worker]
            del mine[request_id]
            if not mine:
                del self._of[claim.worker]
        return claim

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
        for claim in self.open.values():
            claim.left += len(claim.claimed)
            claim.claimed = []
        self.ready = {request_id: None for request_id, claim in self.open.items() if claim.has_expired}
        self.recalled = []
