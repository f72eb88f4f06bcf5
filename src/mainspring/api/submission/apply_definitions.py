"""Apply jobs with their schedules in groups, and report the result of each item.

1. An item is validated as a whole before anything of it is written: one with a fault changes nothing.
2. Unchanged definitions are neither written nor validated, and have no audit entry. Each change has its own entry.
3. Changes are written MAX_GROUP items at a time, in one transaction for the jobs and one for the new schedules: 1,000
   new items written one by one would take six times as long. If a group is rejected, its items are written one by one,
   so that a bad item does not affect others.
4. An item that names the same job or schedule as another is applied after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from random import Random
from typing import TypeVar

import msgspec

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal
from mainspring.api.http.problems import problem_of
from mainspring.api.request_components import RequestComponent
from mainspring.api.services import ServerInfo
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.admission import AdmissionControl
from mainspring.api.submission.definitions import (
    ReadJob,
    faults_in,
    job_entry,
    new_job,
    new_schedule_entry,
    read_job,
    schedule_entry,
)
from mainspring.api.submission.submission import Submissions
from mainspring.core.admission.job_routing import requirements_of_spec
from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.job import JobRow
from mainspring.core.schedules.schedule_actions import check_since
from mainspring.core.schedules.schedule_json import decode_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec, check_schedule
from mainspring.host.schedules.schedule_actions import NewScheduleRequest, ScheduleActions
from mainspring.protocol.errors import Conflict, Fault, MainspringError, Refused
from mainspring.protocol.ids import entropy
from mainspring.protocol.rest.apply import AppliedSchedule, ApplyItem, ApplyItemResult
from mainspring.store.ports.schedules import ScheduleRow
from mainspring.store.ports.store import Store

MAX_GROUP = 100
CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"
_W = TypeVar("_W")
_R = TypeVar("_R")


@dataclass(slots=True, kw_only=True)
class _Schedule:
    """A schedule of an item, and its result."""

    item: _Item
    place: int
    spec: ScheduleSpec
    since: datetime | None
    paused: bool
    row: ScheduleRow | None = None
    """The existing schedule of that name."""
    change: str = ""

    @property
    def where(self) -> str:
        """Return the path of its definition in the item."""
        return f"schedules[{self.place}].definition"


@dataclass(slots=True, kw_only=True)
class _Item:
    """An item, and its result."""

    number: int
    tenant: str = ""
    name: str
    job: ReadJob | None = None
    pool: str | None = None
    """Pool of its runs."""
    schedules: list[_Schedule] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    change: str = ""
    version: int = 0
    error: MainspringError | None = None

    def refuse(self, error: MainspringError) -> None:
        """Record an error; the first one is reported."""
        self.error = self.error or error

    def view(self) -> ApplyItemResult:
        """Return the result of the item."""
        return ApplyItemResult(
            number=self.number, job=self.name, change=self.change, version=self.version,
            schedules=[
                AppliedSchedule(name=one.spec.name, id=one.row.id if one.row else None, change=one.change)
                for one in self.schedules
                if one.change
            ],
            problem=None if self.error is None else problem_of(self.error),
        )  # fmt: skip


class _JobName(msgspec.Struct, frozen=True):
    """The part of an invalid job that may still be readable."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Definitions(RequestComponent):
    """Stores the definitions of jobs and schedules that the caller sends."""

    principal: Principal
    audit: Auditor
    server: ServerInfo
    store: Store
    time: StoreTimeCache
    admission: AdmissionControl
    submissions: Submissions
    schedule_actions: ScheduleActions


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionWriter:
    """One apply request in progress."""

    definitions: Definitions
    why: str
    dry_run: bool
    random: Random = field(default_factory=lambda: Random(entropy()))

    async def put(self, requests: Sequence[ApplyItem], first: int) -> list[ApplyItemResult]:
        """Apply at most MAX_GROUP items, the first of which has this number; return their results."""
        items = await asyncio.to_thread(
            lambda: [self._read(requested, number) for number, requested in enumerate(requests, first)]
        )
        for group in _split_groups(item for item in items if item.error is None):
            try:
                await self._put_group(group)
            except MainspringError as error:
                for item in group:
                    item.refuse(error)
        return [item.view() for item in items]

    def _read(self, requested: ApplyItem, number: int) -> _Item:
        """Parse an item and collect its faults."""
        item = _Item(number=number, name=_name_of(requested))
        try:
            item.tenant = permissions.tenant_to_write(self.definitions.principal, requested.tenant)
        except MainspringError as error:
            item.refuse(error)
            return item
        with _collecting_faults(item, "job"):
            item.job = read_job(bytes(requested.job), self.definitions.server.limits)
        names: set[str] = set()
        for place, wanted in enumerate(requested.schedules):
            with _collecting_faults(item, f"schedules[{place}].definition"):
                spec = decode_schedule(bytes(wanted.definition))
                one = _Schedule(item=item, place=place, spec=spec, since=wanted.since, paused=wanted.paused)
                if item.name and spec.job != item.name:
                    item.faults.add(f"{one.where}.job", f"must be {item.name!a}, the job of the item")
                if spec.name in names:
                    item.faults.add(f"{one.where}.name", "is a duplicate")
                names.add(spec.name)
                item.schedules.append(one)
        return item

    async def _put_group(self, group: Sequence[_Item]) -> None:
        now = await self.definitions.time.now()
        await self._look_up(group)
        for item in group:
            await self._check_routing(item)
        good = [item for item in group if self._is_good(item, now)]
        if self.dry_run:
            return
        await self._put_jobs([item for item in good if item.change != UNCHANGED], now)
        await self._put_schedules([one for item in good if item.error is None for one in item.schedules])

    async def _look_up(self, group: Sequence[_Item]) -> None:
        """Read the existing definitions and determine the changes."""
        store, tenant = self.definitions.store, group[0].tenant
        names = [item.name for item in group if item.job is not None]
        jobs = {row.name: row for row in await store.latest_jobs(tenant, names)}
        wanted = [one for item in group for one in item.schedules]
        schedules = {row.name: row for row in await store.schedules_named(tenant, [one.spec.name for one in wanted])}
        for item in group:
            if item.job is not None:
                item.change, item.version = _change_of_job(item.job, jobs.get(item.name))
        for one in wanted:
            one.row = schedules.get(one.spec.name)
            one.change = _change_of_schedule(one.spec, one.row)

    async def _check_routing(self, item: _Item) -> None:
        """Check the routing of the job and the priorities of its schedules."""
        admission = self.definitions.admission
        if item.job is None or all(
            change == UNCHANGED for change in (item.change, *(s.change for s in item.schedules))
        ):
            return
        for fault in await admission.check_job(item.job.spec):
            item.faults.add(f"job.{fault.where}", fault.why)
        item.pool = (await admission.place(requirements_of_spec(item.job.spec))).pool
        for one in item.schedules:
            for fault in await admission.check_priority(one.spec.priority, item.tenant):
                item.faults.add(f"{one.where}.{fault.where}", fault.why)

    def _is_good(self, item: _Item, now: datetime) -> bool:
        """Return whether an item has no faults. One with faults is not applied."""
        for one in item.schedules:
            start = now
            if one.row is None and one.since is not None:
                with _collecting_faults(item, f"schedules[{one.place}]"):
                    start = one.since = check_since(one.since, now)
            if one.change != UNCHANGED:
                for fault in check_schedule(one.spec, start, self.definitions.server.limits):
                    item.faults.add(f"{one.where}.{fault.where}", fault.why)
        total = item.faults.total()
        if total:
            item.change, item.version, item.schedules = "", 0, []
            item.refuse(item.faults.refusal("the item has"))
        return not total

    async def _put_jobs(self, items: Sequence[_Item], now: datetime) -> None:
        for item, end in zip(items, await _write_each(items, partial(self._insert_jobs, now=now)), strict=True):
            if isinstance(end, MainspringError):
                item.change, item.version, item.schedules = "", 0, []
                item.refuse(end)
            else:
                item.version = end.version
                await self.definitions.submissions.jobs.submitted(end)

    async def _insert_jobs(self, items: Sequence[_Item], now: datetime) -> list[JobRow]:
        who = self.definitions.audit.actor
        return await self.definitions.store.insert_jobs(
            [
                (
                    new_job(item.job, tenant=item.tenant, by=who, now=now, random=self.random),
                    job_entry(self.definitions.audit, item.job, tenant=item.tenant, why=self.why),
                )
                for item in items
                if item.job is not None
            ]
        )

    async def _put_schedules(self, wanted: Sequence[_Schedule]) -> None:
        for one in wanted:
            if one.row is not None and one.change != UNCHANGED:
                await self._change_schedule(one, one.row)
        new = [one for one in wanted if one.row is None]
        for one, end in zip(new, await _write_each(new, self._insert_schedules), strict=True):
            if isinstance(end, MainspringError):
                one.change = ""
                one.item.refuse(end)
            else:
                one.row = end

    async def _change_schedule(self, wanted: _Schedule, row: ScheduleRow) -> None:
        entry = schedule_entry(self.definitions.audit, row, wanted.spec, why=self.why)
        try:
            with faults_in(wanted.where):
                await self.definitions.schedule_actions.change(
                    row.id, wanted.spec, by=self.definitions.audit.actor, why=self.why, audit=entry
                )
        except MainspringError as error:
            wanted.change = ""
            wanted.item.refuse(error)

    async def _insert_schedules(self, new: Sequence[_Schedule]) -> list[ScheduleRow]:
        tenant = new[0].item.tenant
        requests = [
            NewScheduleRequest(
                spec=one.spec,
                since=one.since,
                paused=one.paused,
                pool=one.item.pool,
                audit=new_schedule_entry(self.definitions.audit, one.spec, tenant=tenant, why=self.why),
            )
            for one in new
        ]
        return await self.definitions.schedule_actions.create_all(
            tenant, requests, by=self.definitions.audit.actor, why=self.why
        )


async def _write_each(
    requests: Sequence[_W], insert: Callable[[Sequence[_W]], Awaitable[Sequence[_R]]]
) -> list[_R | MainspringError]:
    """Write a group together, or one by one if it is rejected; return each result."""
    if not requests:
        return []
    try:
        return list(await insert(requests))
    except (Refused, Conflict) as error:
        if len(requests) == 1:
            return [error]
        return [end for requested in requests for end in await _write_each([requested], insert)]
    except MainspringError as error:
        return [error] * len(requests)


@contextmanager
def _collecting_faults(item: _Item, where: str) -> Iterator[None]:
    """Attribute faults raised in the block to a part of an item."""
    try:
        with faults_in(where):
            yield
    except Refused as refused:
        item.faults.extend(refused.faults or [Fault(where=where, why=str(refused))])


def _split_groups(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Split items into groups of one tenant, in order, without duplicate names."""
    group: list[_Item] = []
    names: set[str] = set()
    for item in items:
        own = {f"job:{item.name}", *(one.spec.name for one in item.schedules)}
        if group and (item.tenant != group[0].tenant or not names.isdisjoint(own)):
            yield group
            group, names = [], set()
        group.append(item)
        names |= own
    if group:
        yield group


def _change_of_job(job: ReadJob, known: JobRow | None) -> tuple[str, int]:
    """Return the change of a job, and its resulting version."""
    if known is None:
        return CREATED, 1
    is_same = known.definition == job.text
    if known.deleted_at is not None:
        return CREATED, known.version if is_same else known.version + 1
    return (UNCHANGED, known.version) if is_same else (UPDATED, known.version + 1)


def _change_of_schedule(spec: ScheduleSpec, known: ScheduleRow | None) -> str:
    """Return the change of a schedule."""
    if known is None:
        return CREATED
    return UNCHANGED if msgspec.json.encode(spec).decode() == known.spec else UPDATED


def _name_of(requested: ApplyItem) -> str:
    """Return the name of an item's job; empty if unreadable."""
    try:
        return msgspec.json.decode(requested.job, type=_JobName).name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
