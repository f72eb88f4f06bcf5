"""Follows the sharing rules: pools, policies, quotas, grants, groups, freezes.

    version in the store  ──every second──>  changed?  ──>  read all rules  ──>  API, and every leader of this server

A change that is made on this server is read at once (`refresh`); other servers follow within POLL_SECONDS. A new leader
reads the rules itself, before its first turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from mainspring.background import repeat
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.protocol.clock import Clock
from mainspring.store.ports.sharing import Rules

log = structlog.get_logger()

POLL_SECONDS = 1.0


class SharingRulesCache:
    """The sharing rules, as one server knows them."""

    def __init__(self, store: Rules, clock: Clock, on_change: Callable[[AllRules], None] = lambda rules: None) -> None:
        """`on_change` is called with the rules after each read that found changes."""
        self._store = store
        self._clock = clock
        self._known: AllRules | None = None
        self._reading = asyncio.Lock()
        self._on_change = on_change

    @property
    def now(self) -> AllRules:
        """The rules last read; empty before the first read (`known` reads them then)."""
        return self._known or AllRules()

    async def known(self) -> AllRules:
        """Return the rules last read; read them if none were. Raises Unavailable."""
        return self._known or await self.refresh()

    async def run(self) -> None:
        """Follow changes until cancelled."""
        await repeat(self.refresh, self._clock, POLL_SECONDS, "rules.unavailable")

    async def refresh(self) -> AllRules:
        """Read the changes and apply them. Raises Unavailable."""
        async with self._reading:  # Reads are serialized, so that an older result never replaces a newer one.
            if self._known is not None and await self._store.rules_version() == self._known.version:
                return self._known
            before, self._known = self._known, await self._store.rules()
            if before is not None or self._known.version:
                log.info("rules.changed", version=self._known.version)
            self._on_change(self._known)
            return self._known
