"""A scenario: workers, tenants, their loads, and failures.

Times are seconds from the begin of the measured period; the `warm_up` before it is simulated and not counted. Workers,
tenants and loads are spread over the pools: a pool has workers of every zone, and tenants that follow each other, so
that it has some of each weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from mainspring.core.model.resources import Resources
from mainspring.core.model.settings import SchedulerSettings, read_values, scheduler_settings_of
from mainspring.core.model.task import Priority
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault, Refused
from mainspring.simulation.capacity.duration_model import DurationSpec

MAX_WORKERS = 1_000_000
MAX_TASKS = 200_000_000
"""Of a scenario in total: more would take days."""
MIN_TENANTS = 10
"""Minimum number of tenants after scaling down, if there are as many."""

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Part = Annotated[float, Meta(ge=0, le=1)]


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A type of worker."""

    share: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    """Its number relative to the other types."""
    cpu: Annotated[int, Meta(ge=1, le=10**8)]
    """Thousandths of a core."""
    memory: Annotated[int, Meta(ge=1, le=2**53)]
    gpus: Annotated[int, Meta(ge=0, le=10**5)] = 0


class Workers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The workers."""

    count: Annotated[int, Meta(ge=1, le=MAX_WORKERS)]
    zones: Annotated[int, Meta(ge=1, le=1_000)] = 1
    pools: Annotated[int, Meta(ge=1, le=10_000)] = 1
    machines: Annotated[tuple[Machine, ...], Meta(min_length=1, max_length=100)]


class Tenants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tenants that share the workers."""

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1
    weights: Annotated[tuple[Annotated[float, Meta(gt=0, le=1_000)], ...], Meta(min_length=1, max_length=10_000)] = (
        1.0,
    )
    """Weights of the tenants, repeated as needed."""
    guaranteed: Part = 0.0
    """Fraction of a tenant's part by weight that is guaranteed to it in its pool."""
    skew: Annotated[float, Meta(ge=0, le=3)] = 0.0
    """With 0 all tenants submit equally; otherwise the first ones submit more: 1/n to this power."""


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Latencies of the parts of the scheduler that are not simulated."""

    commit: Seconds = 0.004
    """For each commit."""
    row: Seconds = 0.00001
    """For each row, decided and written."""
    read: Seconds = 0.003
    """For a read of intake."""
    link: Seconds = 0.002
    """For a message between server and worker."""


class JobKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: one task, a graph in stages, or a fan-out."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    priority: str = "P2"
    cpu: Annotated[int, Meta(ge=0, le=10**8)] = 1_000
    memory: Annotated[int, Meta(ge=0, le=2**53)] = 256 << 20
    takes: DurationSpec
    fails: Part = 0.0
    """Fraction of attempts that fail, each with an error of its own."""
    stages: Annotated[tuple[Annotated[int, Meta(ge=1, le=1_000)], ...], Meta(min_length=1, max_length=100)] = (1,)
    """Number of tasks in each stage; each needs all of the previous stage."""
    fan_out: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """Length of the list: one task returns it, one task per item follows, then one task for all."""

    @property
    def level(self) -> Priority:
        """Its priority."""
        return Priority[self.priority]

    @property
    def resources(self) -> Resources:
        """Resource request of each task."""
        return Resources(cpu_millis=self.cpu, memory_bytes=self.memory)

    def tasks(self) -> int:
        """Total number of tasks of a run."""
        return self.fan_out + 2 if self.fan_out else sum(self.stages)


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of a job: a rate, or a number within a period."""

    job: str
    per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    standing: bool = True
    """Start with as many running tasks as if the load had always been there. Only for single tasks."""
    runs: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    at: Seconds = 0.0
    within: Seconds = 0.0
    tenant: Annotated[int, Meta(ge=1)] | None = None
    """The tenant that submits all of it, from 1; None: all tenants."""


class ZoneLost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All workers of a zone go silent, and have lost their state when they return."""

    zone: Annotated[int, Meta(ge=1)]
    at: Seconds
    back_after: Seconds | None = None


class Outage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An outage of a dependency: running tasks of these jobs fail, and those that start meanwhile, with one error."""

    jobs: Annotated[tuple[str, ...], Meta(min_length=1)]
    at: Seconds
    lasts: Seconds
    fails_after: Seconds = 1.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole scenario."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    about: str = ""
    lasts: Annotated[float, Meta(gt=0, le=86_400)]
    warm_up: Seconds = 0.0
    workers: Workers
    tenants: Tenants = Tenants()
    host: Host = Host()
    jobs: Annotated[tuple[JobKind, ...], Meta(min_length=1, max_length=1_000)]
    loads: Annotated[tuple[Load, ...], Meta(min_length=1, max_length=1_000)]
    zones_lost: tuple[ZoneLost, ...] = ()
    outages: tuple[Outage, ...] = ()
    settings: dict[str, str] = {}
    """Settings of the server, by name (docs/reference/settings.md)."""

    def scheduler_settings(self) -> SchedulerSettings:
        """Settings of the shards. Raises Refused."""
        return scheduler_settings_of(read_values(self.settings))

    def kind(self, name: str) -> JobKind:
        """The job with this name."""
        return next(job for job in self.jobs if job.name == name)

    def weight(self, tenant: int) -> float:
        """The weight of tenant `tenant`, from 0."""
        return self.tenants.weights[tenant % len(self.tenants.weights)]

    def parts(self) -> list[float]:
        """Fraction of the loads of each tenant."""
        wants = [1 / (one + 1) ** self.tenants.skew for one in range(self.tenants.count)]
        return [want / sum(wants) for want in wants]

    def tenants_of(self, pool: int) -> range:
        """The tenants of a pool, from 0."""
        count, pools = self.tenants.count, self.workers.pools
        return range(pool * count // pools, (pool + 1) * count // pools)


def tenant_name(tenant: int) -> str:
    """Name of a tenant, from 0."""
    return f"tenant-{tenant + 1:03d}"


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Scale workers and loads by a factor; the size of a pool stays about the same."""
    if factor == 1:
        return scenario
    workers, tenants = scenario.workers, scenario.tenants
    worker_count = max(workers.zones, round(workers.count * factor))
    pools = min(max(1, round(workers.pools * factor)), worker_count)
    tenant_count = max(min(tenants.count, MIN_TENANTS), pools, round(tenants.count * factor))
    return replace(
        scenario,
        workers=replace(workers, count=worker_count, pools=pools),
        tenants=replace(tenants, count=tenant_count),
        jobs=tuple(_scaled_job(job, factor) for job in scenario.jobs),
        loads=tuple(_scaled_load(load, scenario.kind(load.job), factor, tenant_count) for load in scenario.loads),
    )


def faults_of(scenario: Scenario) -> Iterator[Fault]:
    """Inconsistencies, each with its path."""
    names = [job.name for job in scenario.jobs]
    for number, job in enumerate(scenario.jobs):
        yield from _faults_of_job(job, f"jobs[{number}]", is_first=names.index(job.name) == number)
    for number, load in enumerate(scenario.loads):
        yield from _faults_of_load(load, f"loads[{number}]", names, scenario)
    for number, lost in enumerate(scenario.zones_lost):
        if lost.zone > scenario.workers.zones:
            yield Fault(where=f"zones_lost[{number}].zone", why=f"must be at most {scenario.workers.zones}")
    for number, outage in enumerate(scenario.outages):
        for name in set(outage.jobs) - set(names):
            yield _no_job(f"outages[{number}].jobs", name, names)
    if scenario.workers.pools > scenario.workers.count:
        yield Fault(where="workers.pools", why=f"must be at most {scenario.workers.count}: each has a worker")
    if scenario.workers.pools > scenario.tenants.count:
        yield Fault(where="workers.pools", why=f"must be at most {scenario.tenants.count}: each has a tenant")
    try:
        scenario.scheduler_settings()
    except Refused as refused:
        for fault in refused.faults:
            yield Fault(where=f"settings.{fault.where}", why=fault.why)


def count_tasks(scenario: Scenario) -> float:
    """Estimate the number of submitted tasks."""
    seconds = scenario.lasts + scenario.warm_up
    return sum(
        (load.runs if load.runs is not None else (load.per_second or 0) * seconds) * scenario.kind(load.job).tasks()
        for load in scenario.loads
    )


def _scaled_job(job: JobKind, factor: float) -> JobKind:
    return replace(job, fan_out=max(1, round(job.fan_out * factor))) if job.fan_out else job


def _scaled_load(load: Load, job: JobKind, factor: float, tenants: int) -> Load:
    """Scale a load. A fan-out becomes narrower, not rarer."""
    tenant = None if load.tenant is None else min(load.tenant, tenants)
    if load.per_second is not None:
        return replace(load, per_second=load.per_second * factor, tenant=tenant)
    runs = load.runs or 1
    return replace(load, runs=runs if job.fan_out else max(1, round(runs * factor)), tenant=tenant)


def _faults_of_job(job: JobKind, where: str, *, is_first: bool) -> Iterator[Fault]:
    if job.priority not in Priority.__members__:
        yield Fault(where=f"{where}.priority", why=f"must be one of {', '.join(Priority.__members__)}")
    if not is_first:
        yield Fault(where=f"{where}.name", why=f"duplicate job name {job.name}")
    takes = msgspec.structs.astuple(job.takes)
    if takes[0] <= 0 or any(short > long for short, long in pairwise(takes)):
        yield Fault(where=f"{where}.takes", why="must be above 0, and p10, p50, p90, p99 must not decrease")
    if job.fan_out and job.stages != (1,):
        yield Fault(where=f"{where}.fan_out", why="can't be combined with stages")


def _faults_of_load(load: Load, where: str, names: Sequence[str], scenario: Scenario) -> Iterator[Fault]:
    if load.job not in names:
        yield _no_job(f"{where}.job", load.job, names)
        return
    if (load.per_second is None) == (load.runs is None):
        yield Fault(where=where, why="must have either per_second or runs")
    if load.tenant is not None and load.tenant > scenario.tenants.count:
        yield Fault(where=f"{where}.tenant", why=f"must be at most {scenario.tenants.count}")
    if load.per_second is not None and scenario.kind(load.job).fan_out:
        yield Fault(where=f"{where}.per_second", why="can't be used for a fan-out; use runs")


def _no_job(where: str, name: str, names: Sequence[str]) -> Fault:
    return Fault(where=where, why=f"unknown job {name}{did_you_mean(name, names)}")
