"""Groups of work across jobs and pools (PLC-12): at most so many at a time, or at most so many in each period.

A task names groups and is counted while it has a room; a job names groups and each of its runs is counted from its
first start until it is over. A task whose run counts by a group is not counted by it again. A group that nobody has
defined limits nothing.

A limit of a group is one number for the whole cluster. Each pool has a part of it (`core/limits/limit_shares.py`); of a
rate, what has been taken from the store (`core/limits/rate_grants.py`).
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group, as somebody defined it. The fields are the columns of `work_groups`, in the same order."""

    tenant: str
    name: str
    most: int
    """At a time, or in each period."""
    per_seconds: float | None
    """The period of a rate group; None: it is a concurrency group."""
    note: str
    version: int
    updated_at: datetime
    updated_by: str

    @property
    def limit(self) -> str:
        """The name of its limit in `shares` and `allowances`."""
        return limit_of(self.tenant, self.name)


def limit_of(tenant: str, name: str) -> str:
    """The name of the limit that a group is."""
    return f"group:{tenant}/{name}"
