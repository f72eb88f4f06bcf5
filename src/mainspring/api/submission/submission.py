"""From a wish for a run to a row of intake.

Runs that come at the same time go to the store together (`group_commit.py`), those with an idempotency key as well.
What is wrong with one does not touch the others: without it they are tried again.

Which job a name means is remembered. If the store does not have that job any more, because it went back in time, it is
forgotten here, and the name is looked up once more; whoever named the job by its id has to submit it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import msgspec

from mainspring.api.store_time import AskedTime
from mainspring.api.submission.gate import Gate
from mainspring.api.submission.group_commit import Gatherer
from mainspring.api.submission.known_jobs import KnownJob, KnownJobs
from mainspring.core.admission.validate_job import Limits
from mainspring.core.admission.validate_submission import check_run
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import UNKNOWN_JOB, Fault, JobMissing, MainspringError, Refused, Rejected
from mainspring.protocol.ids import entropy, new_id
from mainspring.protocol.rest.runs import RunRequest
from mainspring.store.ports.store import IdempotencyKey, KeyedRun, Store

_Insert = Callable[[Sequence["Prepared"]], Awaitable[Sequence[str | MainspringError]]]
Tell = Callable[[Sequence["Prepared"]], Sequence[AuditEntry]]
"""What the audit log says of runs that are written together."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A run that may be made."""

    run: Run
    job: KnownJob
    reference: str
    """How the wish names the job: `name`, `name@3` or its id."""
    key: IdempotencyKey | None
    audit: AuditEntry | None = None
    """What the audit log says of it, if it is told of by itself."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is there now."""

    id: str
    prepared: Prepared
    """What was wished for, of the job that it became a run of."""

    @property
    def is_replay(self) -> bool:
        """Whether it was made before, under the same key."""
        return self.id != self.prepared.run.id


def own_entries(runs: Sequence[Prepared]) -> list[AuditEntry]:
    """What the audit log says of runs that came by themselves: an entry for each."""
    return [prepared.audit for prepared in runs if prepared.audit is not None]


class Submissions:
    """Makes runs."""

    def __init__(
        self, store: Store, clock: Clock, time: AskedTime, gate: Gate, *, limits: Limits,
        is_watched: Callable[[str], Awaitable[bool]],
    ) -> None:  # fmt: skip
        """`is_watched` says whether somebody outside wants to hear how runs of a tenant end."""
        self.jobs = KnownJobs(store, clock)
        self._store = store
        self._time = time
        self._gate = gate
        self._limits = limits
        self._is_watched = is_watched
        self._random = Random(entropy())
        self._gatherer: Gatherer[Prepared, Made] = Gatherer(self.insert_each, lambda one: len(one.run.params))

    def part(self, tenant: str, job: str, priority: str) -> float:
        """The part of the usual rates at which such runs are taken (HA-5), as far as their job is remembered here.

        To ask the store for it would cost what a limit is there to save.
        """
        known = self.jobs.recall(tenant, job)
        return self._gate.part(None if known is None else known.needs, Priority.__members__.get(priority, Priority.P2))

    async def prepare(self, request: RunRequest, *, tenant: str, by: str) -> Prepared:
        """The run that is wished for. Raises Refused, with every fault, or what keeps it out for now."""
        now = await self._time.now()
        params = msgspec.json.encode(request.params).decode()
        faults: list[Fault] = []
        priority = Priority.__members__.get(request.priority)
        if priority is None:
            faults.append(Fault(where="priority", why=f"must be one of {', '.join(Priority.__members__)}"))
        faults += check_run(
            tenant=tenant, params=params, priority=Priority.P2 if priority is None else priority, submitted_by=by,
            now=now, start_at=request.start_at, finish_by=request.finish_by, key=request.idempotency_key,
            limits=self._limits,
        )  # fmt: skip
        job = await self.jobs.find(tenant, request.job)
        place = None if job is None else await self._gate.place(job.needs)
        if place is None:
            faults.append(Fault(where="job", why=f"there is no job {request.job[:200]!a}", code=UNKNOWN_JOB))
        else:
            faults += _about_job(place.faults)
        faults += await self._gate.check_priority(priority, tenant)
        if faults or job is None or place is None or priority is None:
            raise Refused(f"the run has {len(faults)} fault{'s' if len(faults) > 1 else ''}", _rename(faults))
        await self._gate.let_in(place.pool, priority, by)
        run = Run(
            id=new_id("run", now, self._random),
            shard=place.pool,
            tenant=tenant,
            job_id=job.id,
            priority=priority,
            params=params,
            task_count=job.task_count,
            submitted_by=by,
            watched=await self._is_watched(tenant),
            created_at=now,
            start_at=max(now, request.start_at or now),
            finish_by=request.finish_by,
        )
        return Prepared(run=run, job=job, reference=request.job, key=key_of(request, tenant))

    async def prepare_again(self, run: Run, *, by: str, why: str = "", key: str | None = None) -> Prepared:
        """A run like one that there was: the same version of its job, parameters and window. Raises Refused."""
        params = msgspec.json.decode(run.params, type=dict[str, msgspec.Raw])
        wish = RunRequest(job=run.job_id, params=params, priority=run.priority.name, idempotency_key=key)
        prepared = await self.prepare(wish, tenant=run.tenant, by=by)
        again = msgspec.structs.replace(
            prepared.run,
            linked_run=run.id,
            schedule_id=run.schedule_id,
            window_at=run.window_at,
            because=why or f"started again by {by}",
        )
        return msgspec.structs.replace(prepared, run=again)

    async def insert(self, prepared: Prepared) -> Made:
        """Make a run, durably, unless one was made under the same key before.

        Raises KeyReused if that was another one, JobMissing if the store has lost its job.
        """
        return await self._gatherer.add(prepared)

    async def insert_all(
        self, runs: Sequence[Prepared], key: IdempotencyKey | None, audit: Sequence[AuditEntry]
    ) -> list[str]:
        """Make all of these runs, or none; returns their ids, or those that were made under the same key before."""
        try:
            return await self._store.insert_runs([prepared.run for prepared in runs], key, audit)
        except JobMissing as error:
            self.jobs.forget(error.jobs)
            renewed = [await self._renew(one, error) if one.job.id in error.jobs else one for one in runs]
            return await self._store.insert_runs([prepared.run for prepared in renewed], key, audit)

    async def insert_each(self, runs: Sequence[Prepared], tell: Tell = own_entries) -> list[Made | MainspringError]:
        """Make each of these runs that can be made, at most 1,000; returns what was made, or what is wrong.

        `tell` is asked for each group without keys that is written together. One with a key has its own entry.
        """
        runs = list(runs)
        ends = await self._insert_both(runs, tell)
        missing = {place: end for place, end in enumerate(ends) if isinstance(end, JobMissing)}
        self.jobs.forget([job for error in missing.values() for job in error.jobs])
        renewed = []
        for place, error in missing.items():
            try:
                runs[place] = await self._renew(runs[place], error)
                renewed.append(place)
            except MainspringError as why:
                ends[place] = why
        for place, end in zip(renewed, await self._insert_both([runs[place] for place in renewed], tell), strict=True):
            ends[place] = end
        return [
            Made(id=end, prepared=prepared) if isinstance(end, str) else end
            for prepared, end in zip(runs, ends, strict=True)
        ]

    async def _insert_both(self, runs: Sequence[Prepared], tell: Tell) -> list[str | MainspringError]:
        """Insert those that have a key, and those that have none; an id for each, or what is wrong."""
        keyed = iter(await _insert_good([one for one in runs if one.key is not None], self._insert_keyed))

        async def insert_bare(group: Sequence[Prepared]) -> Sequence[str | MainspringError]:
            return await self._store.insert_runs([prepared.run for prepared in group], audit=tell(group))

        bare = iter(await _insert_good([one for one in runs if one.key is None], insert_bare))
        return [next(bare) if prepared.key is None else next(keyed) for prepared in runs]

    async def _insert_keyed(self, runs: Sequence[Prepared]) -> Sequence[str | MainspringError]:
        return await self._store.insert_keyed(
            [
                KeyedRun(run=prepared.run, key=prepared.key, audit=prepared.audit)
                for prepared in runs
                if prepared.key is not None
            ]
        )

    async def _renew(self, prepared: Prepared, error: JobMissing) -> Prepared:
        """The same wish, of the job that its name means now. Raises the error if there is none."""
        job = await self.jobs.find(prepared.run.tenant, prepared.reference)
        if job is None:
            raise error
        place = await self._gate.place(job.needs)
        if place.faults:
            raise Refused("the run can't go anywhere", _about_job(place.faults))
        run = msgspec.structs.replace(prepared.run, job_id=job.id, task_count=job.task_count, shard=place.pool)
        return msgspec.structs.replace(prepared, run=run, job=job)


async def _insert_good(runs: Sequence[Prepared], insert: _Insert) -> list[str | MainspringError]:
    """Insert together what the store takes; for each its end.

    Those whose job is missing are known by it. Which content the store refuses is not known: halves are tried, so that
    one bad run among a thousand costs 20 calls.
    """
    if not runs:
        return []
    try:
        return list(await insert(runs))
    except JobMissing as error:
        ends = iter(await _insert_good([one for one in runs if one.job.id not in error.jobs], insert))
        return [JobMissing.of([one.job.id]) if one.job.id in error.jobs else next(ends) for one in runs]
    except Rejected as error:
        if len(runs) == 1:
            return [error]
        half = len(runs) // 2
        return [*await _insert_good(runs[:half], insert), *await _insert_good(runs[half:], insert)]
    except MainspringError as error:
        return [error] * len(runs)


def key_of(request: RunRequest, tenant: str) -> IdempotencyKey | None:
    """The key of a wish for one run, with a digest of all else that it says, however it is written."""
    if request.idempotency_key is None:
        return None
    body_hash = digest([msgspec.structs.replace(request, tenant=tenant)])
    return IdempotencyKey(tenant=tenant, key=request.idempotency_key, body_hash=body_hash)


def digest(requests: Sequence[RunRequest]) -> str:
    """The same for wishes that mean the same, whatever their keys."""
    bare = [msgspec.structs.replace(request, idempotency_key=None) for request in requests]
    return digest_of(bare)


def digest_of(wish: object) -> str:
    """The same for what means the same: fields in any order, with any space between them."""
    canonical = msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(wish)), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _about_job(faults: Sequence[Fault]) -> list[Fault]:
    """Faults of a job, for whoever named it."""
    return [Fault(where="job", why=f"its {fault.where}: {fault.why}") for fault in faults]


def _rename(faults: Sequence[Fault]) -> list[Fault]:
    """Faults by the names of the request: admission calls the key just that."""
    names = {"key": "idempotency_key"}
    return [msgspec.structs.replace(fault, where=names.get(fault.where, fault.where)) for fault in faults]
