"""The dimensions that grow, and the load at each size while everything else is constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from benchmarks.load import CORES_PER_WORKER, WORKERS

HELD = 20_000
"""Queued tasks while tenants grow: the in-memory limit per priority, and two of each of 10^4 tenants."""
PLACES = 10_000
"""Task slots while workers grow: one on each, if there are as many workers."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The background load."""

    tenants: int = 10
    """Tenants of the measured tasks."""
    held: int = 0
    """Queued tasks of other tenants, at the same priority: one of each tenant runs forever, at its quota."""
    held_tenants: int = 10
    workers: int = WORKERS
    places: int = WORKERS * CORES_PER_WORKER
    """Slots for measured tasks, on all workers together."""
    history: int = 0
    """Rows."""


class Dimension(NamedTuple):
    """A dimension that grows."""

    name: str
    title: str
    sizes: Sequence[int]
    setting: Callable[[int], Setting]
    about: str

    def up_to(self, largest: int) -> Dimension:
        """The same without larger sizes, keeping at least two."""
        return self._replace(sizes=[size for size in self.sizes if size <= largest or size in self.sizes[:2]])


DIMENSIONS = (
    Dimension(
        "waiting", "Tasks that wait", (10**3, 10**4, 10**5, 10**6), lambda size: Setting(held=size),
        "Tasks of ten other tenants, of the same priority. Each tenant has as much running as its quota lets it have.",
    ),
    Dimension(
        "tenants", "Tenants", (1, 10, 100, 10**3, 10**4),
        lambda size: Setting(tenants=size, held=HELD, held_tenants=size, places=PLACES),
        f"The measured tasks belong to this number of tenants, and beside them as many others have {HELD:,} tasks "
        "together that wait for their quotas.",
    ),
    Dimension(
        "workers", "Workers", (1, 10, 100, 10**3, 10**4), lambda size: Setting(workers=size, places=PLACES),
        f"Played workers, which have {PLACES:,} places together: no two tasks share one.",
    ),
    Dimension(
        "history", "Rows of history", (0, 10**5, 10**6, 10**7), lambda size: Setting(history=size),
        "Runs, tasks, attempts and transitions of four weeks; what ended today is still among what is active.",
    ),
)  # fmt: skip
