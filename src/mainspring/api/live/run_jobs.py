"""Which job a run is of, for those who follow what happens to the runs of a job: looked up once for each run."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from mainspring.store.ports.store import Store

MOST_KNOWN = 20_000
_AT_ONCE = 16


class RunJobs:
    """Remembers the names of the jobs of runs. However many follow, the store is asked once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, str] = OrderedDict()
        self._asking = asyncio.Lock()

    async def names(self, runs: Iterable[str]) -> dict[str, str]:
        """The name of the job of each of these runs; empty for one that nobody knows. Raises Unavailable."""
        wanted = list(dict.fromkeys(runs))
        async with self._asking:
            unknown = [run_id for run_id in wanted if run_id not in self._known]
            for first in range(0, len(unknown), _AT_ONCE):
                await asyncio.gather(*map(self._ask, unknown[first : first + _AT_ONCE]))
            found = {run_id: self._known[run_id] for run_id in wanted}
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return found

    async def _ask(self, run_id: str) -> None:
        listed = await self._store.find_run(run_id)
        self._known[run_id] = listed.job_name if listed is not None else ""
