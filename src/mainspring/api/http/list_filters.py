"""Convert list parameters to store filters: `?q=` (filters.py) and plain parameters, combined with AND.

Tenant visibility is checked here for both: a tenant in a filter obeys the same rule as one in a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal
from mainspring.api.http.problems import refuse
from mainspring.api.request_components import RequestComponent
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.views.view_of import view_of
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.core.query.filters import MAX_FILTER_LENGTH, Filter, ListKind, read_filter
from mainspring.protocol.errors import Fault, Refused
from mainspring.protocol.rest.runs import Count
from mainspring.store.ports.front import RunFilter, TaskFilter
from mainspring.store.ports.store import Store

Query = Annotated[str, msgspec.Meta(max_length=MAX_FILTER_LENGTH)]
CountMode = Literal["exact", "bounded"]
PriorityName = Literal["P0", "P1", "P2"]

_MAX_COUNTED: dict[CountMode, int] = {"bounded": 10_000, "exact": 2**53}
_IN_QUERY = "query:q"


@dataclass(frozen=True, slots=True)
class ListFilters(RequestComponent):
    """Filters of lists, within what the caller may see."""

    principal: Principal
    store: Store
    time: StoreTimeCache

    async def parse(
        self,
        listed: ListKind,
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
    ) -> Filter:
        """Combine a filter with parameters; the tenant is the one to list. Raises Refused, or Forbidden."""
        parsed = read_filter(q, listed, now=await self.time.now(), where=where)
        parameters = {
            "tenant": tenant,
            "job": job,
            "run": run,
            "task": task,
            "worker": worker,
            "name": name,
            "priority": None if priority is None else Priority[priority],
            "states": tuple(state.value for state in states or ()),
        }
        given = {field: value for field, value in parameters.items() if value not in {None, ()}}
        faults = [
            Fault(where=where, why=f"contradicts the parameter {field}")
            for field, value in given.items()
            if getattr(parsed, field) not in {None, (), value}
        ]
        refuse("the request", faults)
        merged = msgspec.structs.replace(parsed, **given)
        return msgspec.structs.replace(merged, tenant=permissions.tenant_to_read(self.principal, merged.tenant))

    async def for_runs(self, wanted: Filter, where: str = _IN_QUERY) -> RunFilter:
        """Return the store's filter for runs. Raises Refused if there is no such schedule."""
        schedule_id = await self._schedule_id(wanted, where)
        return view_of(RunFilter, wanted, states=tuple(map(RunState, wanted.states)), schedule_id=schedule_id)

    async def count_runs(self, wanted: RunFilter, mode: CountMode | None) -> Count | None:
        """Count the matches, if requested."""
        return None if mode is None else counted(await self.store.count_runs(wanted, _MAX_COUNTED[mode]), mode)

    async def count_tasks(self, wanted: TaskFilter, mode: CountMode | None) -> Count | None:
        """Count the matches, if requested."""
        return None if mode is None else counted(await self.store.count_tasks(wanted, _MAX_COUNTED[mode]), mode)

    async def _schedule_id(self, wanted: Filter, where: str) -> str | None:
        if wanted.schedule is None:
            return None
        tenant = permissions.tenant_to_write(self.principal, wanted.tenant)
        row = await self.store.find_schedule(tenant, wanted.schedule)
        if row is None or not self.principal.sees(row.tenant):
            why = f"there is no schedule {wanted.schedule[:200]!a} of {tenant}"
            raise Refused("the filter has 1 fault", [Fault(where=where, why=why)])
        return row.id


def task_filter(wanted: Filter) -> TaskFilter:
    """Return the store's filter for tasks."""
    return view_of(TaskFilter, wanted, run_id=wanted.run, states=tuple(map(TaskState, wanted.states)))


def counted(found: int, mode: CountMode | None) -> Count | None:
    """Return a count, capped in bounded mode; None if not requested."""
    if mode is None:
        return None
    most = _MAX_COUNTED[mode]
    return Count(value=min(found, most), at_least=found >= most)
