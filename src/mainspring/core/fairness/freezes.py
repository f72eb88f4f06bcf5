"""Freezes: nothing new of a scope starts, running tasks continue (OPS-3)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class FreezeKind(StrEnum):
    """Scope of a freeze."""

    ALL = "all"
    TENANT = "tenant"
    POOL = "pool"
    JOB = "job"


class FreezeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A freeze. The fields are the columns of `freezes`, in the same order."""

    kind: FreezeKind
    subject: str
    """The tenant, the pool, or `tenant/job`; empty for everything."""
    by: str
    why: str
    since: datetime
    until: datetime | None
    """None: until it is unfrozen."""

    def holds_at(self, now: datetime) -> bool:
        """Return whether it is in force at an instant."""
        return self.until is None or now < self.until

    def __str__(self) -> str:
        what = "everything" if self.kind is FreezeKind.ALL else f"{self.kind} {self.subject}"
        return f"{what} is frozen by {self.by}{f': {self.why}' if self.why else ''}"
