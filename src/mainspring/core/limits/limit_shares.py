"""A limit over several pools is divided: each holder has a part, and the parts never add up to more than the limit.

Who needs more says so in its row; who has more than it needs lowers its own, in a commit of its own, once its use is
below; what is free is taken under a lock. With one pool there is one holder, which has all of it.

1. Each may have the same, but that nobody has more than it needs: its fair part.
2. As long as somebody has less than that, those who have more come down to theirs (`target`), and nobody else takes
   what they give up (`grant`). What is left over goes to whoever asks first.
3. Where there is less than one for each, they take turns: who has one gives it up for those who wait, and does not get
   it back before it has waited too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class ShareRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One holder's part of a limit. The fields are the columns of `shares`, in the same order."""

    limit: str
    holder: str
    """A shard."""
    granted: int
    """What it may use."""
    needed: int
    """What it would like to have in all; above `granted`: it waits for others to lower theirs."""


def grant(limit: str, total: int, rows: Sequence[ShareRow], holder: str, wanted: int) -> ShareRow:
    """The row of a holder that would like to have `wanted` in all, with what is free for it added to its part.

    `rows` are all of the limit. Its part is never lowered here: nobody else knows what it uses.
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
    """The row of a holder that comes down to this: it is not waiting, so that those who are go first."""
    return ShareRow(limit=limit, holder=holder, granted=granted, needed=granted)


def target(total: int, rows: Sequence[ShareRow], holder: str) -> int:
    """What a holder should come down to: its fair part if somebody has less than that, its share of what is left if the
    limit was lowered below the sum, and what it has otherwise."""
    mine = next((row.granted for row in rows if row.holder == holder), 0)
    together = sum(row.granted for row in rows)
    if together > total:
        return total * mine // together
    fair = _fair_part(total, [row.needed for row in rows])
    if any(_lacks(row, fair) for row in rows if row.holder != holder):
        return min(mine, fair)
    return mine


def _fair_part(total: int, needs: Sequence[int]) -> int:
    """What each may have who needs so much."""
    left = total
    for served, need in enumerate(sorted(needs)):
        part = left // (len(needs) - served)
        if need > part:
            return part
        left -= need
    return total


def _lacks(row: ShareRow, fair: int) -> int:
    """How much a holder has less than its fair part; where that is less than one, one."""
    return max(0, min(row.needed, max(1, fair)) - row.granted)
