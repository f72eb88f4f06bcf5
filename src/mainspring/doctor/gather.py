"""Collect the facts of a server. A fact that can't be read becomes a fault among the facts, not an error.

Raises only if nothing can be read at all: no answer (Unreachable), or no valid credentials (Unauthenticated).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import msgspec

from mainspring import __version__
from mainspring.client.client import Client
from mainspring.client.responses import requested_delay
from mainspring.doctor.facts import REASONS, Facts, JobFacts, LateJob, PoolFacts, TenantFacts
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import MainspringError, NotFound, Overloaded, Unauthenticated, Unreachable
from mainspring.protocol.rest.diagnosis import DiagnosisView
from mainspring.protocol.rest.overviews import ServerHealthView
from mainspring.protocol.rest.runs import RunView

T = TypeVar("T")

_MAX_POOLS = 20
_MAX_WORKERS = 5_000
_MAX_LISTED = 500
_MAX_JOBS = 10
_MAX_TASKS = 50
_MAX_DIAGNOSED = 5
_MIN_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 2.0
_STORE_FACTS = ("workers", "freezes", "schedules", "upcoming", "alerts", "breakers", "runs")
_LATE_WITHIN = timedelta(days=1)


def gather(
    client: Client, clock: SystemClock, pool: str | None, advance: Callable[[int], None] = lambda done: None
) -> Facts:
    """Collect the facts of one pool or of all, and of the client's tenant if it has one."""
    return _Gatherer(client, clock, advance).all(pool)


class _Gatherer:
    """One collection of facts."""

    def __init__(self, client: Client, clock: SystemClock, advance: Callable[[int], None]) -> None:
        self._client = client
        self._clock = clock
        self._advance = advance
        self._done = 0
        self._faults: dict[str, str] = {}

    def all(self, pool: str | None) -> Facts:
        """Collect all facts. Raises Unreachable, Unauthenticated, or NotFound if there is no such pool."""
        client = self._client
        began = self._clock.monotonic()
        server_health = self._first()
        took, at = self._clock.monotonic() - began, self._clock.wall()
        if server_health is not None and server_health.store_seconds is None:
            return self._without_store(server_health, took, at)
        names = self._pools(server_health)
        if pool is not None:
            if names and pool not in names:
                raise NotFound(f"there is no pool {pool}")
            names = [pool]
        pools = [self._pool(name) for name in names[:_MAX_POOLS]]
        runs = self._list("runs", lambda: client.runs(limit=_MAX_LISTED))
        return Facts(
            url=client.url,
            at=at,
            version=__version__,
            took_seconds=took,
            server_health=server_health,
            level=self._one("level", lambda: client.level(pool)),
            pools=pools,
            pools_skipped=max(0, len(names) - _MAX_POOLS),
            workers=self._list("workers", lambda: client.workers(limit=_MAX_WORKERS)),
            freezes=self._list("freezes", lambda: client.freezes(limit=_MAX_LISTED)),
            schedules=self._list("schedules", lambda: client.schedules(limit=_MAX_LISTED)),
            upcoming=self._list(
                "upcoming", lambda: client.upcoming(first_only=True, with_last=True, limit=_MAX_LISTED)
            ),
            alerts=self._list("alerts", lambda: client.alerts(limit=_MAX_LISTED)),
            breakers=self._list("breakers", client.breakers),
            late=late_jobs(runs, at),
            tenant=None if client.tenant is None else self._tenant(client.tenant, [one.name for one in pools], runs),
            faults=self._faults,
        )

    def _without_store(self, server_health: ServerHealthView, took: float, at: datetime) -> Facts:
        """Return the facts that need no store; requests for the others would only time out."""
        level = self._one("level", self._client.level)
        faults = dict.fromkeys(_STORE_FACTS, "its store does not answer")
        return Facts(
            url=self._client.url, at=at, version=__version__, took_seconds=took, server_health=server_health,
            level=level,
            faults={**faults, **self._faults},
        )  # fmt: skip

    def _first(self) -> ServerHealthView | None:
        """Send the first request. Raises Unreachable or Unauthenticated; other errors become faults."""
        try:
            return self._client.server_health()
        except (Unreachable, Unauthenticated):
            raise
        except MainspringError as error:
            self._faults["server_health"] = _message(error)
            return None
        finally:
            self._step()

    def _pools(self, server_health: ServerHealthView | None) -> list[str]:
        if server_health is not None and server_health.leases:
            return [lease.pool for lease in server_health.leases]
        return [one.name for one in self._list("pools", lambda: self._client.pools(limit=_MAX_LISTED))]

    def _pool(self, name: str) -> PoolFacts:
        queue = self._one(f"pool {name}", lambda: self._client.queue(name))
        # A leader that does not answer is not asked twice: the second request would time out as well.
        sums = None if queue is None else self._one(REASONS, lambda: self._client.queue_reasons(name))
        reasons = [] if sums is None else sums.reasons
        return PoolFacts(name=name, queue=queue, reasons=reasons, fault=self._faults.get(f"pool {name}", ""))

    def _tenant(self, name: str, pools: list[str], runs: list[RunView]) -> TenantFacts:
        client = self._client
        uses = [self._one("use", partial(client.tenant_use, name, pool)) for pool in pools]
        all_uses = [use for pool in pools for use in self._list("use", partial(client.use, pool))]
        jobs = list(dict.fromkeys(run.job for run in runs))[:_MAX_JOBS]
        of_run = {run.id: run.job for run in runs}
        running = self._list("tasks", lambda: client.tasks(states=["RUNNING"], limit=_MAX_TASKS))
        return TenantFacts(
            name=name,
            uses=[use for use in uses if use is not None],
            others=[use for use in all_uses if use.tenant != name],
            jobs=[self._job(job) for job in jobs],
            waiting=self._diagnoses(),
            running=[(of_run[task.run_id], task) for task in running if task.run_id in of_run],
            timed_out=self._list("tasks", lambda: client.tasks(states=["TIMED_OUT"], limit=_MAX_TASKS)),
            dead=self._list("dead letters", lambda: client.dead_letters(limit=_MAX_TASKS)),
        )

    def _diagnoses(self) -> list[DiagnosisView]:
        """Diagnose the tasks of the client's tenant that have waited longest."""
        queued = self._list("tasks", lambda: self._client.tasks(states=["QUEUED"], limit=_MAX_LISTED))
        oldest = heapq.nsmallest(_MAX_DIAGNOSED, queued, key=lambda task: task.since)
        found = [self._one("diagnoses", partial(self._client.diagnosis, "tasks", task.id)) for task in oldest]
        return [one for one in found if one is not None]

    def _job(self, name: str) -> JobFacts:
        view = self._one("jobs", lambda: self._client.job(name))
        limits = {} if view is None or not isinstance(view.definition, msgspec.Raw) else _limits(view.definition)
        return JobFacts(name=name, limits=limits, durations=self._list("jobs", lambda: self._client.durations(name)))

    def _list(self, what: str, gather: Callable[[], Iterable[T]]) -> list[T]:
        """Return a list; an empty one, and a fault, if it can't be read."""
        return list(self._one(what, lambda: list(gather())) or ())

    def _one(self, what: str, gather: Callable[[], T]) -> T | None:
        """Return a value; None, and a fault, if it can't be read."""
        try:
            return self._with_retry(gather)
        except MainspringError as error:
            self._faults[what] = _message(error)
            return None
        finally:
            self._step()

    def _with_retry(self, gather: Callable[[], T]) -> T:
        """Send a request, and once more if it was rate limited."""
        try:
            return gather()
        except Overloaded as error:
            self._clock.pause(max(_MIN_PAUSE_SECONDS, min(_MAX_PAUSE_SECONDS, requested_delay(error))))
            return gather()

    def _step(self) -> None:
        self._done += 1
        self._advance(self._done)


def late_jobs(runs: Iterable[RunView], now: datetime) -> list[LateJob]:
    """Return the start delays of each job's recent runs, worst first.

    A run with a deadline is late if it missed it; any other by its start delay.
    """
    by_job: dict[tuple[str, str], list[RunView]] = defaultdict(list)
    for run in runs:
        if run.started_at is not None and run.start_at > now - _LATE_WITHIN:
            by_job[run.tenant, run.job].append(run)
    found = [_late_job(tenant, job, many, now) for (tenant, job), many in by_job.items()]
    return sorted(found, key=lambda one: (-one.missed, -one.p95_seconds))


def _late_job(tenant: str, job: str, runs: list[RunView], now: datetime) -> LateJob:
    promised = [(run.finish_by, run.ended_at or now) for run in runs if run.finish_by is not None]
    delays = sorted(
        (run.started_at - run.start_at).total_seconds()
        for run in runs
        if run.finish_by is None and run.started_at is not None
    )
    return LateJob(
        tenant=tenant,
        job=job,
        runs=len(runs),
        p95_seconds=delays[int(0.95 * (len(delays) - 1))] if delays else 0.0,
        promised=len(promised),
        missed=sum(done > by for by, done in promised),
    )


class _LimitedTask(msgspec.Struct):
    name: str
    timeout_seconds: float | None = None


class _LimitedJob(msgspec.Struct):
    tasks: list[_LimitedTask] = []


def _limits(definition: msgspec.Raw) -> dict[str, float]:
    """Return the timeouts in a job definition; none if it is of an unknown version."""
    try:
        job = msgspec.json.decode(definition, type=_LimitedJob)
    except msgspec.DecodeError:
        return {}
    return {task.name: task.timeout_seconds for task in job.tasks if task.timeout_seconds is not None}


def _message(error: MainspringError) -> str:
    return str(error).partition("\n")[0]
