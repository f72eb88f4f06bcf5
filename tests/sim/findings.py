"""Findings of the checks, and how often each check was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

MOST = 5


class Findings:
    """Collects violations. The first one ends the seed."""

    def __init__(self, found: Callable[[], None]) -> None:
        self.made: Counter[str] = Counter()
        self.found: list[tuple[str, str]] = []
        self.only: frozenset[str] = frozenset()
        """If given, other findings are ignored: two guards are off intentionally, and one of them is tested."""
        self._tell = found

    def require(self, invariant: str, holds: object, otherwise: str) -> None:
        """One evaluation of an invariant."""
        self.made[invariant] += 1
        if not holds and (not self.only or invariant in self.only) and len(self.found) < MOST:
            self.found.append((invariant, otherwise))
            self._tell()

    def count(self, invariant: str, times: int = 1) -> None:
        """Number of evaluations without a finding."""
        self.made[invariant] += times
