"""A leader's part of cluster-wide limits (PLC-12): shares of concurrency groups, grants of rate groups.

    RequestShare  ──> take_share, at once, then every second until granted in full  ──> ShareGranted
    RequestRate   ──> take_rate_grants, those of one turn together                  ──> RateGranted
    every second  ──> shares of the limits of which the shard has a share           ──> ShareWanted, if it has too much

1. A grant is durable before the shard gets it. A lost share is found again in its row; a lost rate grant is not, which
   only ever allows less.
2. While no group limits anything, the store is not asked.
3. The leader's loop detects the end of the term: `Fenced` is dropped here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.limits.limit_shares import ShareRow, target
from mainspring.core.limits.rate_grants import RateGrant, RateRequest
from mainspring.host.inbox import Inbox
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Broken, Unavailable
from mainspring.shard.effects import RequestRate, RequestShare
from mainspring.shard.events import RateGranted, ShareGranted, ShareWanted
from mainspring.store.ports.sharing import SharedLimits
from mainspring.store.ports.terms import Term

log = structlog.get_logger()

POLL_SECONDS = 1.0


class ClusterLimits:
    """The shares and rate grants of one leader."""

    def __init__(self, store: SharedLimits, clock: Clock, term: Term, inbox: Inbox) -> None:
        self._store = store
        self._clock = clock
        self._term = term
        self._inbox = inbox
        self._shares: dict[str, RequestShare] = {}
        """By limit: share requests that are not granted in full."""
        self._reported: dict[str, int] = {}
        """By limit: the grant last reported to the shard since its latest request."""
        self._rates: dict[str, RequestRate] = {}
        """By limit: rate requests that were not sent yet."""
        self._held: set[str] = set()
        """Limits of which the shard may hold a share."""
        self._lowering: set[str] = set()
        """Limits whose share the shard is to lower."""
        self._wakeup = asyncio.Event()

    def loaded(self, rows: Sequence[ShareRow]) -> None:
        """Reset to the shares that the shard was loaded with; its requests are gone."""
        self._held = {row.limit for row in rows}
        self._shares.clear()
        self._rates.clear()

    def take(self, effect: RequestShare | RequestRate) -> None:
        """Take a request of the shard. Does not wait."""
        if isinstance(effect, RequestShare):
            self._shares[effect.limit] = effect
            self._reported.pop(effect.limit, None)
        else:
            self._rates[effect.limit] = effect
        self._wakeup.set()

    async def run(self, rules: Callable[[], SharingRules]) -> None:
        """Request shares and rates, and release excess, until cancelled. Raises Fenced if the term has ended."""
        ticking = asyncio.create_task(self._tick())
        checked_at = self._clock.monotonic()
        try:
            while True:
                await self._wakeup.wait()
                self._wakeup.clear()
                try:
                    await self._take_rates(rules())
                    await self._take_shares(rules())
                    if self._clock.monotonic() >= checked_at + POLL_SECONDS:
                        checked_at = self._clock.monotonic()
                        await self._release_excess(rules())
                except Unavailable as fault:
                    # Open requests are retried with the next tick.
                    log.warning("limits.unavailable", shard=self._term.shard, fault=str(fault))
        finally:
            ticking.cancel()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(POLL_SECONDS)
            if self._shares or self._rates or self._held:
                self._wakeup.set()

    async def _take_rates(self, rules: SharingRules) -> None:
        wanted, self._rates = self._rates, {}
        requests = [
            RateRequest(limit=limit, most=group.most, per_seconds=group.per_seconds, wanted=effect.wanted)
            for limit, effect in wanted.items()
            if (group := rules.groups.get(limit)) is not None and group.per_seconds is not None
        ]
        if not requests:
            return
        try:
            allowances = await self._request_grants(requests)
        except Unavailable:
            self._rates = wanted | self._rates
            raise
        for one in allowances:
            self._inbox.put(RateGranted(limit=one.limit, amount=one.granted, more_at=one.more_at))
        granted = {one.limit for one in allowances}
        self._rates = {
            request.limit: wanted[request.limit] for request in requests if request.limit not in granted
        } | self._rates

    async def _request_grants(self, requests: Sequence[RateRequest]) -> list[RateGrant]:
        """Return the grants, without those of unreadable limits."""
        try:
            return await self._store.take_rate_grants(requests)
        except Broken as fault:
            if len(requests) == 1:
                log.warning("limits.unreadable", shard=self._term.shard, limit=requests[0].limit, fault=str(fault))
                return []
            return [one for request in requests for one in await self._request_grants([request])]

    async def _take_shares(self, rules: SharingRules) -> None:
        for limit, effect in list(self._shares.items()):
            group = rules.groups.get(limit)
            if group is None or group.per_seconds is not None:
                self._end_request(effect)
                continue
            wanted = min(effect.wanted, group.most)
            try:
                row = await self._store.take_share(self._term, limit, group.most, wanted)
            except Broken as fault:
                # The request stays open, and the other limits are granted.
                log.warning("limits.unreadable", shard=self._term.shard, limit=limit, fault=str(fault))
                continue
            self._held.add(limit)
            if self._shares.get(limit) is not effect:
                continue  # Forgotten or replaced meanwhile: the next answer reports the grant.
            if self._reported.get(limit) != row.granted:
                self._reported[limit] = row.granted
                self._inbox.put(ShareGranted(limit=limit, granted=row.granted, stamp=effect.stamp))
            if row.granted >= wanted:
                self._end_request(effect)

    def _end_request(self, effect: RequestShare) -> None:
        """Remove a request, unless the shard has replaced it meanwhile."""
        if self._shares.get(effect.limit) is effect:
            del self._shares[effect.limit]

    async def _release_excess(self, rules: SharingRules) -> None:
        """Tell the shard to lower shares that exceed its target."""
        self._held &= {limit for limit, group in rules.groups.items() if group.per_seconds is None}
        if not self._held:
            return
        rows: dict[str, list[ShareRow]] = {limit: [] for limit in sorted(self._held)}
        for row in await self._store.shares(list(rows)):
            rows[row.limit].append(row)
        for limit, holders in rows.items():
            mine = next((row.granted for row in holders if row.holder == self._term.shard), None)
            if mine is None:
                self._held.discard(limit)
                continue
            goal = target(rules.groups[limit].most, holders, self._term.shard)
            if goal < mine or limit in self._lowering:
                self._inbox.put(ShareWanted(limit=limit, target=goal))
            if goal < mine:
                self._lowering.add(limit)
            else:
                self._lowering.discard(limit)
