"""Ledger of group limits in a shard (PLC-12): used, granted, requested, and what waits.

1. `use` is how many live leases and admitted runs count by a limit, whether or not its group is defined.
2. A run is admitted from its first placement until it ends. That is derived from its rows: a task of it was assigned
   after the run was adopted.
3. The rest belongs to this leader: what was granted is in the rows, and pending requests are repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.run_state import RunMemory


class RateBudget(msgspec.Struct, kw_only=True):
    """Unspent starts of a rate limit that were taken from the store."""

    left: int
    until: datetime
    """Void from then on (`core/limits/rate_grants.py`, USABLE_FRACTION)."""


class LimitLedger:
    """Usage of group limits by one shard."""

    def __init__(self) -> None:
        self.use: dict[str, int] = {}
        self.runs: dict[str, tuple[str, ...]] = {}
        """By admitted run: the limits that count it."""
        self.shares: dict[str, int] = {}
        """Of concurrency groups: how many this shard may use."""
        self.stamps: dict[str, int] = {}
        """How often this shard has lowered a share: an older grant is dropped."""
        self.targets: dict[str, int] = {}
        """Target of a share that is being lowered, as usage allows."""
        self.rate_budgets: dict[str, RateBudget] = {}
        self.requested: dict[str, int] = {}
        """Requests without a reply, or not granted in full."""
        self.not_before: dict[str, datetime] = {}
        """Nothing is requested before that time."""
        self.parked: dict[str, set[Shape]] = {}
        """Shapes that wait for a limit."""
        self.freed: set[str] = set()
        """Limits of which a part may have become free since the last check, or more has to be requested."""

    def load(self, shares: Iterable[ShareRow]) -> None:
        """Load the shares granted to this shard from rows."""
        self.shares = {row.limit: row.granted for row in shares}

    def carry_over(self, before: LimitLedger) -> None:
        """Keep what is in no row when the memory is reloaded within a term."""
        self.stamps, self.rate_budgets = before.stamps, before.rate_budgets

    def park(self, limit: str, shape: Shape) -> None:
        """Note a parked shape that waits for a limit."""
        self.parked.setdefault(limit, set()).add(shape)

    def waits(self, shape: Shape) -> bool:
        """Whether a shape is parked because a limit of it is exhausted: capacity does not help."""
        return any(shape in self.parked.get(limit, ()) for limit in shape.groups)

    def take_freed(self) -> list[str]:
        """Return the limits of which a part may have become free, each once."""
        freed, self.freed = sorted(self.freed), set()
        return freed

    def spend(self, limits: Iterable[str]) -> None:
        """Spend one start of each of these limits that is a rate."""
        for limit in limits:
            budget = self.rate_budgets.get(limit)
            if budget is not None:
                budget.left = max(0, budget.left - 1)

    def rate_left(self, limit: str, now: datetime) -> int:
        """Number of starts left under a rate limit."""
        budget = self.rate_budgets.get(limit)
        return budget.left if budget is not None and budget.until > now else 0

    def take(self, limits: Iterable[str]) -> None:
        """Count one more use of these limits."""
        for limit in limits:
            self.use[limit] = self.use.get(limit, 0) + 1

    def release(self, limits: Iterable[str]) -> None:
        """Count one use of these limits less."""
        for limit in limits:
            self.freed.add(limit)
            if self.use[limit] == 1:
                del self.use[limit]
            else:
                self.use[limit] -= 1

    def enter(self, run: RunMemory) -> None:
        """Count a run against the groups of its job from now on."""
        limits = self.runs[run.run.id] = limits_of(run)
        self.take(limits)

    def leave(self, run_id: str) -> None:
        """Stop counting a run that has ended."""
        self.release(self.runs.pop(run_id, ()))


def limits_of(run: RunMemory) -> tuple[str, ...]:
    """The limits that count a run."""
    return tuple(limit_of(run.run.tenant, name) for name in dict.fromkeys(run.job.spec.groups))


def is_admitted(run: RunMemory) -> bool:
    """Whether a task of a run has been placed since its adoption, according to its rows.

    A restarted run was adopted again: tasks that ended before do not count.
    """
    since = run.run.adopted_at
    if since is None:
        return False
    placed = (task for task in run.tasks if task.assigned_at is not None and task.assigned_at >= since)
    return any(run.run.generation == 1 or task.ended_at is None or task.ended_at > since for task in placed)
