"""Groups across jobs and pools (PLC-12): concurrency groups limit tasks at a time, rate groups limit starts per period.

A task in a group is counted while it has a lease; for a job in a group each run is counted from its first start until
it ends. A task whose run is counted by a group is not counted by it again. An undefined group limits nothing.

The limit of a group is one number for the whole cluster. Each pool has a share of it (`core/limits/limit_shares.py`);
of a rate, what has been taken from the store (`core/limits/rate_grants.py`).
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group. The fields are the columns of `work_groups`, in the same order."""

    tenant: str
    name: str
    most: int
    """At a time, or per period."""
    per_seconds: float | None
    """The period of a rate group; None: it is a concurrency group."""
    note: str
    version: int
    updated_at: datetime
    updated_by: str

    @property
    def limit(self) -> str:
        """The name of its limit in `shares` and in rate grants."""
        return limit_of(self.tenant, self.name)


def limit_of(tenant: str, name: str) -> str:
    """The name of a group's limit."""
    return f"group:{tenant}/{name}"
