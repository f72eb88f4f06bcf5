"""Who was told to come back when, so that whoever waits as told is let in (ADM-4).

1. Everything that was taken from a limit counts for one period. Whoever is told to come after that, and after those who
   were told before them, at the pace of the limit, finds one that is free.
2. Whoever comes too early is told the same time again: to ask often makes nobody's wait longer.
3. Whoever comes as told goes before those who were told nothing yet. Whoever does not come loses the place.

Instants are seconds of one server's monotonic clock.
"""

from __future__ import annotations

HELD_SECONDS = 0.5
"""Whoever comes as told and finds nothing is kept for up to so long, if one is free by then."""
LATE_SECONDS = 1.25 + HELD_SECONDS
"""A place is kept for so long: whole seconds are told, rounded up, and whoever comes then may be kept for a moment."""
LONGEST_WAIT_SECONDS = 60.0
"""Nobody is told to wait for longer. If so many wait, not all of them can be let in then."""
PROMISED_PART = 0.9
"""Of the pace of a limit: those who come on whole seconds come many at once, and never quite a period apart."""
_MOST_PLACES = 10_000


class WaitingLine:
    """Those who wait for one limit, on one server."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}
        self._end = 0.0
        """The latest time that anybody was told."""

    def __len__(self) -> int:
        return len(self._told)

    def stands_before(self, who: str, now: float) -> bool:
        """Whether others were told to come before whoever comes now."""
        self._forget_late(now)
        told = self._told.get(who)
        return bool(self._told) and (told is None or told > now)

    def is_due(self, who: str, now: float) -> bool:
        """Whether somebody comes as told."""
        told = self._told.get(who)
        return told is not None and told <= now

    def tell(self, who: str, now: float, *, soonest: float, gap: float, period: float) -> float:
        """When to come again. One is free at `soonest`, all are in a period, and then one more after each `gap`."""
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
        """Somebody is let in."""
        self._told.pop(who, None)

    def _forget_late(self, now: float) -> None:
        """Those who have not come. They are in about the order of their times: the first tells of the others."""
        while self._told:
            who = next(iter(self._told))
            if self._told[who] + LATE_SECONDS >= now:
                return
            del self._told[who]
