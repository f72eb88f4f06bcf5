"""Submission of runs: from a request to a row in intake.

Concurrent runs are inserted together (`group_commit.py`), those with idempotency keys too. A rejected run does not
affect the others: they are inserted again without it.

Jobs are cached by name. If the store no longer has a job because it was restored to an earlier state, it is dropped
from the cache and looked up once more by name; a client that named the job by id has to submit it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import msgspec

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.admission import AdmissionControl
from mainspring.api.submission.group_commit import GroupCommit
from mainspring.api.submission.job_cache import CachedJob, JobCache
from mainspring.core.admission.validate_job import Limits
from mainspring.core.admission.validate_submission import check_run
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import UNKNOWN_JOB, Fault, JobMissing, MainspringError, Refused, Rejected, refusal
from mainspring.protocol.ids import entropy, new_id
from mainspring.protocol.rest.runs import RunRequest
from mainspring.store.ports.store import IdempotencyKey, KeyedRun, Store

_Insert = Callable[[Sequence["PreparedRun"]], Awaitable[Sequence[str | MainspringError]]]
MakeEntries = Callable[[Sequence["PreparedRun"]], Sequence[AuditEntry]]
"""Creates the audit entries of runs that are written together."""


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A validated run, ready to be inserted."""

    run: Run
    job: CachedJob
    reference: str
    """The job as named in the request: `name`, `name@3` or id."""
    key: IdempotencyKey | None
    audit: AuditEntry | None = None
    """Its audit entry, if it has its own."""


class CreatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was created, or found under its idempotency key."""

    id: str
    prepared: PreparedRun
    """The prepared run, with the job that was used."""

    @property
    def is_replay(self) -> bool:
        """Return whether it was created earlier under the same key."""
        return self.id != self.prepared.run.id


def individual_entries(runs: Sequence[PreparedRun]) -> list[AuditEntry]:
    """Return the audit entries of runs that have their own."""
    return [prepared.audit for prepared in runs if prepared.audit is not None]


class Submissions:
    """Creates runs."""

    def __init__(
        self, store: Store, clock: Clock, time: StoreTimeCache, admission: AdmissionControl, *, limits: Limits,
        is_watched: Callable[[str], Awaitable[bool]],
    ) -> None:  # fmt: skip
        """`is_watched`: returns whether a webhook subscribes to the runs of a tenant."""
        self.jobs = JobCache(store, clock)
        self._store = store
        self._time = time
        self._admission = admission
        self._limits = limits
        self._is_watched = is_watched
        self._random = Random(entropy())
        self._group_commit: GroupCommit[PreparedRun, CreatedRun] = GroupCommit(
            self.insert_each, lambda one: len(one.run.params)
        )

    def part(self, tenant: str, job: str, priority: str) -> float:
        """Return the factor on rate limits for such runs (HA-5), as far as their job is cached.

        Reading the store would cost what a limit is to save.
        """
        known = self.jobs.peek(tenant, job)
        return self._admission.part(
            None if known is None else known.needs, Priority.__members__.get(priority, Priority.P2)
        )

    async def prepare_for(self, principal: Principal, request: RunRequest) -> PreparedRun:
        """Prepare a run that a caller requests. Raises Forbidden for another tenant, or what `prepare` does."""
        tenant = permissions.tenant_to_write(principal, request.tenant)
        return await self.prepare(request, tenant=tenant, by=principal.name)

    async def prepare(self, request: RunRequest, *, tenant: str, by: str) -> PreparedRun:
        """Validate a request and build its run. Raises Refused with all faults, or the error of admission."""
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
        place = None if job is None else await self._admission.place(job.needs)
        if place is None:
            faults.append(Fault(where="job", why=f"there is no job {request.job[:200]!a}", code=UNKNOWN_JOB))
        else:
            faults += _about_job(place.faults)
        faults += await self._admission.check_priority(priority, tenant)
        if faults or job is None or place is None or priority is None:
            raise refusal("the run has", _rename(faults))
        await self._admission.admit(place.pool, priority, by)
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
        return PreparedRun(run=run, job=job, reference=request.job, key=key_of(request, tenant))

    async def prepare_rerun(self, run: Run, *, by: str, why: str = "", key: str | None = None) -> PreparedRun:
        """Build a run like an earlier one: same job version, parameters and window. Raises Refused."""
        params = msgspec.json.decode(run.params, type=dict[str, msgspec.Raw])
        payload = RunRequest(job=run.job_id, params=params, priority=run.priority.name, idempotency_key=key)
        prepared = await self.prepare(payload, tenant=run.tenant, by=by)
        rerun = msgspec.structs.replace(
            prepared.run,
            linked_run=run.id,
            schedule_id=run.schedule_id,
            window_at=run.window_at,
            because=why or f"rerun by {by}",
        )
        return msgspec.structs.replace(prepared, run=rerun)

    async def insert(self, prepared: PreparedRun) -> CreatedRun:
        """Insert a run durably, unless one exists under the same key.

        Raises KeyReused if the existing one differs, JobMissing if the store has lost its job.
        """
        return await self._group_commit.add(prepared)

    async def insert_all(
        self, runs: Sequence[PreparedRun], key: IdempotencyKey | None, audit: Sequence[AuditEntry]
    ) -> list[str]:
        """Insert all runs or none; return their ids, or those of the runs that exist under the same key."""
        try:
            return await self._store.insert_runs([prepared.run for prepared in runs], key, audit)
        except JobMissing as error:
            self.jobs.forget(error.jobs)
            resolved = [await self._resolve_job_again(one, error) if one.job.id in error.jobs else one for one in runs]
            return await self._store.insert_runs([prepared.run for prepared in resolved], key, audit)

    async def insert_each(
        self, runs: Sequence[PreparedRun], make_entries: MakeEntries = individual_entries
    ) -> list[CreatedRun | MainspringError]:
        """Insert each run that the store accepts, at most 1,000; return the created run or the error of each.

        `make_entries` creates the audit entries of each group without keys. A run with a key has its own entry.
        """
        runs = list(runs)
        ends = await self._insert_keyed_and_bare(runs, make_entries)
        missing = {place: end for place, end in enumerate(ends) if isinstance(end, JobMissing)}
        self.jobs.forget([job for error in missing.values() for job in error.jobs])
        resolved = []
        for place, error in missing.items():
            try:
                runs[place] = await self._resolve_job_again(runs[place], error)
                resolved.append(place)
            except MainspringError as why:
                ends[place] = why
        for place, end in zip(
            resolved, await self._insert_keyed_and_bare([runs[place] for place in resolved], make_entries), strict=True
        ):
            ends[place] = end
        return [
            CreatedRun(id=end, prepared=prepared) if isinstance(end, str) else end
            for prepared, end in zip(runs, ends, strict=True)
        ]

    async def _insert_keyed_and_bare(
        self, runs: Sequence[PreparedRun], make_entries: MakeEntries
    ) -> list[str | MainspringError]:
        """Insert runs with and without keys; return an id or an error for each."""
        keyed = iter(await _insert_accepted([one for one in runs if one.key is not None], self._insert_keyed))

        async def insert_bare(group: Sequence[PreparedRun]) -> Sequence[str | MainspringError]:
            return await self._store.insert_runs([prepared.run for prepared in group], audit=make_entries(group))

        bare = iter(await _insert_accepted([one for one in runs if one.key is None], insert_bare))
        return [next(bare) if prepared.key is None else next(keyed) for prepared in runs]

    async def _insert_keyed(self, runs: Sequence[PreparedRun]) -> Sequence[str | MainspringError]:
        return await self._store.insert_keyed(
            [
                KeyedRun(run=prepared.run, key=prepared.key, audit=prepared.audit)
                for prepared in runs
                if prepared.key is not None
            ]
        )

    async def _resolve_job_again(self, prepared: PreparedRun, error: JobMissing) -> PreparedRun:
        """Rebuild a run with the current job of its reference. Raises the error if there is none."""
        job = await self.jobs.find(prepared.run.tenant, prepared.reference)
        if job is None:
            raise error
        place = await self._admission.place(job.needs)
        if place.faults:
            raise Refused("no pool can run it", _about_job(place.faults))
        run = msgspec.structs.replace(prepared.run, job_id=job.id, task_count=job.task_count, shard=place.pool)
        return msgspec.structs.replace(prepared, run=run, job=job)


async def _insert_accepted(runs: Sequence[PreparedRun], insert: _Insert) -> list[str | MainspringError]:
    """Insert what the store accepts; return the result of each run.

    Runs of a missing job are identified by it. The store does not name rejected runs: halves are tried, so that one
    bad run among a thousand costs 20 calls.
    """
    if not runs:
        return []
    try:
        return list(await insert(runs))
    except JobMissing as error:
        ends = iter(await _insert_accepted([one for one in runs if one.job.id not in error.jobs], insert))
        return [JobMissing.of([one.job.id]) if one.job.id in error.jobs else next(ends) for one in runs]
    except Rejected as error:
        if len(runs) == 1:
            return [error]
        half = len(runs) // 2
        return [*await _insert_accepted(runs[:half], insert), *await _insert_accepted(runs[half:], insert)]
    except MainspringError as error:
        return [error] * len(runs)


def key_of(request: RunRequest, tenant: str) -> IdempotencyKey | None:
    """Return the key of a request, with a digest of its other fields, whatever their formatting."""
    if request.idempotency_key is None:
        return None
    body_hash = digest([msgspec.structs.replace(request, tenant=tenant)])
    return IdempotencyKey(tenant=tenant, key=request.idempotency_key, body_hash=body_hash)


def digest(requests: Sequence[RunRequest]) -> str:
    """Return a digest of requests without their keys."""
    bare = [msgspec.structs.replace(request, idempotency_key=None) for request in requests]
    return digest_of(bare)


def digest_of(payload: object) -> str:
    """Return a digest independent of field order and whitespace."""
    canonical = msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(payload)), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _about_job(faults: Sequence[Fault]) -> list[Fault]:
    """Attribute faults of a job's definition to the field `job`."""
    return [Fault(where="job", why=f"its {fault.where}: {fault.why}") for fault in faults]


def _rename(faults: Sequence[Fault]) -> list[Fault]:
    """Rename faults to request fields: admission calls the key just `key`."""
    names = {"key": "idempotency_key"}
    return [msgspec.structs.replace(fault, where=names.get(fault.where, fault.where)) for fault in faults]
