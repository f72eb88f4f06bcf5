"""Admission of validated submissions: routing to a pool (ADM-8), permission for P0 (ADM-3), and backpressure
(ADM-6, HA-5). Rate limits are in `api/submission/rate_limits.py`.

    checks       Refused: with all faults; permanent until a rule changes
    admission    Overloaded (429) while the backlog is too long, Closed (503) while nothing can run, with Retry-After
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from mainspring.api.store_time import AskedTime
from mainspring.api.submission.rate_limits import Rates, Use
from mainspring.core.admission import job_routing
from mainspring.core.admission.backpressure import Fate, slowed_wish
from mainspring.core.admission.job_routing import JobNeeds, Place
from mainspring.core.model.job import JobSpec
from mainspring.core.model.task import Priority
from mainspring.host.config.settings import Settings
from mainspring.host.config.sharing_rules import FollowedRules
from mainspring.host.degradation import Levels
from mainspring.protocol.errors import Closed, Fault, Overloaded, Refused
from mainspring.store.ports.store import Store
from mainspring.telemetry.metrics import Metrics, Refusal


class Deciders(Protocol):
    """The services that decide. Each may be replaced during startup."""

    store: Store
    pool: str
    time: AskedTime
    rules: FollowedRules
    settings: Settings
    levels: Levels
    rates: Rates
    metrics: Metrics


class Gate:
    """Admits submissions."""

    def __init__(self, deciders: Deciders) -> None:
        self._ask = deciders

    async def place(self, needs: JobNeeds) -> Place:
        """Route a run of a job to a pool, or return why no pool qualifies."""
        rules = await self._ask.rules.known()
        return job_routing.place_run(needs, self._ask.pool, rules, await self._pools(needs.pool))

    async def check_job(self, spec: JobSpec) -> list[Fault]:
        """Return the faults of a job that no pool can run."""
        rules = await self._ask.rules.known()
        return job_routing.check_job_place(spec, self._ask.pool, rules, await self._pools(spec.pool))

    async def check_priority(self, priority: Priority | None, tenant: str) -> list[Fault]:
        """Return why a tenant may not use a priority."""
        if priority is not Priority.P0:
            return []
        rules, now = await self._ask.rules.known(), await self._ask.time.now()
        needed = bool(self._ask.settings.tuning.p0_needs_grant)
        fault = job_routing.p0_fault(priority, tenant, rules, now, needed=needed)
        return [] if fault is None else [Fault(where="priority", why=fault)]

    def part(self, needs: JobNeeds | None, priority: Priority) -> float:
        """Return the factor on rate limits for runs of a job; None: of a job that is not cached here.

        Where nothing is accepted, requests pass, and `let_in` rejects them with the reason.
        """
        usual, rules = self._ask.pool, self._ask.rules.now
        pool = usual if needs is None else job_routing.place_run(needs, usual, rules).pool
        return self._ask.levels.part(pool, priority) or 1.0

    async def let_in(self, pool: str, priority: Priority, by: str) -> None:
        """Admit one more run to a pool. Raises Overloaded or Closed."""
        verdict = self._ask.levels.verdict(pool, priority)
        if verdict.fate is Fate.CLOSED:
            self._ask.metrics.refused(Refusal.CLOSED)
            raise Closed(verdict.why, retry_after_seconds=verdict.retry_after_seconds)
        if verdict.fate is Fate.SHED:
            self._ask.metrics.refused(Refusal.SHED)
            raise Overloaded(verdict.why, retry_after_seconds=verdict.retry_after_seconds)
        if verdict.fate is Fate.SLOWED:
            wish = slowed_wish(pool, self._ask.settings.tuning)
            with counted(self._ask.metrics, Refusal.SHED):
                await self._ask.rates.admit(by, [Use(wish.limit, wish.most)])

    async def _pools(self, wanted: str | None) -> Collection[str]:
        """Return the known pools; the store is read only if the wanted one is unknown."""
        known = {self._ask.pool, *(row.name for row in self._ask.rules.now.pools), *self._ask.levels.pools()}
        if wanted is not None and wanted not in known:
            known |= {row.id for row in await self._ask.store.shards()}
        return known


@contextmanager
def counted(metrics: Metrics, reason: Refusal) -> Iterator[None]:
    """Count a rejected submission in the metrics."""
    try:
        yield
    except Overloaded:
        metrics.refused(reason)
        raise


def refuse(summary: str, faults: Collection[Fault]) -> None:
    """Raise Refused if there are faults."""
    if faults:
        raise Refused(f"{summary} has {len(faults)} fault{'s' if len(faults) > 1 else ''}", list(faults))
