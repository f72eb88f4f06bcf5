"""Retry-After slots: clients that come back at the assigned time are admitted first (ADM-4).

1. Every request admitted by a limit counts for one period. A client assigned a slot after that, and after all earlier
   slots, at the rate of the limit, finds capacity.
2. A client that comes too early gets the same slot again: frequent polling delays no other client.
3. A client that comes on time goes before clients without a slot. A client that does not come loses its slot.

Instants are seconds of one server's monotonic clock.
"""

from __future__ import annotations

HELD_SECONDS = 0.5
"""A client that comes on time without finding capacity is held this long at most, if capacity is free by then."""
LATE_SECONDS = 1.25 + HELD_SECONDS
"""Validity of a slot: Retry-After is in whole seconds, rounded up, and the client may then be held for a moment."""
MAX_WAIT_SECONDS = 60.0
"""Maximum Retry-After. With more clients, not all of them can be admitted by then."""
ASSIGNED_FRACTION = 0.9
"""Fraction of a limit's rate that is assigned: clients come in bursts on whole seconds, and not exactly a period
apart."""
_MAX_SLOTS = 10_000


class RetryAfterSlots:
    """Slots of one limit, on one server."""

    def __init__(self) -> None:
        self._slots: dict[str, float] = {}
        self._end = 0.0
        """The latest assigned slot."""

    def __len__(self) -> int:
        return len(self._slots)

    def is_ahead_of(self, client: str, now: float) -> bool:
        """Return whether other clients have a slot before this one."""
        self._forget_late(now)
        slot = self._slots.get(client)
        return bool(self._slots) and (slot is None or slot > now)

    def is_due(self, client: str, now: float) -> bool:
        """Return whether a client comes at its slot."""
        slot = self._slots.get(client)
        return slot is not None and slot <= now

    def tell(self, client: str, now: float, *, earliest: float, gap: float, period: float) -> float:
        """Assign a slot. Capacity is free at `earliest`, all of it after a period, and then one more after each
        `gap`."""
        self._forget_late(now)
        slot = self._slots.get(client)
        if slot is not None and slot > now:
            return slot
        if slot is not None or not self._slots:
            slot = max(earliest, now)
        else:
            slot = min(max(self._end + gap, now + period), now + MAX_WAIT_SECONDS)
        if client in self._slots or len(self._slots) < _MAX_SLOTS:
            self._slots[client] = slot
        self._end = max(self._end, slot)
        return slot

    def leave(self, client: str) -> None:
        """Release the slot of an admitted client."""
        self._slots.pop(client, None)

    def _forget_late(self, now: float) -> None:
        """Drop expired slots. They are ordered by time approximately, so the first one decides."""
        while self._slots:
            client = next(iter(self._slots))
            if self._slots[client] + LATE_SECONDS >= now:
                return
            del self._slots[client]
