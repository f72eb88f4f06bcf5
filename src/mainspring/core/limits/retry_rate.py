"""Rate limit of retries: at most n per second; excess retries are delayed (RTY-3).

Each retry takes a slot in the second in which it is due, or in the first one after that with a free slot, both among
all retries and among those with the same failure signature. Slots are kept in memory only: after a failover the times
in the rows are counted again.
"""

from __future__ import annotations

_LOOK_EVERY = 1_000
"""Slots after which past seconds are dropped."""


class RetryPace:
    """The slots that have been assigned."""

    def __init__(self, most: int, most_alike: int) -> None:
        self._all = _Seconds(most)
        self._alike: dict[str, _Seconds] = {}
        self._most_alike = most_alike
        self._until_look = _LOOK_EVERY

    def take(self, due: float, signature: str, *, now: float) -> float:
        """When a retry that is due may start: then, or at the next free slot."""
        self._forget(now)
        alike = self._alike.get(signature)
        if alike is None:
            alike = self._alike[signature] = _Seconds(self._most_alike)
        second = int(due)
        while True:
            free = self._all.first_free(alike.first_free(second))
            if free == second:
                break
            second = free
        self._all.take(second)
        alike.take(second)
        return due if second == int(due) else second + due % 1

    def retune(self, most: int, most_alike: int) -> None:
        """Change the limits. A second that is full stays full."""
        self._all.most, self._most_alike = most, most_alike
        for seconds in self._alike.values():
            seconds.most = most_alike

    def _forget(self, now: float) -> None:
        self._until_look -= 1
        if self._until_look > 0:
            return
        self._until_look = _LOOK_EVERY
        self._all.forget(int(now))
        for signature, seconds in list(self._alike.items()):
            if not seconds.forget(int(now)):
                del self._alike[signature]


class _Seconds:
    """Slots taken per second. A full second points to a later one that may have a free slot."""

    def __init__(self, most: int) -> None:
        self.most = most
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
        if taken >= self.most:
            self._next[second] = second + 1

    def forget(self, before: int) -> bool:
        """Drop past seconds; False if nothing is left."""
        self._taken = {second: taken for second, taken in self._taken.items() if second >= before}
        self._next = {second: free for second, free in self._next.items() if second >= before}
        return bool(self._taken)
