"""How much of a process's time those may have who only look at what its leaders have in mind: why, what if, how it is.

A look at a large pool takes up to some tenths of a second, and no leader of the process decides anything meanwhile.
What looks have taken is a debt. Of each second that passes, PART goes to pay it off; whoever comes while it is larger
than MOST_SECONDS is told to come later. So do leaders go on, however many ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Overloaded

PART = 0.2
MOST_SECONDS = 1.0


class Looks:
    """The looks at the leaders of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._debt = 0.0
        self._at = clock.monotonic()

    @contextmanager
    def charge(self) -> Iterator[None]:
        """Somebody looks, on the loop. Raises Overloaded."""
        began = self._clock.monotonic()
        self._debt = max(0.0, self._debt - PART * (began - self._at))
        self._at = began
        if self._debt > MOST_SECONDS:
            wait = (self._debt - MOST_SECONDS) / PART
            raise Overloaded("too much is asked of how things stand here", retry_after_seconds=wait)
        try:
            yield
        finally:
            self._debt += self._clock.monotonic() - began
