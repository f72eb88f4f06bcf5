"""Cache of compiled job definitions: a job is read once, however many runs it has."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from mainspring.core.model.job import Job, JobRow, JobSpec, compile_job
from mainspring.protocol.errors import Broken
from mainspring.store.ports.store import Memory

_MAX_CACHED_TASKS = 500_000
_LARGE_BYTES = 256 * 1024
"""Definitions larger than this are compiled in a thread, so that the event loop is not blocked."""

_DECODER = msgspec.json.Decoder(JobSpec)


class JobCache:
    """Compiled definitions; the least recently used are evicted first."""

    def __init__(self, store: Memory) -> None:
        self._store = store
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tasks = 0

    async def get(self, ids: Iterable[str]) -> tuple[dict[str, Job], dict[str, str]]:
        """Return the jobs with these ids, and the faults of those that can't be loaded."""
        wanted = list(dict.fromkeys(ids))
        missing = [job_id for job_id in wanted if job_id not in self._jobs]
        faults: dict[str, str] = {}
        fresh: dict[str, Job] = {}
        if missing:
            rows = {row.id: row for row in await self._store.jobs(missing)}
            for job_id in missing:
                row = rows.get(job_id)
                try:
                    fresh[job_id] = await _compile(row) if row is not None else _absent(job_id)
                except (msgspec.MsgspecError, Broken, KeyError, ValueError, LookupError) as error:
                    faults[job_id] = f"its definition can't be read: {error}"
        found = {job_id: self._jobs[job_id] for job_id in wanted if job_id in self._jobs} | fresh
        self._cache(found)
        return found, faults

    def cached(self, job_id: str) -> Job | None:
        """Return a cached job, without asking the store."""
        return self._jobs.get(job_id)

    def name_of(self, job_id: str) -> str | None:
        """Return the name of a cached job."""
        job = self._jobs.get(job_id)
        return job.spec.name if job is not None else None

    def _cache(self, jobs: dict[str, Job]) -> None:
        for job_id, job in jobs.items():
            if job_id not in self._jobs:
                self._tasks += len(job.tasks)
            self._jobs[job_id] = job
            self._jobs.move_to_end(job_id)
        while self._tasks > _MAX_CACHED_TASKS and len(self._jobs) > 1:
            _, old = self._jobs.popitem(last=False)
            self._tasks -= len(old.tasks)


async def _compile(row: JobRow) -> Job:
    if len(row.definition) > _LARGE_BYTES:
        return await asyncio.to_thread(_compile_now, row)
    return _compile_now(row)


def _compile_now(row: JobRow) -> Job:
    return compile_job(row.id, _DECODER.decode(row.definition))


def _absent(job_id: str) -> Job:
    raise LookupError(f"there is no job {job_id}")
