"""Rate limit of retries: at most n per second; excess retries are delayed (RTY-3).

Each retry takes a slot in the second in which it is due, or in the first one after that with a free slot, both among
all retries and among those with the same failure signature. Slots are kept in memory only: after a failover the times
in the rows are counted again.
"""

from __future__ import annotations

_SWEEP_EVERY = 1_000
"""Slots after which past seconds are dropped."""


class RetryRateLimiter:
    """The slots that have been assigned."""

    def __init__(self, max_per_second: int, max_per_signature: int) -> None:
        self._all = _Seconds(max_per_second)
        self._by_signature: dict[str, _Seconds] = {}
        self._max_per_signature = max_per_signature
        self._until_sweep = _SWEEP_EVERY

    def take(self, due: float, signature: str, *, now: float) -> float:
        """Return when a retry that is due may start: then, or at the next free slot."""
        self._forget(now)
        by_signature = self._by_signature.get(signature)
        if by_signature is None:
            by_signature = self._by_signature[signature] = _Seconds(self._max_per_signature)
        second = int(due)
        while True:
            free = self._all.first_free(by_signature.first_free(second))
            if free == second:
                break
            second = free
        self._all.take(second)
        by_signature.take(second)
        return due if second == int(due) else second + due % 1

    def retune(self, max_per_second: int, max_per_signature: int) -> None:
        """Change the limits. A second that is full stays full."""
        self._all.max_per_second, self._max_per_signature = max_per_second, max_per_signature
        for seconds in self._by_signature.values():
            seconds.max_per_second = max_per_signature

    def _forget(self, now: float) -> None:
        self._until_sweep -= 1
        if self._until_sweep > 0:
            return
        self._until_sweep = _SWEEP_EVERY
        self._all.forget(int(now))
        for signature, seconds in list(self._by_signature.items()):
            if not seconds.forget(int(now)):
                del self._by_signature[signature]


class _Seconds:
    """Slots taken per second. A full second points to a later one that may have a free slot."""

    def __init__(self, max_per_second: int) -> None:
        self.max_per_second = max_per_second
        self._taken: dict[int, int] = {}
        self._next: dict[int, int] = {}

    def first_free(self, second: int) -> int:
        """The first second from this one on with a free slot."""
        free = second
        while free in self._next:
            free = self._next[free]
        while second in self._next:  # path compression
            self._next[second], second = free, self._next[second]
        return free

    def take(self, second: int) -> None:
        """Take a slot in a second that has one."""
        taken = self._taken[second] = self._taken.get(second, 0) + 1
        if taken >= self.max_per_second:
            self._next[second] = second + 1

    def forget(self, before: int) -> bool:
        """Drop past seconds; False if nothing is left."""
        self._taken = {second: taken for second, taken in self._taken.items() if second >= before}
        self._next = {second: free for second, free in self._next.items() if second >= before}
        return bool(self._taken)
