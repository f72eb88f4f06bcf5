"""Seals the audit log: adds new entries to their hash chains (SEC-4).

Every server does it, about once a second; the store admits one at a time. Once a minute, and at shutdown, the heads of
the changed chains are logged: with logs kept elsewhere, a truncated or rewritten chain can be detected
(`ms audit verify`).
"""

from __future__ import annotations

import structlog

from mainspring.core.model.audit_entry import ChainHead, seal
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.admin import Audit

log = structlog.get_logger()

SEAL_SECONDS = 0.8
SEALED_AT_ONCE = 500
MOST_PARTS = 100
TELL_SECONDS = 60.0
MOST_TOLD = 1_000
"""Changed chains whose heads are remembered for the log, the latest ones."""
TOLD_TOGETHER = 50


class Sealer:
    """Seals the audit log on one server."""

    def __init__(self, store: Audit, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._grown: dict[str, ChainHead] = {}

    async def run(self) -> None:
        """Seal until cancelled."""
        told_at = self._clock.monotonic()
        try:
            while True:
                try:
                    await self.seal_all()
                except Unavailable as fault:
                    log.warning("seal.unavailable", fault=str(fault))
                if self._clock.monotonic() - told_at >= TELL_SECONDS:
                    self.tell_heads()
                    told_at = self._clock.monotonic()
                await self._clock.sleep(SEAL_SECONDS)
        finally:
            self.tell_heads()

    async def seal_all(self) -> None:
        """Seal all new entries in batches, at most MOST_PARTS per call."""
        for _ in range(MOST_PARTS):
            heads = await self._store.seal_audit(SEALED_AT_ONCE, seal)
            if not heads:
                return
            for head in heads:
                self._grown.pop(head.tenant, None)
                self._grown[head.tenant] = head
            while len(self._grown) > MOST_TOLD:
                del self._grown[next(iter(self._grown))]

    def tell_heads(self) -> None:
        """Log the heads of the chains that changed since the last call."""
        heads = list(self._grown.values())
        self._grown.clear()
        for first in range(0, len(heads), TOLD_TOGETHER):
            together = heads[first : first + TOLD_TOGETHER]
            log.info("audit.heads", heads={head.tenant: f"{head.seq}:{head.hash}" for head in together})
