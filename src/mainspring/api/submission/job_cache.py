"""Cache of jobs by name, version and id, because every submitted run needs its job.

A version never changes: it is cached until the store turns out to have lost it. Which version is the latest is cached
for LATEST_SECONDS, and that a job is not deleted for EXISTS_SECONDS; local changes apply immediately.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from mainspring.api.views.view_of import view_of
from mainspring.core.admission.job_routing import JobRequirements, requirements_of
from mainspring.core.model.job import JobRow, count_tasks
from mainspring.protocol.clock import Clock
from mainspring.store.ports.store import Store

LATEST_SECONDS = 1.0
EXISTS_SECONDS = 5.0
_MAX_CACHED = 10_000
_LARGE_BYTES = 256 * 1024
_K = TypeVar("_K")
_V = TypeVar("_V")


class CachedJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The properties of a job that its runs need."""

    id: str
    tenant: str
    name: str
    version: int
    task_count: int
    needs: JobRequirements = JobRequirements()
    """Requirements that decide the routing of its runs."""


class JobCache:
    """Caches versions of jobs, and briefly which is the latest."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._by_id: OrderedDict[str, CachedJob] = OrderedDict()
        self._by_version: OrderedDict[tuple[str, str, int], CachedJob] = OrderedDict()
        self._latest: OrderedDict[tuple[str, str], tuple[float, CachedJob]] = OrderedDict()
        """With the time it was read."""

    async def find(self, tenant: str, reference: str) -> CachedJob | None:
        """Find the job of a tenant by `name`, `name@3` or id; None if missing or deleted."""
        name, at, version = reference.partition("@")
        if at:
            is_number = version.isascii() and version.isdecimal() and len(version) <= 9
            known = await self._find_version(tenant, name, int(version)) if is_number else None
            return known if known is not None and await self._exists(known) else None
        if name.startswith("job_"):
            known = await self._find_id(name)
            if known is not None and known.tenant == tenant:
                return known if await self._exists(known) else None
        return await self._find_latest(tenant, name)

    def peek(self, tenant: str, reference: str) -> CachedJob | None:
        """Return the cached job of a reference, if any, without reading the store."""
        name, _, version = reference.partition("@")
        if version.isascii() and version.isdecimal() and len(version) <= 9:
            return self._by_version.get((tenant, name, int(version)))
        known = self._by_id.get(name)
        if known is not None and known.tenant == tenant:
            return known
        _, latest = self._latest.get((tenant, name), (0.0, None))
        return latest

    async def submitted(self, row: JobRow) -> CachedJob:
        """Record a new latest version."""
        known = await self._cache(row)
        self._update_latest(known)
        return known

    def deleted(self, tenant: str, name: str) -> None:
        """Record that a job was deleted; later lookups read the store."""
        self._latest.pop((tenant, name), None)

    def forget(self, ids: Iterable[str]) -> None:
        """Drop jobs that the store no longer has."""
        for job_id in ids:
            known = self._by_id.pop(job_id, None)
            if known is None:
                continue
            self._by_version.pop((known.tenant, known.name, known.version), None)
            _, latest = self._latest.get((known.tenant, known.name), (0.0, None))
            if latest == known:
                del self._latest[known.tenant, known.name]

    async def _find_id(self, id: str) -> CachedJob | None:
        known = self._by_id.get(id)
        if known is None:
            rows = await self._store.jobs([id])
            known = await self._cache(rows[0]) if rows else None
        return known

    async def _find_version(self, tenant: str, name: str, version: int) -> CachedJob | None:
        known = self._by_version.get((tenant, name, version))
        if known is None:
            row = await self._store.find_job(tenant, name, version)
            known = await self._cache(row) if row is not None else None
        return known

    async def _find_latest(self, tenant: str, name: str) -> CachedJob | None:
        cached_at, known = self._latest.get((tenant, name), (0.0, None))
        if known is not None and self._clock.monotonic() < cached_at + LATEST_SECONDS:
            return known
        row = await self._store.find_job(tenant, name)
        if row is None or row.deleted_at is not None:
            self.deleted(tenant, name)
            return None
        return self._update_latest(await self._cache(row))

    async def _exists(self, known: CachedJob) -> bool:
        """Return whether the job of a version is not deleted."""
        cached_at, latest = self._latest.get((known.tenant, known.name), (0.0, None))
        if latest is not None and self._clock.monotonic() < cached_at + EXISTS_SECONDS:
            return True
        return await self._find_latest(known.tenant, known.name) is not None

    def _update_latest(self, known: CachedJob) -> CachedJob:
        """Cache a job as the latest of its name unless a later one is cached; return the latest."""
        key = (known.tenant, known.name)
        _, before = self._latest.get(key, (0.0, known))
        latest = max(known, before, key=lambda job: job.version)
        _put(self._latest, key, (self._clock.monotonic(), latest))
        return latest

    async def _cache(self, row: JobRow) -> CachedJob:
        known = self._by_id.get(row.id)
        if known is None:
            large = len(row.definition) > _LARGE_BYTES
            known = await asyncio.to_thread(_read, row) if large else _read(row)
        _put(self._by_id, known.id, known)
        _put(self._by_version, (known.tenant, known.name, known.version), known)
        return known


def _read(row: JobRow) -> CachedJob:
    return view_of(CachedJob, row, task_count=count_tasks(row), needs=requirements_of(row))


def _put(known: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    """Add an entry, and evict the oldest if the cache is full."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MAX_CACHED:
        known.popitem(last=False)
