"""The load of one pool: when runs are submitted, by which tenant, and of which job. Derived from scenario and seed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import floor
from random import Random
from typing import NamedTuple

import msgspec

from mainspring.core.model.job import Edge, Job, JobSpec, TaskSpec, compile_job
from mainspring.core.model.run import Run
from mainspring.protocol.ids import new_id
from mainspring.simulation.capacity.duration_model import DurationModel
from mainspring.simulation.capacity.scenario import JobKind, Load, Scenario, tenant_name

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Begin of the measured period, on the simulated calendar."""
LISTS = "lists"
"""The task of a fan-out that returns the list."""
_STANDING_WITHIN = 0.5
"""Standing load arrives within this fraction of the warm-up, so that the rest of it is as usual."""


class Arrival(NamedTuple):
    """Arrival of a run in intake."""

    at: float
    number: int
    """Order of arrivals at the same time."""
    run: Run
    job: Job
    left: float | None = None
    """Remaining seconds of its task, if that was running before."""


class _Tenants(NamedTuple):
    """The tenants that submit a load, and the cumulative fractions of the load."""

    names: list[str]
    parts: list[float]

    def draw(self, random: Random) -> str:
        """Draw a tenant by its fraction."""
        return random.choices(self.names, cum_weights=self.parts)[0]


class PoolLoad:
    """All submissions of one pool, in order."""

    def __init__(self, scenario: Scenario, pool: int, seed: int) -> None:
        self.shard = pool_name(pool)
        self.jobs = {kind.name: compile_job(f"job_{kind.name}", spec_of(kind)) for kind in scenario.jobs}
        self._scenario = scenario
        self._pool = pool
        self._seed = seed
        self._parts = scenario.parts()

    def arrivals(self) -> Iterator[Arrival]:
        """All arrivals, by time."""
        streams = [
            stream
            for number, load in enumerate(self._scenario.loads)
            for stream in self._streams(number, load, self._scenario.kind(load.job))
        ]
        return heapq.merge(*streams, key=lambda arrival: (arrival.at, arrival.number))

    def _streams(self, number: int, load: Load, kind: JobKind) -> Iterator[Iterator[Arrival]]:
        tenants = self._tenants(load)
        random = Random(f"{self._seed}:{self._pool}:{number}")
        if load.runs is not None:
            yield self._burst(random, number, load, kind)
        elif load.per_second is not None and tenants.names:
            rate = load.per_second * tenants.parts[-1]
            if load.standing and kind.tasks() == 1:
                before = Random(f"{self._seed}:{self._pool}:{number}:standing")
                yield self._standing(before, number, rate, kind, tenants)
            yield self._steady(random, number, rate, kind, tenants)

    def _tenants(self, load: Load) -> _Tenants:
        """The tenants of this pool that submit a load."""
        mine = self._scenario.tenants_of(self._pool)
        if load.tenant is not None:
            return _Tenants([tenant_name(load.tenant - 1)], [1.0]) if load.tenant - 1 in mine else _Tenants([], [])
        parts = accumulate(self._parts[tenant] for tenant in mine)
        return _Tenants([tenant_name(tenant) for tenant in mine], list(parts))

    def _steady(self, random: Random, number: int, rate: float, kind: JobKind, tenants: _Tenants) -> Iterator[Arrival]:
        at = -self._scenario.warm_up
        while (at := at + random.expovariate(rate)) < self._scenario.lasts:
            yield self._arrival(random, at, number, kind, tenants.draw(random))

    def _standing(
        self, random: Random, number: int, rate: float, kind: JobKind, tenants: _Tenants
    ) -> Iterator[Arrival]:
        """Standing load at the beginning: as much as arrives during one task duration."""
        durations = DurationModel(kind.takes)
        count, within = round(rate * durations.mean), self._scenario.warm_up * _STANDING_WITHIN
        for place in range(count):
            at = -self._scenario.warm_up + within * place / count
            left = durations.left(random.random(), random.random())
            yield self._arrival(random, at, number, kind, tenants.draw(random), left)

    def _burst(self, random: Random, number: int, load: Load, kind: JobKind) -> Iterator[Arrival]:
        """A number of runs within a period. Each tenant gets a whole number, and the total is exact."""
        runs = load.runs or 0
        owners = [load.tenant - 1] if load.tenant is not None else range(self._scenario.tenants.count)
        parts = [1.0] if load.tenant is not None else self._parts
        ends = [floor(runs * end + 0.5) for end in accumulate(parts)]
        mine = set(self._scenario.tenants_of(self._pool))
        names = [
            tenant_name(owner)
            for owner, begin, end in zip(owners, [0, *ends], ends, strict=False)
            if owner in mine
            for _ in range(end - begin)
        ]
        times = sorted((load.at + load.within * random.random(), name) for name in names)
        for at, name in times:
            if at < self._scenario.lasts:
                yield self._arrival(random, at, number, kind, name)

    def _arrival(
        self, random: Random, at: float, number: int, kind: JobKind, tenant: str, left: float | None = None
    ) -> Arrival:
        job, instant = self.jobs[kind.name], START + timedelta(seconds=at)
        run = Run(
            id=new_id("run", instant, random), shard=self.shard, tenant=tenant, job_id=job.id, priority=kind.level,
            params="{}", task_count=len(job.tasks), submitted_by="simulation", created_at=instant, start_at=instant,
        )  # fmt: skip
        return Arrival(at, number, run, job, left)


def pool_name(pool: int) -> str:
    """Name of a pool, from 0."""
    return f"pool-{pool + 1:02d}"


def spec_of(kind: JobKind) -> JobSpec:
    """The definition of a job."""
    work, resources = msgspec.Raw(work_of(kind)), kind.resources
    if kind.fan_out:
        lists = TaskSpec(name=LISTS, resources=resources, work=work)
        item = TaskSpec(
            name="item", needs=(Edge(task=LISTS),), for_each=f"outputs.{LISTS}", resources=resources, work=work
        )
        joins = TaskSpec(name="joins", needs=(Edge(task="item"),), resources=resources, work=work)
        return JobSpec(name=kind.name, tasks=(lists, item, joins), max_fan_out=kind.fan_out)
    tasks: list[TaskSpec] = []
    before: tuple[Edge, ...] = ()
    for stage, size in enumerate(kind.stages):
        names = [f"{kind.name}-{stage}-{place}" for place in range(size)] if len(kind.stages) > 1 else [kind.name]
        tasks += [TaskSpec(name=name, needs=before, resources=resources, work=work) for name in names]
        before = tuple(Edge(task=name) for name in names)
    return JobSpec(name=kind.name, tasks=tuple(tasks))


def work_of(kind: JobKind) -> bytes:
    """The work of its tasks: only the name of the job."""
    return msgspec.json.encode({"simulated": kind.name})
