"""Remove expired artifacts (WRK-11): those of runs that ended long enough ago, in the worker's own storage.

    list the storage ─► objects older than the retention ─► ask the server when those runs ended ─► remove

1. Artifacts of an open run are kept, however old they are: the retention starts at the end of the run.
2. A run that the server no longer knows has ended, and its history was deleted; its files have the age of the
   storage.
3. Nothing is removed without an answer. Skipped objects are found by the next sweep, of this worker or another.

So a storage (or a bucket prefix) belongs to one installation.
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
from mainspring.protocol.wire import RunEnds, RunEndsRequest
from mainspring.worker.artifacts.artifact_store import ArtifactStore

log = structlog.get_logger()

INTERVAL_SECONDS = 3_600.0
INITIAL_DELAY_SECONDS = 60.0
ANSWER_TIMEOUT_SECONDS = 30.0
MAX_KEYS_PER_SWEEP = 10_000
_RUNS_PER_QUERY = 100
_KEYS_PER_DELETE = 1_000
_PARTS_BEFORE_PATH = 4
"""A key is `<tenant>/<run>/<task>/<attempt>/<path>`."""


class ArtifactSweep:
    """Sweeps one storage."""

    def __init__(
        self,
        store: ArtifactStore,
        keep_seconds: int,
        clock: Clock,
        random: Random,
        ask: Callable[[RunEndsRequest], None],
    ) -> None:
        self._store = store
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._random = random
        self._ask = ask
        self._answer: asyncio.Future[RunEnds] | None = None

    async def run(self) -> None:
        """Sweep periodically until cancelled; never if artifacts are kept forever.

        The intervals are random, so that workers that share a storage do not sweep at the same time.
        """
        if not self._keep_seconds:
            return
        await self._clock.sleep(INITIAL_DELAY_SECONDS * (1 + self._random.random()))
        while True:
            try:
                removed = await self.sweep()
                log.info("artifacts.swept", storage=self._store.url, removed=removed)
            except (Unavailable, TimeoutError) as error:
                log.warning("artifacts.not_swept", storage=self._store.url, because=str(error) or "no answer")
            await self._clock.sleep(INTERVAL_SECONDS * (0.5 + self._random.random()))

    def take(self, answer: RunEnds) -> None:
        """Take the server's answer."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    async def sweep(self) -> int:
        """Remove expired artifacts; return their number. Raises Unavailable, or TimeoutError without an answer."""
        before = self._clock.wall() - timedelta(seconds=self._keep_seconds)
        old = await asyncio.to_thread(self._old, before)
        runs = list(old)
        expired: list[str] = []
        for first in range(0, len(runs), _RUNS_PER_QUERY):
            some = runs[first : first + _RUNS_PER_QUERY]
            ends = await self._ends(some)
            for run in some:
                since = ends.get(run, float("inf"))
                if since is not None and since >= self._keep_seconds:
                    expired += old[run]
        for first in range(0, len(expired), _KEYS_PER_DELETE):
            await asyncio.to_thread(self._store.remove, expired[first : first + _KEYS_PER_DELETE])
        return len(expired)

    def _old(self, before: datetime) -> dict[str, list[str]]:
        """Return the keys stored before then, by run. Foreign keys are ignored."""
        found: dict[str, list[str]] = {}
        keys = (key for key, stored_at in self._store.objects() if stored_at < before)
        for key in islice(keys, MAX_KEYS_PER_SWEEP):
            parts = key.split("/", _PARTS_BEFORE_PATH)
            if len(parts) > _PARTS_BEFORE_PATH and parts[1].startswith("run_"):
                found.setdefault(parts[1], []).append(key)
        return found

    async def _ends(self, runs: list[str]) -> dict[str, float | None]:
        self._answer = asyncio.get_running_loop().create_future()
        self._ask(RunEndsRequest(tuple(runs)))
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            return (await self._answer).runs
