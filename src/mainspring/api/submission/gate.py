"""What a submission has to pass, once it is known what it says: where it goes (ADM-8), whether it may be P0 (ADM-3),
and whether its pool takes anything new now (ADM-6, HA-5). How often somebody may come is
`api/submission/rate_limits.py`.

    checked      Refused: with every fault, the same until somebody changes a rule
    let in       Overloaded (429) while too much waits, Closed (503) while nobody could take it, with when to come again
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
    """What is asked. Each may be replaced by another while everything is built."""

    store: Store
    pool: str
    time: AskedTime
    rules: FollowedRules
    settings: Settings
    levels: Levels
    rates: Rates
    metrics: Metrics


class Gate:
    """Lets submissions in."""

    def __init__(self, deciders: Deciders) -> None:
        self._ask = deciders

    async def place(self, needs: JobNeeds) -> Place:
        """Where a run of a job goes, or why it can't go anywhere."""
        rules = await self._ask.rules.known()
        return job_routing.place_run(needs, self._ask.pool, rules, await self._pools(needs.pool))

    async def check_job(self, spec: JobSpec) -> list[Fault]:
        """Why no run of a job could go anywhere."""
        rules = await self._ask.rules.known()
        return job_routing.check_job_place(spec, self._ask.pool, rules, await self._pools(spec.pool))

    async def check_priority(self, priority: Priority | None, tenant: str) -> list[Fault]:
        """Why a tenant may not ask for a priority."""
        if priority is not Priority.P0:
            return []
        rules, now = await self._ask.rules.known(), await self._ask.time.now()
        needed = bool(self._ask.settings.tuning.p0_needs_grant)
        fault = job_routing.p0_fault(priority, tenant, rules, now, needed=needed)
        return [] if fault is None else [Fault(where="priority", why=fault)]

    def part(self, needs: JobNeeds | None, priority: Priority) -> float:
        """The part of the usual rates at which runs of a job are taken; None: of one that is not known here.

        Where nothing is taken all may come, and hear so from `let_in`.
        """
        usual, rules = self._ask.pool, self._ask.rules.now
        pool = usual if needs is None else job_routing.place_run(needs, usual, rules).pool
        return self._ask.levels.part(pool, priority) or 1.0

    async def let_in(self, pool: str, priority: Priority, by: str) -> None:
        """Whether a pool takes one more run now. Raises Overloaded or Closed."""
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
        """The pools that there are, as far as it matters for one that is named."""
        known = {self._ask.pool, *(row.name for row in self._ask.rules.now.pools), *self._ask.levels.pools()}
        if wanted is not None and wanted not in known:
            known |= {row.id for row in await self._ask.store.shards()}
        return known


@contextmanager
def counted(metrics: Metrics, reason: Refusal) -> Iterator[None]:
    """Count a submission that is not let in."""
    try:
        yield
    except Overloaded:
        metrics.refused(reason)
        raise


def refuse(summary: str, faults: Collection[Fault]) -> None:
    """Raises Refused if there is a fault."""
    if faults:
        raise Refused(f"{summary} has {len(faults)} fault{'s' if len(faults) > 1 else ''}", list(faults))
