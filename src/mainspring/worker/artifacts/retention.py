"""Takes away artifacts whose time is over (WRK-11): of runs that ended so long ago, in the worker's own storage.

    list the storage ─► what is older than that ─► ask the server since when those runs are over ─► remove

1. What a run that is not over may still need stays, however old it is: the age that counts is that of the run's end.
2. A run that the server does not know any more is over, and its history is gone; its files have the age of the storage.
3. Nothing is removed without an answer. What is left out is found again by the next sweep, of this worker or another.

So a storage, or a prefix of a bucket, belongs to one installation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from random import Random

import structlog

from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.wire import AskEnds, Ends
from mainspring.worker.artifacts.artifact_store import ArtifactStore

log = structlog.get_logger()

EVERY_SECONDS = 3_600.0
FIRST_SECONDS = 60.0
ANSWER_SECONDS = 30.0
MOST_AT_ONCE = 10_000
_ASKED_AT_ONCE = 100
_REMOVED_AT_ONCE = 1_000
_PARTS_BEFORE_PATH = 4
"""A key is `<tenant>/<run>/<task>/<attempt>/<path>`."""


class ArtifactSweep:
    """Looks after one storage."""

    def __init__(
        self, store: ArtifactStore, keep_seconds: int, clock: Clock, random: Random, ask: Callable[[AskEnds], None]
    ) -> None:
        self._store = store
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._random = random
        self._ask = ask
        self._answer: asyncio.Future[Ends] | None = None

    async def run(self) -> None:
        """Sweep now and then, until cancelled; not at all if everything is kept for ever.

        Workers that share a storage do not do it at the same time.
        """
        if not self._keep_seconds:
            return
        await self._clock.sleep(FIRST_SECONDS * (1 + self._random.random()))
        while True:
            try:
                removed = await self.sweep()
                log.info("artifacts.swept", storage=self._store.url, removed=removed)
            except (Unavailable, TimeoutError) as error:
                log.warning("artifacts.not_swept", storage=self._store.url, because=str(error) or "nobody answers")
            await self._clock.sleep(EVERY_SECONDS * (0.5 + self._random.random()))

    def take(self, answer: Ends) -> None:
        """The server has said since when runs are over."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    async def sweep(self) -> int:
        """Take away what is over; how many files that were. Raises Unavailable, or TimeoutError if nobody answers."""
        before = self._clock.wall() - timedelta(seconds=self._keep_seconds)
        old = await asyncio.to_thread(self._old, before)
        runs = list(old)
        over: list[str] = []
        for first in range(0, len(runs), _ASKED_AT_ONCE):
            some = runs[first : first + _ASKED_AT_ONCE]
            ends = await self._ends(some)
            for run in some:
                since = ends.get(run, float("inf"))
                if since is not None and since >= self._keep_seconds:
                    over += old[run]
        for first in range(0, len(over), _REMOVED_AT_ONCE):
            await asyncio.to_thread(self._store.remove, over[first : first + _REMOVED_AT_ONCE])
        return len(over)

    def _old(self, before: datetime) -> dict[str, list[str]]:
        """The keys of what was stored before then, by run. What has no key of ours is not ours."""
        found: dict[str, list[str]] = {}
        keys = (one.key for one in self._store.objects() if one.stored_at < before)
        for key in islice(keys, MOST_AT_ONCE):
            parts = key.split("/", _PARTS_BEFORE_PATH)
            if len(parts) > _PARTS_BEFORE_PATH and parts[1].startswith("run_"):
                found.setdefault(parts[1], []).append(key)
        return found

    async def _ends(self, runs: list[str]) -> dict[str, float | None]:
        self._answer = asyncio.get_running_loop().create_future()
        self._ask(AskEnds(tuple(runs)))
        async with asyncio.timeout(ANSWER_SECONDS):
            return (await self._answer).runs
