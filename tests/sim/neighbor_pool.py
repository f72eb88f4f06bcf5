"""A simulated neighbor pool: it takes its share of group limits, uses it for a while, and lowers it when asked to.

It is the only leader of its shard, which consists of shares only. Its calls reach the store without faults.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from mainspring.core.limits.limit_shares import ShareRow, target
from mainspring.core.model.batch import Batch
from mainspring.protocol.errors import MainspringError
from tests.sim.store import at_once

if TYPE_CHECKING:
    from tests.sim.world import World

NEIGHBOR = "neighbor"
_NONCE = 7
_ALL_DAY = timedelta(days=2)


class Neighbor:
    """Requests a share of each concurrency group from time to time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"neighbor:{world.mix.seed}")

    def settle(self) -> None:
        """Become the permanent leader of its shard."""
        if self._world.mix.sharing.neighbor:
            store = self._world.truth.store
            at_once(store.ensure_shard(NEIGHBOR))
            self._term = at_once(store.campaign(NEIGHBOR, NEIGHBOR, _NONCE, _ALL_DAY))

    async def run(self) -> None:
        """Take or return shares every few seconds; after the faults, return all."""
        world = self._world
        while world.mix.sharing.neighbor:
            await asyncio.sleep(self._random.uniform(0.5, 4.0))
            if world.truth.gone_until <= world.loop.now:
                self._step()

    def _step(self) -> None:
        store, random, model = self._world.truth.store, self._random, self._world.checker.model
        rules = at_once(store.rules())
        for group in rules.groups:
            if group.per_seconds is not None:
                continue
            rows = at_once(store.shares([group.limit]))
            mine = next((row.granted for row in rows if row.holder == NEIGHBOR), 0)
            aim = 0 if self._world.is_calm() or random.random() < 0.3 else target(group.most, rows, NEIGHBOR)
            if aim < mine:
                self._lower(ShareRow(limit=group.limit, holder=NEIGHBOR, granted=aim, needed=aim))
            elif not self._world.is_calm() and random.random() < 0.5:
                assert self._term is not None
                row = at_once(store.take_share(self._term, group.limit, group.most, random.randint(1, group.most)))
                self._world.checker.groups.shared(model, group.most, row)

    def _lower(self, row: ShareRow) -> None:
        store, checker = self._world.truth.store, self._world.checker
        (shard,) = [one for one in at_once(store.shards()) if one.id == NEIGHBOR]
        assert self._term is not None
        batch = Batch(shares=[row])
        try:
            at_once(store.commit(self._term, shard.batch_no + 1, batch))
        except MainspringError as fault:
            self._world.findings.require("PLC-12", False, f"the neighbor can't lower {row}: {fault}")
        checker.groups.apply(checker.model, batch)
