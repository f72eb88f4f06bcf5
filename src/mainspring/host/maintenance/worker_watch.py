"""The second watch over workers (LIV-1): servers record heartbeats in the store, and the sweeper reads them.

The first watch is a timer in the shard's memory. If that timer is missing, or a leader died and a worker never came to
the next one, the row of the worker still shows its silence. The shard decides whether a worker is lost
(`shard/workers/liveness.py`).
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from mainspring.core.model.settings import SchedulerSettings
from mainspring.host.links import Links
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.front import Liveness

log = structlog.get_logger()

HEARTBEAT_WRITE_SECONDS = 5.0
MAX_SILENT_WORKERS = 100


def silent_after(scheduler_settings: SchedulerSettings) -> timedelta:
    """Return the age of a row after which its worker counts as silent: heartbeats are recorded every 5 s, and a write
    may be slow."""
    return timedelta(seconds=scheduler_settings.lost_after_seconds + 2 * HEARTBEAT_WRITE_SECONDS)


def claimant_silent_after(scheduler_settings: SchedulerSettings) -> timedelta:
    """The same for a worker that claims its work: its leader has forgotten it before that."""
    return silent_after(scheduler_settings) + timedelta(seconds=2 * scheduler_settings.claim_heartbeat_timeout_seconds)


async def record_heartbeats_loop(store: Liveness, clock: Clock, links: Links, shard: str) -> None:
    """Record the heartbeats of a leader's workers in the store, until cancelled. A failed write is not retried."""
    while True:
        await clock.sleep(HEARTBEAT_WRITE_SECONDS)
        workers = links.take_heartbeats()
        if not workers:
            continue
        try:
            await store.record_heartbeats(shard, workers)
        except Unavailable as fault:
            log.warning("heartbeats.unavailable", shard=shard, workers=len(workers), fault=str(fault))
