"""What the evaluation of schedules needs from a server: new ids, job sizes, and admission."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from mainspring.core.admission.job_routing import JobRequirements, Route, p0_fault, requirements_of, route_run
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.model.job import JobRow, count_tasks
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.schedules.evaluation import Context, ScheduledRunRequest
from mainspring.protocol.errors import Fault
from mainspring.protocol.ids import entropy, new_id

_MAX_CACHED_SIZES = 10_000
_OPEN = SchedulerSettings(p0_needs_grant=0)
"""Without rules, P0 needs no grant."""


def make_context(
    default_jitter_seconds: int = 0,
    *,
    rules: Callable[[], AllRules] = AllRules,
    scheduler_settings: Callable[[], SchedulerSettings] = lambda: _OPEN,
) -> Context:
    """Create an evaluation context: new ids, cached job sizes, and admission by the current rules."""
    random = Random(entropy())
    sizes: OrderedDict[str, tuple[int, JobRequirements]] = OrderedDict()

    def size(job: JobRow) -> tuple[int, JobRequirements]:
        known = sizes.get(job.id)
        if known is None:
            known = sizes[job.id] = count_tasks(job), requirements_of(job)
            if len(sizes) > _MAX_CACHED_SIZES:
                sizes.popitem(last=False)
        return known

    def admit(request: ScheduledRunRequest) -> Route:
        place = route_run(size(request.job)[1], request.pool, rules())
        fault = p0_fault(
            request.priority, request.tenant, rules(), request.at, needed=bool(scheduler_settings().p0_needs_grant)
        )
        refused = () if fault is None else (Fault(where="priority", why=fault),)
        return replace(place, faults=(*place.faults, *refused))

    return Context(
        new_run_id=lambda now: new_id("run", now, random),
        count_tasks=lambda job: size(job)[0],
        admit=admit,
        default_jitter_seconds=default_jitter_seconds,
    )
