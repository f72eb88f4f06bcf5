"""Retry-After slots: clients that come back at the assigned time are admitted first (ADM-4).

1. Every request admitted by a limit counts for one period. A client assigned a slot after that, and after all earlier
   slots, at the rate of the limit, finds capacity.
2. A client that comes too early gets the same slot again: frequent polling delays nobody.
3. A client that comes on time goes before clients without a slot. A client that does not come loses its slot.

Instants are seconds of one server's monotonic clock.
"""

from __future__ import annotations

HELD_SECONDS = 0.5
"""A client that comes on time without finding capacity is held this long at most, if capacity is free by then."""
LATE_SECONDS = 1.25 + HELD_SECONDS
"""Validity of a slot: Retry-After is in whole seconds, rounded up, and the client may then be held for a moment."""
LONGEST_WAIT_SECONDS = 60.0
"""Maximum Retry-After. With more clients, not all of them can be admitted by then."""
PROMISED_PART = 0.9
"""Fraction of a limit's rate that is assigned: clients come in bursts on whole seconds, and not exactly a period
apart."""
_MOST_PLACES = 10_000


class WaitingLine:
    """Slots of one limit, on one server."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}
        self._end = 0.0
        """The latest assigned slot."""

    def __len__(self) -> int:
        return len(self._told)

    def stands_before(self, who: str, now: float) -> bool:
        """Return whether other clients have a slot before this one."""
        self._forget_late(now)
        told = self._told.get(who)
        return bool(self._told) and (told is None or told > now)

    def is_due(self, who: str, now: float) -> bool:
        """Return whether a client comes at its slot."""
        told = self._told.get(who)
        return told is not None and told <= now

    def tell(self, who: str, now: float, *, soonest: float, gap: float, period: float) -> float:
        """Assign a slot. Capacity is free at `soonest`, all of it after a period, and then one more after each
        `gap`."""
        self._forget_late(now)
        told = self._told.get(who)
        if told is not None and told > now:
            return told
        if told is not None or not self._told:
            told = max(soonest, now)
        else:
            told = min(max(self._end + gap, now + period), now + LONGEST_WAIT_SECONDS)
        if who in self._told or len(self._told) < _MOST_PLACES:
            self._told[who] = told
        self._end = max(self._end, told)
        return told

    def leave(self, who: str) -> None:
        """Release the slot of an admitted client."""
        self._told.pop(who, None)

    def _forget_late(self, now: float) -> None:
        """Drop expired slots. They are ordered by time approximately, so the first one decides."""
        while self._told:
            who = next(iter(self._told))
            if self._told[who] + LATE_SECONDS >= now:
                return
            del self._told[who]
