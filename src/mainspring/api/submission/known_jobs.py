"""Cache of jobs by name, version and id, because every submitted run needs its job.

A version never changes: it is cached until the store turns out to have lost it. Which version is the latest is cached
for LATEST_SECONDS, and that a job is not deleted for THERE_SECONDS; local changes apply immediately.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from mainspring.core.admission.job_routing import JobNeeds, needs_of
from mainspring.core.model.job import JobRow, count_tasks
from mainspring.protocol.clock import Clock
from mainspring.store.ports.store import Store

LATEST_SECONDS = 1.0
THERE_SECONDS = 5.0
_MOST_KNOWN = 10_000
_LARGE_BYTES = 256 * 1024
_K = TypeVar("_K")
_V = TypeVar("_V")


class KnownJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The properties of a job that its runs need."""

    id: str
    tenant: str
    name: str
    version: int
    task_count: int
    needs: JobNeeds = JobNeeds()
    """Requirements that decide the routing of its runs."""


class KnownJobs:
    """Caches versions of jobs, and briefly which is the latest."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._by_id: OrderedDict[str, KnownJob] = OrderedDict()
        self._by_version: OrderedDict[tuple[str, str, int], KnownJob] = OrderedDict()
        self._latest: OrderedDict[tuple[str, str], tuple[float, KnownJob]] = OrderedDict()
        """With the time it was read."""

    async def find(self, tenant: str, reference: str) -> KnownJob | None:
        """Find the job of a tenant by `name`, `name@3` or id; None if missing or deleted."""
        name, at, version = reference.partition("@")
        if at:
            is_number = version.isascii() and version.isdecimal() and len(version) <= 9
            known = await self._find_version(tenant, name, int(version)) if is_number else None
            return known if known is not None and await self._is_there(known) else None
        if name.startswith("job_"):
            known = await self._find_id(name)
            if known is not None and known.tenant == tenant:
                return known if await self._is_there(known) else None
        return await self._find_latest(tenant, name)

    def recall(self, tenant: str, reference: str) -> KnownJob | None:
        """Return the cached job of a reference, if any, without reading the store."""
        name, _, version = reference.partition("@")
        if version.isascii() and version.isdecimal() and len(version) <= 9:
            return self._by_version.get((tenant, name, int(version)))
        known = self._by_id.get(name)
        if known is not None and known.tenant == tenant:
            return known
        _, latest = self._latest.get((tenant, name), (0.0, None))
        return latest

    async def submitted(self, row: JobRow) -> KnownJob:
        """Record a new latest version."""
        known = await self._know(row)
        self._believe(known)
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

    async def _find_id(self, id: str) -> KnownJob | None:
        known = self._by_id.get(id)
        if known is None:
            rows = await self._store.jobs([id])
            known = await self._know(rows[0]) if rows else None
        return known

    async def _find_version(self, tenant: str, name: str, version: int) -> KnownJob | None:
        known = self._by_version.get((tenant, name, version))
        if known is None:
            row = await self._store.find_job(tenant, name, version)
            known = await self._know(row) if row is not None else None
        return known

    async def _find_latest(self, tenant: str, name: str) -> KnownJob | None:
        believed_at, known = self._latest.get((tenant, name), (0.0, None))
        if known is not None and self._clock.monotonic() < believed_at + LATEST_SECONDS:
            return known
        row = await self._store.find_job(tenant, name)
        if row is None or row.deleted_at is not None:
            self.deleted(tenant, name)
            return None
        return self._believe(await self._know(row))

    async def _is_there(self, known: KnownJob) -> bool:
        """Return whether the job of a version is not deleted."""
        believed_at, latest = self._latest.get((known.tenant, known.name), (0.0, None))
        if latest is not None and self._clock.monotonic() < believed_at + THERE_SECONDS:
            return True
        return await self._find_latest(known.tenant, known.name) is not None

    def _believe(self, known: KnownJob) -> KnownJob:
        """Cache a job as the latest of its name unless a later one is cached; return the latest."""
        key = (known.tenant, known.name)
        _, before = self._latest.get(key, (0.0, known))
        latest = max(known, before, key=lambda job: job.version)
        _keep(self._latest, key, (self._clock.monotonic(), latest))
        return latest

    async def _know(self, row: JobRow) -> KnownJob:
        known = self._by_id.get(row.id)
        if known is None:
            large = len(row.definition) > _LARGE_BYTES
            known = await asyncio.to_thread(_read, row) if large else _read(row)
        _keep(self._by_id, known.id, known)
        _keep(self._by_version, (known.tenant, known.name, known.version), known)
        return known


def _read(row: JobRow) -> KnownJob:
    return KnownJob(
        id=row.id, tenant=row.tenant, name=row.name, version=row.version, task_count=count_tasks(row),
        needs=needs_of(row),
    )  # fmt: skip


def _keep(known: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    """Add an entry, and evict the oldest if the cache is full."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MOST_KNOWN:
        known.popitem(last=False)
