"""What a shard counts by the limits of groups (PLC-12): in use, granted to it, asked for, and who waits.

1. `use` is how many live leases and runs that are in count by a limit, whether or not its group is defined.
2. A run is in from its first placement until it is over. That can be told from its rows: one of its tasks was assigned
   after the run was adopted.
3. The rest is this leader's own: what it was granted is in the rows, and what it waits for is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.run_state import RunMemory


class Purse(msgspec.Struct, kw_only=True):
    """What is left of a rate's allowances that were taken from the store."""

    left: int
    until: datetime
    """Counts no more then (`core.allowances.KEPT_PART`)."""


class GroupBook:
    """The counts of one shard."""

    def __init__(self) -> None:
        self.use: dict[str, int] = {}
        self.runs: dict[str, tuple[str, ...]] = {}
        """By run that is in: the limits that count it."""
        self.shares: dict[str, int] = {}
        """Of the limits of concurrency groups: how many this shard may use."""
        self.stamps: dict[str, int] = {}
        """How often this shard has lowered a share: a grant from before is not to be taken."""
        self.targets: dict[str, int] = {}
        """What a share is to come down to, as use allows it."""
        self.purses: dict[str, Purse] = {}
        self.asked: dict[str, int] = {}
        """What was asked for and is not answered, or not granted whole."""
        self.not_before: dict[str, datetime] = {}
        """Until then nothing is asked for."""
        self.parked: dict[str, set[Shape]] = {}
        """Shapes that wait for a limit."""
        self.freed: set[str] = set()
        """Limits of which something may have become free since the last look."""

    def load(self, shares: Iterable[ShareRow]) -> None:
        """Take in what the rows say that this shard was granted."""
        self.shares = {row.limit: row.granted for row in shares}

    def take(self, limits: Iterable[str]) -> None:
        """One more counts by these limits."""
        for limit in limits:
            self.use[limit] = self.use.get(limit, 0) + 1

    def give_back(self, limits: Iterable[str]) -> None:
        """One less counts by these limits."""
        for limit in limits:
            self.freed.add(limit)
            if self.use[limit] == 1:
                del self.use[limit]
            else:
                self.use[limit] -= 1

    def enter(self, run: RunMemory) -> None:
        """A run counts by the groups of its job from now on."""
        limits = self.runs[run.run.id] = limits_of(run)
        self.take(limits)

    def leave(self, run_id: str) -> None:
        """A run is over."""
        self.give_back(self.runs.pop(run_id, ()))


def limits_of(run: RunMemory) -> tuple[str, ...]:
    """The limits that count a run."""
    return tuple(limit_of(run.run.tenant, name) for name in dict.fromkeys(run.job.spec.groups))


def is_in(run: RunMemory) -> bool:
    """Whether something of a run has been placed since it was adopted, as its rows say.

    One that a person started again was adopted then: what was over by that time does not count.
    """
    since = run.run.adopted_at
    if since is None:
        return False
    placed = (task for task in run.tasks if task.assigned_at is not None and task.assigned_at >= since)
    return any(run.run.generation == 1 or task.ended_at is None or task.ended_at > since for task in placed)
