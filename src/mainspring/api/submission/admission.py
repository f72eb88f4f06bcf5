"""Admission of validated submissions: routing to a pool (ADM-8), permission for P0 (ADM-3), and backpressure
(ADM-6, HA-5). Rate limits are in `api/submission/rate_limits.py`.

    checks       Refused: with all faults; permanent until a rule changes
    admission    Overloaded (429) while the backlog is too long, Closed (503) while nothing can run, with Retry-After
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.rate_limits import RateCharge, RateLimiter
from mainspring.core.admission import job_routing
from mainspring.core.admission.backpressure import VerdictKind, slowed_rate_request
from mainspring.core.admission.job_routing import JobRequirements, Route
from mainspring.core.model.job import JobSpec
from mainspring.core.model.task import Priority
from mainspring.host.config.settings import Settings
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.host.degradation import DegradationMonitor
from mainspring.protocol.errors import Closed, Fault, Overloaded
from mainspring.store.ports.store import Store
from mainspring.telemetry.metrics import Metrics, RefusalReason


@dataclass(frozen=True, slots=True)
class AdmissionControl:
    """Admits submissions."""

    store: Store
    time: StoreTimeCache
    rules: SharingRulesCache
    settings: Settings
    degradation: DegradationMonitor
    rate_limiter: RateLimiter
    metrics: Metrics
    default_pool: str

    async def place(self, needs: JobRequirements) -> Route:
        """Route a run of a job to a pool, or return why no pool qualifies."""
        rules = await self.rules.known()
        return job_routing.route_run(needs, self.default_pool, rules, await self._pools(needs.pool))

    async def check_job(self, spec: JobSpec) -> list[Fault]:
        """Return the faults of a job that no pool can run."""
        rules = await self.rules.known()
        return job_routing.check_job_route(spec, self.default_pool, rules, await self._pools(spec.pool))

    async def check_priority(self, priority: Priority | None, tenant: str) -> list[Fault]:
        """Return why a tenant may not use a priority."""
        if priority is not Priority.P0:
            return []
        rules, now = await self.rules.known(), await self.time.now()
        needed = bool(self.settings.scheduler_settings.p0_needs_grant)
        fault = job_routing.p0_fault(priority, tenant, rules, now, needed=needed)
        return [] if fault is None else [Fault(where="priority", why=fault)]

    def part(self, needs: JobRequirements | None, priority: Priority) -> float:
        """Return the factor on rate limits for runs of a job; None: of a job that is not cached here.

        Where nothing is accepted, requests pass, and `admit` rejects them with the reason.
        """
        pool = self.default_pool
        if needs is not None:
            pool = job_routing.route_run(needs, pool, self.rules.now).pool
        return self.degradation.part(pool, priority) or 1.0

    async def admit(self, pool: str, priority: Priority, by: str) -> None:
        """Admit one more run to a pool. Raises Overloaded or Closed."""
        verdict = self.degradation.verdict(pool, priority)
        if verdict.kind is VerdictKind.CLOSED:
            self.metrics.refused(RefusalReason.CLOSED)
            raise Closed(verdict.why, retry_after_seconds=verdict.retry_after_seconds)
        if verdict.kind is VerdictKind.SHED:
            self.metrics.refused(RefusalReason.SHED)
            raise Overloaded(verdict.why, retry_after_seconds=verdict.retry_after_seconds)
        if verdict.kind is VerdictKind.SLOWED:
            slow_limit = slowed_rate_request(pool, self.settings.scheduler_settings)
            with counted(self.metrics, RefusalReason.SHED):
                await self.rate_limiter.admit(by, [RateCharge(slow_limit.limit, slow_limit.most)])

    async def _pools(self, wanted: str | None) -> Collection[str]:
        """Return the known pools; the store is read only if the wanted one is unknown."""
        known = {self.default_pool, *(row.name for row in self.rules.now.pools), *self.degradation.pools()}
        if wanted is not None and wanted not in known:
            known |= {row.id for row in await self.store.shards()}
        return known


@contextmanager
def counted(metrics: Metrics, reason: RefusalReason) -> Iterator[None]:
    """Count a rejected submission in the metrics."""
    try:
        yield
    except Overloaded:
        metrics.refused(reason)
        raise
