"""The load of a scenario on the real engine: host, store, links, worker state machines. Only processes are simulated.

It is counted as a simulation is, so that the two reports can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobRow
from mainspring.host.host import Host
from mainspring.host.loop import Leader
from mainspring.protocol.clock import Clock
from mainspring.simulation.capacity.counters import Counters
from mainspring.simulation.capacity.driver import rules_of
from mainspring.simulation.capacity.intake import SimulatedIntake
from mainspring.simulation.capacity.load import Arrival, PoolLoad, pool_name, spec_of
from mainspring.simulation.capacity.measurements import PoolResult
from mainspring.simulation.capacity.outcomes import TaskOutcomes
from mainspring.simulation.capacity.scenario import Scenario, tenant_name
from mainspring.simulation.capacity.virtual_workers import offer_of, places_of
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.store.ports.store import Store

LEASE = timedelta(days=365)
"""No other host competes for the lease, however far a virtual clock jumps."""


async def play_real(scenario: Scenario, seed: int, store: Store, clock: Clock) -> PoolResult:
    """Run the only pool of a scenario on the real engine. It has no failures, and no standing load."""
    async with _leading(scenario, store, clock) as leader:
        task_outcomes = TaskOutcomes(scenario)
        workers = [
            VirtualWorker(name, offer_of(machine), clock, ending_of=lambda one: task_outcomes.of(one, 0.0))
            for name, machine, _ in places_of(scenario, 0)
        ]
        playing = [asyncio.create_task(worker.serve(leader)) for worker in workers]
        cores = sum(worker.offer.cpu_millis for worker in workers)
        while leader.shard.memory.workers.capacity.cpu_millis < cores:
            await clock.sleep(0.01)
        leader.set_rules(rules_of(scenario, 0))
        began = clock.monotonic()
        start = leader.time.now()
        intake = SimulatedIntake(0.0)
        counting = Counters(scenario, 0, leader.shard.memory, intake, start)

        def committed(batch: Batch, _seconds: float) -> None:
            counting.batch_closed(batch, clock.monotonic() - began, clock.monotonic() - began)

        leader.add_listener(committed)
        submitting = asyncio.create_task(_submit(scenario, seed, store, clock, counting))
        while counting.next_sample_at() <= scenario.lasts:
            await clock.sleep(began + counting.next_sample_at() - clock.monotonic())
            counting.sample()
        await submitting
        measures = counting.finish(scenario.lasts)
        for one in playing:
            one.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        return measures


@asynccontextmanager
async def _leading(scenario: Scenario, store: Store, clock: Clock) -> AsyncIterator[Leader]:
    """The leader of the pool, for as long as the block lasts."""
    leading: asyncio.Future[Leader] = asyncio.get_running_loop().create_future()
    host = Host(
        store, clock, "real", draw_nonce=lambda: 1, lease=LEASE, scheduler_settings=scenario.scheduler_settings(),
        on_lead=leading.set_result,
    )  # fmt: skip
    await store.ensure_shard(pool_name(0))
    hosting = asyncio.create_task(host.run())
    try:
        yield await leading
    finally:
        host.stop()
        await hosting


async def _submit(scenario: Scenario, seed: int, store: Store, clock: Clock, counting: Counters) -> None:
    """Submit every run at its time, with the id that it has in the simulation."""
    began, jobs = clock.monotonic(), await _insert_jobs(scenario, store)
    arrivals = list(PoolLoad(scenario, 0, seed).arrivals())
    while arrivals:
        await clock.sleep(max(0.0, began + arrivals[0].at - clock.monotonic()))
        due: list[Arrival] = []
        while arrivals and began + arrivals[0].at <= clock.monotonic():
            due.append(arrivals.pop(0))
        now = await store.time()
        rows = [
            replace(
                one.run, job_id=jobs[one.run.tenant, one.job.spec.name], created_at=now, start_at=now
            )
            for one in due
        ]  # fmt: skip
        if rows:
            await store.insert_runs(rows)
        for one in due:
            counting.arrived(one)


async def _insert_jobs(scenario: Scenario, store: Store) -> dict[tuple[str, str], str]:
    found = {}
    for kind in scenario.jobs:
        for tenant in map(tenant_name, scenario.tenants_of(0)):
            row = JobRow(
                id=f"job_{tenant}_{kind.name}", tenant=tenant, name=kind.name, version=0,
                definition=msgspec.json.encode(spec_of(kind)).decode(),
            )  # fmt: skip
            found[tenant, kind.name] = (await store.insert_job(row)).id
    return found
