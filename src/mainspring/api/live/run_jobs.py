"""Job names of runs, for followers that filter by job: looked up once per run."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from mainspring.store.ports.store import Store

MAX_CACHED = 20_000
_CONCURRENCY = 16


class RunJobs:
    """Caches the job names of runs; concurrent lookups share one read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, str] = OrderedDict()
        self._load_lock = asyncio.Lock()

    async def names(self, runs: Iterable[str]) -> dict[str, str]:
        """Return the job name of each run; empty if the run is unknown. Raises Unavailable."""
        wanted = list(dict.fromkeys(runs))
        async with self._load_lock:
            unknown = [run_id for run_id in wanted if run_id not in self._known]
            for first in range(0, len(unknown), _CONCURRENCY):
                await asyncio.gather(*map(self._load, unknown[first : first + _CONCURRENCY]))
            found = {run_id: self._known[run_id] for run_id in wanted}
            while len(self._known) > MAX_CACHED:
                self._known.popitem(last=False)
        return found

    async def _load(self, run_id: str) -> None:
        listed = await self._store.find_run(run_id)
        self._known[run_id] = listed.job_name if listed is not None else ""
