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
MAX_ENTRIES_PER_BATCH = 500
MAX_BATCHES = 100
LOG_HEADS_SECONDS = 60.0
MAX_LOGGED_HEADS = 1_000
"""Changed chains whose heads are remembered for the log, the latest ones."""
HEADS_PER_LOG_LINE = 50


class AuditSealer:
    """Seals the audit log on one server."""

    def __init__(self, store: Audit, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changed_heads: dict[str, ChainHead] = {}

    async def run(self) -> None:
        """Seal until cancelled."""
        logged_at = self._clock.monotonic()
        try:
            while True:
                try:
                    await self.seal_all()
                except Unavailable as fault:
                    log.warning("seal.unavailable", fault=str(fault))
                if self._clock.monotonic() - logged_at >= LOG_HEADS_SECONDS:
                    self.log_heads()
                    logged_at = self._clock.monotonic()
                await self._clock.sleep(SEAL_SECONDS)
        finally:
            self.log_heads()

    async def seal_all(self) -> None:
        """Seal all new entries in batches, at most MAX_BATCHES per call."""
        for _ in range(MAX_BATCHES):
            heads = await self._store.seal_audit(MAX_ENTRIES_PER_BATCH, seal)
            if not heads:
                return
            for head in heads:
                self._changed_heads.pop(head.tenant, None)
                self._changed_heads[head.tenant] = head
            while len(self._changed_heads) > MAX_LOGGED_HEADS:
                del self._changed_heads[next(iter(self._changed_heads))]

    def log_heads(self) -> None:
        """Log the heads of the chains that changed since the last call."""
        heads = list(self._changed_heads.values())
        self._changed_heads.clear()
        for first in range(0, len(heads), HEADS_PER_LOG_LINE):
            together = heads[first : first + HEADS_PER_LOG_LINE]
            log.info("audit.heads", heads={head.tenant: f"{head.seq}:{head.hash}" for head in together})
