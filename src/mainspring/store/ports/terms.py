"""A leadership of a shard, as the store grants it."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A leadership of a shard, as granted."""

    shard: str
    epoch: int
    nonce: int
    """Positive, 63 bits."""
    batch_no: int
    """The number of the last batch that was written. The next commit's number is one more; it never restarts."""
    granted_at: datetime
