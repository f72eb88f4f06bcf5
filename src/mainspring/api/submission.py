"""From a wish for a run to a row of intake.

A commit per run would limit how many can be taken, so runs that come while an insertion is under way wait for it and go
together: group commit without a timer, as in `host/loop.py`. A run with an idempotency key goes alone, because the
store keeps one key for one insertion.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from random import Random

import msgspec

from mainspring.api.known_jobs import KnownJob, KnownJobs
from mainspring.api.store_time import AskedTime
from mainspring.clock import Clock
from mainspring.core.admission import check_run
from mainspring.core.job_rules import Limits
from mainspring.core.runs import Run
from mainspring.core.tasks import Priority
from mainspring.errors import Fault, MainspringError, Overloaded, Refused, Rejected
from mainspring.ids import entropy, new_id
from mainspring.rest import RunRequest
from mainspring.store.port import IdempotencyKey, Store

MOST_TOGETHER = 1_000
MOST_WAITING = 20_000
_ALONE_AT_ONCE = 16


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A run that may be made."""

    run: Run
    job: KnownJob
    key: IdempotencyKey | None


class Submissions:
    """Makes runs."""

    def __init__(self, store: Store, clock: Clock, time: AskedTime, *, limits: Limits, pool: str) -> None:
        self.jobs = KnownJobs(store, clock)
        self._store = store
        self._time = time
        self._limits = limits
        self._pool = pool
        self._random = Random(entropy())
        self._waiting: deque[tuple[Run, asyncio.Future[None]]] = deque()
        self._inserting: asyncio.Task[None] | None = None

    async def prepare(self, request: RunRequest, *, tenant: str, by: str) -> Prepared:
        """The run that is wished for. Raises Refused, with every fault."""
        now = await self._time.now()
        params = msgspec.json.encode(request.params).decode()
        faults: list[Fault] = []
        priority = Priority.__members__.get(request.priority)
        if priority is None:
            faults.append(Fault(where="priority", why=f"must be one of {', '.join(Priority.__members__)}"))
        faults += check_run(
            tenant=tenant, params=params, priority=Priority.P2 if priority is None else priority, submitted_by=by,
            now=now, start_at=request.start_at, key=request.idempotency_key, limits=self._limits,
        )  # fmt: skip
        job = await self.jobs.find(tenant, request.job)
        if job is None:
            faults.append(Fault(where="job", why=f"there is no job {request.job[:200]!a}"))
        if faults or job is None or priority is None:
            raise Refused(f"the run has {len(faults)} fault{'s' if len(faults) > 1 else ''}", _rename(faults))
        run = Run(
            id=new_id("run", now, self._random),
            shard=self._pool,
            tenant=tenant,
            job_id=job.id,
            priority=priority,
            params=params,
            task_count=job.task_count,
            submitted_by=by,
            created_at=now,
            start_at=max(now, request.start_at or now),
        )
        return Prepared(run=run, job=job, key=key_of(request, tenant))

    async def insert(self, prepared: Prepared) -> str:
        """Make a run, durably; returns its id, or that of the run that was made under the same key before.

        Raises KeyReused if that was another one.
        """
        if prepared.key is not None:
            return (await self._store.insert_runs([prepared.run], prepared.key))[0]
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded(f"{len(self._waiting)} runs wait to be written already")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((prepared.run, done))
        if self._inserting is None or self._inserting.done():
            self._inserting = asyncio.create_task(self._insert_waiting())
        await done
        return prepared.run.id

    async def insert_all(self, runs: Sequence[Prepared], key: IdempotencyKey | None) -> list[str]:
        """Make all of these runs, or none; returns their ids, or those that were made under the same key before."""
        return await self._store.insert_runs([prepared.run for prepared in runs], key)

    async def insert_each(self, runs: Sequence[Prepared]) -> list[str | MainspringError]:
        """Make each of these runs that can be made; returns its id, or what is wrong."""
        alone = asyncio.Semaphore(_ALONE_AT_ONCE)

        async def insert_alone(prepared: Prepared) -> str | MainspringError:
            async with alone:
                try:
                    return (await self._store.insert_runs([prepared.run], prepared.key))[0]
                except MainspringError as error:
                    return error

        together = [prepared for prepared in runs if prepared.key is None]
        try:
            if together:
                await self._store.insert_runs([prepared.run for prepared in together])
        except Rejected:
            return list(await asyncio.gather(*map(insert_alone, runs)))
        except MainspringError as error:
            return [error] * len(runs)
        ended = iter(await asyncio.gather(*(insert_alone(one) for one in runs if one.key is not None)))
        return [prepared.run.id if prepared.key is None else next(ended) for prepared in runs]

    async def _insert_waiting(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
            await self._insert_group(group)

    async def _insert_group(self, group: Sequence[tuple[Run, asyncio.Future[None]]]) -> None:
        """Insert runs, and tell those who wait for them. If the store does not take one, the others don't suffer."""
        try:
            await self._store.insert_runs([run for run, _ in group])
        except Exception as error:  # noqa: BLE001 - whatever it is, each of those who wait is told
            if isinstance(error, Rejected) and len(group) > 1:
                for one in group:
                    await self._insert_group([one])
                return
            for _, done in group:
                if not done.done():
                    done.set_exception(error)
        else:
            for _, done in group:
                if not done.done():
                    done.set_result(None)


def key_of(request: RunRequest, tenant: str) -> IdempotencyKey | None:
    """The key of a wish for one run, with a digest of all else that it says, however it is written."""
    if request.idempotency_key is None:
        return None
    body_hash = digest([msgspec.structs.replace(request, tenant=tenant)])
    return IdempotencyKey(tenant=tenant, key=request.idempotency_key, body_hash=body_hash)


def digest(requests: Sequence[RunRequest]) -> str:
    """The same for what means the same, whatever its key: fields in any order, with any space between them."""
    bare = [msgspec.structs.replace(request, idempotency_key=None) for request in requests]
    canonical = msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(bare)), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _rename(faults: Sequence[Fault]) -> list[Fault]:
    """Faults by the names of the request: admission calls the key just that."""
    names = {"key": "idempotency_key"}
    return [Fault(where=names.get(fault.where, fault.where), why=fault.why) for fault in faults]
