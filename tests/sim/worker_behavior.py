"""Random behavior of workers and their operators: save, leave, cordon, drain, evict, uncordon."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from mainspring.shard.events import CordonWorker, DrainWorker, EvictWorker, UncordonWorker
from tests.sim.store import POISON

if TYPE_CHECKING:
    from tests.sim.world import World

WORKER_ACTIONS = (CordonWorker, DrainWorker, EvictWorker, UncordonWorker, UncordonWorker)
_BAD_DOCUMENTS = ('"\\u0000"', "{not json", f'"{POISON}"', '"\ud800"')


class WorkerBehavior:
    """Random behavior. It causes no faults, and never delays the end of a seed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"whims:{world.mix.seed}")
        self._saved = 0

    async def run(self) -> None:
        """Act at random times."""
        world, random = self._world, self._random
        mix = world.mix
        worker_behavior = [self._save] * mix.saves + [self._look_after] * mix.worker_acts + [self._leave] * mix.leavings
        times = sorted(random.uniform(2.0, mix.chaos_seconds) for _ in worker_behavior)
        random.shuffle(worker_behavior)
        for at, whim in zip(times, worker_behavior, strict=True):
            await asyncio.sleep(max(0.0, at - world.loop.now))
            whim()

    def _save(self) -> None:
        """Save a checkpoint of some running attempt, possibly an invalid one."""
        world, random = self._world, self._random
        worker = random.choice(world.workers)
        attempts = worker.processes()
        if not attempts:
            return
        self._saved += 1
        attempt, document = random.choice(attempts), f'{{"saved": {self._saved}}}'
        if random.random() < world.mix.poison:
            document = random.choice(_BAD_DOCUMENTS)
            world.trace.fault("poison_checkpoint", attempt)
        world.checker.saved(attempt, document)
        world.loop.call_soon(worker.save, attempt, document, context=worker.process.context)

    def _look_after(self) -> None:
        random = self._random
        worker = random.choice(self._world.workers)
        self._world.people.ask(random.choice(WORKER_ACTIONS)(worker=worker.name, by="person:keeper"))

    def _leave(self) -> None:
        worker = self._random.choice(self._world.workers)
        if not worker.process.dead:
            self._world.trace.note("worker.leave", worker.name)
            worker.process.context.run(worker.leave)
