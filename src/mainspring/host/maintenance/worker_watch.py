"""The second watch over workers (LIV-1): what servers heard is noted in the store, and read there by whoever sweeps.

The first watch is a timer in the shard's memory. Should that be missing, or should a leader have died with workers that
never came to the next one, their rows still tell. Whether a worker is given up, the shard decides
(`shard/workers/liveness.py`).
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from mainspring.core.model.settings import Tuning
from mainspring.host.links import Links
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.front import Liveness

log = structlog.get_logger()

NOTE_SECONDS = 5.0
UNHEARD_AT_ONCE = 100


def unheard_after(tuning: Tuning) -> timedelta:
    """A row that is so old says that a worker is lost: a note is up to 5 s old when the next is written, and that may
    take its time."""
    return timedelta(seconds=tuning.lost_after_seconds + 2 * NOTE_SECONDS)


def claimant_unheard_after(tuning: Tuning) -> timedelta:
    """The same for one that claims its work: a leader that knows it has forgotten it before that."""
    return unheard_after(tuning) + timedelta(seconds=2 * tuning.claim_silence_seconds)


async def note_heard(store: Liveness, clock: Clock, links: Links, shard: str) -> None:
    """Note in the store whom a leader has heard of, until cancelled. A note that fails is made up for by the next."""
    while True:
        await clock.sleep(NOTE_SECONDS)
        heard = links.take_heard()
        if not heard:
            continue
        try:
            await store.heard(shard, heard)
        except Unavailable as fault:
            log.warning("heard.unavailable", shard=shard, workers=len(heard), fault=str(fault))
