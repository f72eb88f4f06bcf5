"""Shares of a limit: each shard holds a part of it, and the parts never add up to more than the limit.

A holder that needs more records that in its row; one that has more than it needs lowers its own share, in a commit of
its own, once its use is below; free parts are taken under a lock. With one pool one holder has all of it.

1. Each may have the same, but no more than it needs: its fair part.
2. While a holder has less than that, those with more come down to theirs (`target`), and no other holder takes what
   they give up (`grant`). The remainder goes to whichever holder asks first.
3. Where the fair part is below one, holders take turns: one gives its part up for those that wait, and does not get it
   back before it has waited too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class ShareRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One holder's share of a limit. The fields are the columns of `shares`, in the same order."""

    limit: str
    holder: str
    """A shard."""
    granted: int
    """What it may use."""
    needed: int
    """What it needs in all; above `granted`: it waits for others to lower theirs."""


def grant(limit: str, total: int, rows: Sequence[ShareRow], holder: str, wanted: int) -> ShareRow:
    """The row of a holder that needs `wanted` in all, with what is free for it added to its share.

    `rows` are all of the limit. Its share is never lowered here: only the holder knows its use.
    """
    mine = next((row for row in rows if row.holder == holder), None)
    others = [row for row in rows if row.holder != holder]
    has = 0 if mine is None else mine.granted
    fair = _fair_part(total, [wanted, *(row.needed for row in others)])
    free = max(0, total - has - sum(row.granted for row in others))
    its_own = min(free, max(0, fair - has))
    is_its_turn = fair == 0 and mine is not None and mine.needed > mine.granted
    left_over = free if is_its_turn else max(its_own, free - sum(_lacks(row, fair) for row in others))
    return ShareRow(limit=limit, holder=holder, granted=max(has, min(wanted, has + left_over)), needed=wanted)


def lowered(limit: str, holder: str, granted: int) -> ShareRow:
    """The row of a holder that lowers its share to this: it is not waiting, so that those that are go first."""
    return ShareRow(limit=limit, holder=holder, granted=granted, needed=granted)


def target(total: int, rows: Sequence[ShareRow], holder: str) -> int:
    """Return the target share of a holder.

    It is its fair part if another holder has less than that, a proportional part if the limit was lowered below the
    sum, else its present share.
    """
    mine = next((row.granted for row in rows if row.holder == holder), 0)
    together = sum(row.granted for row in rows)
    if together > total:
        return total * mine // together
    fair = _fair_part(total, [row.needed for row in rows])
    if any(_lacks(row, fair) for row in rows if row.holder != holder):
        return min(mine, fair)
    return mine


def _fair_part(total: int, needs: Sequence[int]) -> int:
    """The fair part of holders with these needs."""
    left = total
    for served, need in enumerate(sorted(needs)):
        part = left // (len(needs) - served)
        if need > part:
            return part
        left -= need
    return total


def _lacks(row: ShareRow, fair: int) -> int:
    """Return how much a holder is below its fair part; where that is less than one, one."""
    return max(0, min(row.needed, max(1, fair)) - row.granted)
