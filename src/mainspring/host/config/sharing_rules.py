"""Follows what people have decided about who may use what: pools, policies, quotas, grants, groups, freezes.

    the store's number  ──each second──>  another one?  ──>  read all of it  ──>  the API's edge, and every leader here

Whoever changes a rule on this server reads it at once (`refresh`); other servers follow within LOOK_SECONDS. A new
leader reads the rules itself, before its first turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.sharing import Rules

log = structlog.get_logger()

LOOK_SECONDS = 1.0


class FollowedRules:
    """The rules, as one server knows them."""

    def __init__(self, store: Rules, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: AllRules | None = None
        self._reading = asyncio.Lock()
        self.on_change: Callable[[AllRules], None] = lambda rules: None
        """Told of the rules whenever one of them is another."""

    @property
    def now(self) -> AllRules:
        """What was read last; nothing, if nobody has read it yet (`known` reads it then)."""
        return self._known or AllRules()

    async def known(self) -> AllRules:
        """What was read last, but read at least once. Raises Unavailable."""
        return self._known or await self.refresh()

    async def run(self) -> None:
        """Follow what is changed, until cancelled."""
        while True:
            try:
                await self.refresh()
            except Unavailable as fault:
                log.warning("rules.unavailable", fault=str(fault))
            await self._clock.sleep(LOOK_SECONDS)

    async def refresh(self) -> AllRules:
        """Read what has changed, and go by it from now on. Raises Unavailable."""
        async with self._reading:  # What was read first must not be taken last.
            if self._known is not None and await self._store.rules_version() == self._known.version:
                return self._known
            before, self._known = self._known, await self._store.rules()
            if before is not None or self._known.version:
                log.info("rules.changed", version=self._known.version)
            self.on_change(self._known)
            return self._known
