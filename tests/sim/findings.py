"""What the checks found, and how often each was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

MOST = 5


class Findings:
    """Collects what does not hold. The first one ends the seed."""

    def __init__(self, found: Callable[[], None]) -> None:
        self.made: Counter[str] = Counter()
        self.found: list[tuple[str, str]] = []
        self.muted: frozenset[str] = frozenset()
        """Invariants that are not looked at: when a guard is off on purpose, others can be seen behind it."""
        self._tell = found

    def require(self, invariant: str, holds: object, otherwise: str) -> None:
        """One evaluation of an invariant."""
        self.made[invariant] += 1
        if not holds and invariant not in self.muted and len(self.found) < MOST:
            self.found.append((invariant, otherwise))
            self._tell()

    def count(self, invariant: str, times: int = 1) -> None:
        """Evaluations that held."""
        self.made[invariant] += times
