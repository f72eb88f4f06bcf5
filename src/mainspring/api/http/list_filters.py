"""Convert list parameters to store filters: `?q=` (filters.py) and plain parameters, combined with AND.

Tenant visibility is checked here for both: a tenant in a filter obeys the same rule as one in a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from mainspring.api.auth import permissions
from mainspring.api.services import Principal, Services
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.core.query.filters import LONGEST_FILTER, Listed, Wanted, read_filter
from mainspring.protocol.errors import Fault, Refused
from mainspring.protocol.rest.runs import Count
from mainspring.store.ports.front import RunFilter, TaskFilter

Query = Annotated[str, msgspec.Meta(max_length=LONGEST_FILTER)]
Counting = Literal["exact", "bounded"]
PriorityName = Literal["P0", "P1", "P2"]

_MOST_COUNTED: dict[Counting, int] = {"bounded": 10_000, "exact": 2**53}
_IN_QUERY = "query:q"


async def wanted_of(
    services: Services,
    principal: Principal,
    listed: Listed,
    q: str,
    *,
    where: str = _IN_QUERY,
    tenant: str | None = None,
    job: str | None = None,
    run: str | None = None,
    task: str | None = None,
    worker: str | None = None,
    name: str | None = None,
    priority: PriorityName | None = None,
    states: Sequence[RunState | TaskState] | None = None,
) -> Wanted:
    """Combine a filter with parameters; the tenant is the one to list. Raises Refused, or Forbidden."""
    said = read_filter(q, listed, now=await services.time.now(), where=where)
    beside = {
        "tenant": tenant,
        "job": job,
        "run": run,
        "task": task,
        "worker": worker,
        "name": name,
        "priority": None if priority is None else Priority[priority],
        "states": tuple(state.value for state in states or ()),
    }
    given = {field: value for field, value in beside.items() if value not in {None, ()}}
    faults = [
        Fault(where=where, why=f"contradicts the parameter {field}")
        for field, value in given.items()
        if getattr(said, field) not in {None, (), value}
    ]
    if faults:
        raise Refused(f"the request has {len(faults)} fault{'s' if len(faults) > 1 else ''}", faults)
    both = msgspec.structs.replace(said, **given)
    return msgspec.structs.replace(both, tenant=permissions.tenant_to_look_at(principal, both.tenant))


async def run_filter(services: Services, principal: Principal, wanted: Wanted, where: str = _IN_QUERY) -> RunFilter:
    """Return the store's filter for runs. Raises Refused if there is no such schedule."""
    return RunFilter(
        tenant=wanted.tenant,
        job=wanted.job,
        labels=wanted.labels,
        states=tuple(map(RunState, wanted.states)),
        priority=wanted.priority,
        schedule_id=await _schedule_id(services, principal, wanted, where),
        created_since=wanted.created_since,
        created_before=wanted.created_before,
    )


def task_filter(wanted: Wanted) -> TaskFilter:
    """Return the store's filter for tasks."""
    return TaskFilter(
        tenant=wanted.tenant,
        run_id=wanted.run,
        states=tuple(map(TaskState, wanted.states)),
        worker=wanted.worker,
        name=wanted.name,
        priority=wanted.priority,
        since_before=wanted.since_before,
    )


async def count_runs(services: Services, wanted: RunFilter, how: Counting | None) -> Count | None:
    """Count the matches, if requested."""
    return None if how is None else counted(await services.store.count_runs(wanted, _MOST_COUNTED[how]), how)


async def count_tasks(services: Services, wanted: TaskFilter, how: Counting | None) -> Count | None:
    """Count the matches, if requested."""
    return None if how is None else counted(await services.store.count_tasks(wanted, _MOST_COUNTED[how]), how)


def counted(found: int, how: Counting | None) -> Count | None:
    """Return a count, capped in bounded mode; None if not requested."""
    if how is None:
        return None
    most = _MOST_COUNTED[how]
    return Count(value=min(found, most), at_least=found >= most)


async def _schedule_id(services: Services, principal: Principal, wanted: Wanted, where: str) -> str | None:
    if wanted.schedule is None:
        return None
    tenant = permissions.tenant_to_act_for(principal, wanted.tenant)
    row = await services.store.find_schedule(tenant, wanted.schedule)
    if row is None or not principal.sees(row.tenant):
        why = f"there is no schedule {wanted.schedule[:200]!a} of {tenant}"
        raise Refused("the filter has 1 fault", [Fault(where=where, why=why)])
    return row.id
