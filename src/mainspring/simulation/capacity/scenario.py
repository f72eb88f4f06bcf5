"""A scenario: a fleet, who uses it, what they submit, and what goes wrong meanwhile.

Times are seconds from the beginning of what is measured; the `warm_up` before it is played and not counted. Workers,
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
from mainspring.core.model.settings import Tuning, read_values, tuning_of
from mainspring.core.model.task import Priority
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault, Refused
from mainspring.simulation.capacity.duration_model import Takes

MOST_WORKERS = 1_000_000
MOST_TASKS = 200_000_000
"""Of a scenario in all: more would take days."""
LEAST_TENANTS = 10
"""So many are left of them, if there are so many, however small a fleet is made."""

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Part = Annotated[float, Meta(ge=0, le=1)]


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of worker."""

    share: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    """How many there are of it, against the others."""
    cpu: Annotated[int, Meta(ge=1, le=10**8)]
    """Thousandths of a core."""
    memory: Annotated[int, Meta(ge=1, le=2**53)]
    gpus: Annotated[int, Meta(ge=0, le=10**5)] = 0


class Workers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fleet."""

    count: Annotated[int, Meta(ge=1, le=MOST_WORKERS)]
    zones: Annotated[int, Meta(ge=1, le=1_000)] = 1
    pools: Annotated[int, Meta(ge=1, le=10_000)] = 1
    machines: Annotated[tuple[Machine, ...], Meta(min_length=1, max_length=100)]


class Tenants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who shares the fleet."""

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1
    weights: Annotated[tuple[Annotated[float, Meta(gt=0, le=1_000)], ...], Meta(min_length=1, max_length=10_000)] = (
        1.0,
    )
    """Those of the tenants, in turn."""
    guaranteed: Part = 0.0
    """So much of the part that a tenant's weight gives it in its pool is guaranteed to it."""
    skew: Annotated[float, Meta(ge=0, le=3)] = 0.0
    """All submit the same; with a skew the first ones submit more: 1/n to this power."""


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the parts of the scheduler that are not simulated take."""

    commit: Seconds = 0.004
    """For each commit."""
    row: Seconds = 0.00001
    """For each row of it, decided and written."""
    read: Seconds = 0.003
    """For a read of intake."""
    link: Seconds = 0.002
    """For a message from server to worker or back."""


class JobKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: one task, a graph in stages, or a fan-out."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    priority: str = "P2"
    cpu: Annotated[int, Meta(ge=0, le=10**8)] = 1_000
    memory: Annotated[int, Meta(ge=0, le=2**53)] = 256 << 20
    takes: Takes
    fails: Part = 0.0
    """So many of the attempts fail, each with an error of its own."""
    stages: Annotated[tuple[Annotated[int, Meta(ge=1, le=1_000)], ...], Meta(min_length=1, max_length=100)] = (1,)
    """How many tasks each stage has; each needs all of the stage before it."""
    fan_out: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """A task gives a list so long, and a task for each item follows, then one for all."""

    @property
    def level(self) -> Priority:
        """Its priority."""
        return Priority[self.priority]

    @property
    def room(self) -> Resources:
        """What each of its tasks asks for."""
        return Resources(cpu_millis=self.cpu, memory_bytes=self.memory)

    def tasks(self) -> int:
        """How many tasks a run of it has in the end."""
        return self.fan_out + 2 if self.fan_out else sum(self.stages)


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of a job: so many in each second, or so many within some time."""

    job: str
    per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    standing: bool = True
    """At the beginning there is already under way what would be, had it always been so. Only for single tasks."""
    runs: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    at: Seconds = 0.0
    within: Seconds = 0.0
    tenant: Annotated[int, Meta(ge=1)] | None = None
    """All of it is this one's, from 1; None: everybody's."""


class ZoneLost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All workers of a zone fall silent, and have forgotten everything when they come back."""

    zone: Annotated[int, Meta(ge=1)]
    at: Seconds
    back_after: Seconds | None = None


class Outage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that jobs need is down: what runs of them fails, and what starts meanwhile, all with one error."""

    jobs: Annotated[tuple[str, ...], Meta(min_length=1)]
    at: Seconds
    lasts: Seconds
    fails_after: Seconds = 1.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it."""

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

    def tuning(self) -> Tuning:
        """The measures that the shards go by. Raises Refused."""
        return tuning_of(read_values(self.settings))

    def kind(self, name: str) -> JobKind:
        """The job of a name."""
        return next(job for job in self.jobs if job.name == name)

    def weight(self, tenant: int) -> float:
        """The weight of tenant `tenant`, from 0."""
        return self.tenants.weights[tenant % len(self.tenants.weights)]

    def parts(self) -> list[float]:
        """What part of the loads is each tenant's."""
        wants = [1 / (one + 1) ** self.tenants.skew for one in range(self.tenants.count)]
        return [want / sum(wants) for want in wants]

    def tenants_of(self, pool: int) -> range:
        """The tenants of a pool, from 0."""
        count, pools = self.tenants.count, self.workers.pools
        return range(pool * count // pools, (pool + 1) * count // pools)


def tenant_name(tenant: int) -> str:
    """What a tenant is called, from 0."""
    return f"tenant-{tenant + 1:03d}"


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """The same, with workers and loads that many times as large; pools stay about as large as they are."""
    if factor == 1:
        return scenario
    fleet, tenants = scenario.workers, scenario.tenants
    workers = max(fleet.zones, round(fleet.count * factor))
    pools = min(max(1, round(fleet.pools * factor)), workers)
    several = min(tenants.count, LEAST_TENANTS)
    count = max(several, pools, round(tenants.count * factor))
    return replace(
        scenario,
        workers=replace(fleet, count=workers, pools=pools),
        tenants=replace(tenants, count=count),
        jobs=tuple(_scaled_job(job, factor) for job in scenario.jobs),
        loads=tuple(_scaled_load(load, scenario.kind(load.job), factor, count) for load in scenario.loads),
    )


def faults_of(scenario: Scenario) -> Iterator[Fault]:
    """What can't be so together, each with its place."""
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
        scenario.tuning()
    except Refused as refused:
        for fault in refused.faults:
            yield Fault(where=f"settings.{fault.where}", why=fault.why)


def count_tasks(scenario: Scenario) -> float:
    """About how many tasks are submitted."""
    seconds = scenario.lasts + scenario.warm_up
    return sum(
        (load.runs if load.runs is not None else (load.per_second or 0) * seconds) * scenario.kind(load.job).tasks()
        for load in scenario.loads
    )


def _scaled_job(job: JobKind, factor: float) -> JobKind:
    return replace(job, fan_out=max(1, round(job.fan_out * factor))) if job.fan_out else job


def _scaled_load(load: Load, job: JobKind, factor: float, tenants: int) -> Load:
    """A fan-out becomes narrower instead of rarer."""
    tenant = None if load.tenant is None else min(load.tenant, tenants)
    if load.per_second is not None:
        return replace(load, per_second=load.per_second * factor, tenant=tenant)
    runs = load.runs or 1
    return replace(load, runs=runs if job.fan_out else max(1, round(runs * factor)), tenant=tenant)


def _faults_of_job(job: JobKind, where: str, *, is_first: bool) -> Iterator[Fault]:
    if job.priority not in Priority.__members__:
        yield Fault(where=f"{where}.priority", why=f"must be one of {', '.join(Priority.__members__)}")
    if not is_first:
        yield Fault(where=f"{where}.name", why=f"{job.name} is the name of another job too")
    takes = msgspec.structs.astuple(job.takes)
    if takes[0] <= 0 or any(short > long for short, long in pairwise(takes)):
        yield Fault(where=f"{where}.takes", why="must be above 0, and p10, p50, p90, p99 must not fall")
    if job.fan_out and job.stages != (1,):
        yield Fault(where=f"{where}.fan_out", why="can't stand beside stages")


def _faults_of_load(load: Load, where: str, names: Sequence[str], scenario: Scenario) -> Iterator[Fault]:
    if load.job not in names:
        yield _no_job(f"{where}.job", load.job, names)
        return
    if (load.per_second is None) == (load.runs is None):
        yield Fault(where=where, why="must have one of per_second and runs")
    if load.tenant is not None and load.tenant > scenario.tenants.count:
        yield Fault(where=f"{where}.tenant", why=f"must be at most {scenario.tenants.count}")
    if load.per_second is not None and scenario.kind(load.job).fan_out:
        yield Fault(where=f"{where}.per_second", why="is not for a fan-out: say runs")


def _no_job(where: str, name: str, names: Sequence[str]) -> Fault:
    return Fault(where=where, why=f"there is no job {name}{did_you_mean(name, names)}")
