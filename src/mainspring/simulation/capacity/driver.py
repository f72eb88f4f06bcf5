"""Simulate one pool over time: the real shard, and the work of a host around it, on a virtual clock.

    while there is time left:
        the next moment         an event, read or timer is due, or a second has passed; after the last commit
        events ─► shard         up to the row limit of the batch, urgent ones first
        batch ─► commit         a fixed time, and a time for each row
        effects ─► workers      when it is durable

The shard, the size of batches (`host/batch_sizer.py`), the rule of intake (`core/admission/intake.py`) and all limits
are the real ones. A moment of the virtual clock costs nothing: a pool is simulated as fast as its shard decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta

from mainspring.core.fairness.quotas import Quota, QuotaRow
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.host.batch_sizer import BatchSizer
from mainspring.host.loop import MAX_EVENTS_PER_STEP, MAX_WAIT_SECONDS, MIN_WAIT_SECONDS
from mainspring.shard.events import Event, RulesChanged, RunArrived, StoreLagged, WorkerHeartbeat, WorkerRegistered
from mainspring.shard.shard import Shard
from mainspring.simulation.capacity.counters import Counters
from mainspring.simulation.capacity.intake import SimulatedIntake
from mainspring.simulation.capacity.load import START, Arrival, PoolLoad
from mainspring.simulation.capacity.measurements import PoolResult
from mainspring.simulation.capacity.scenario import Scenario, tenant_name
from mainspring.simulation.capacity.virtual_workers import VirtualWorkers

Watch = Callable[[float], bool]
"""Called with the simulated seconds of a pool; False stops the simulation."""


def simulate_pool(
    scenario: Scenario, pool: int, seed: int, *, cpu: Callable[[], float], watch: Watch = lambda _: True
) -> PoolResult:
    """Simulate a pool. `cpu` returns the CPU time used so far."""
    return _PoolSimulation(scenario, pool, seed, cpu).run(watch)


class _PoolSimulation:
    """The simulation of one pool."""

    def __init__(self, scenario: Scenario, pool: int, seed: int, cpu: Callable[[], float]) -> None:
        self._host = scenario.host
        self._begin, self._end = -scenario.warm_up, scenario.lasts
        load = PoolLoad(scenario, pool, seed)
        self._arrivals = load.arrivals()
        self._next_arrival: Arrival | None = next(self._arrivals, None)
        self._shard = Shard(load.shard, seed=(seed, pool), scheduler_settings=scenario.scheduler_settings())
        self._workers = VirtualWorkers(scenario, pool)
        self._intake = SimulatedIntake(scenario.host.read)
        self._counters = Counters(scenario, pool, self._shard.memory, self._intake)
        self._batch_sizer = BatchSizer()
        self._cpu = cpu
        self._urgent: deque[Event] = deque()
        self._ordinary: deque[Event] = deque([RulesChanged(rules=rules_of(scenario, pool))])
        self._busy_until = self._begin
        """When the current commit ends."""
        self._turned_at = self._begin

    def run(self, watch: Watch) -> PoolResult:
        """Run to the end, or until the watch stops it."""
        at = self._begin
        while at < self._end and watch(at - self._begin):
            self._gather(at)
            self._turn(at)
            at = max(self._next_moment(at), self._busy_until)
            while self._counters.next_sample_at() <= min(at, self._end):
                self._counters.sample()
        return self._counters.finish(min(at, self._end))

    def _next_moment(self, at: float) -> float:
        """When the next event is due."""
        if self._urgent or self._ordinary or self._shard.has_more():
            return at
        moment = min(self._turned_at + MAX_WAIT_SECONDS, self._workers.next_at())
        if self._next_arrival is not None:
            moment = min(moment, self._next_arrival.at + self._host.read)
        if self._intake.due_at is not None:
            moment = min(moment, self._intake.due_at)
        timer = self._shard.seconds_to_timer(START + timedelta(seconds=at))
        if timer is not None:
            moment = min(moment, at + max(timer, MIN_WAIT_SECONDS))
        return max(moment, at)

    def _gather(self, at: float) -> None:
        """Collect everything that has happened until now, by lane."""
        while self._next_arrival is not None and self._next_arrival.at <= at:
            self._intake.arrive(self._next_arrival)
            self._counters.arrived(self._next_arrival)
            self._next_arrival = next(self._arrivals, None)
        if self._intake.due_at is not None and self._intake.due_at <= at:
            for arrival in self._intake.read(self._shard.memory, self._batch_sizer.hold, at):
                lane = self._urgent if arrival.run.priority is Priority.P0 else self._ordinary
                lane.append(RunArrived(run=arrival.run, job=arrival.job))
                if arrival.left is not None:
                    self._workers.task_outcomes.left[arrival.run.id] = arrival.left
        for event in self._workers.events_until(at):
            if isinstance(event, WorkerHeartbeat | WorkerRegistered):
                self._urgent.append(event)
            else:
                self._ordinary.append(event)

    def _turn(self, at: float) -> None:
        """One turn of the shard, and its commit."""
        now, shard = START + timedelta(seconds=at), self._shard
        began = self._cpu()
        shard.begin(now=now, budget=self._batch_sizer.rows() * 2 // 3)
        if self._batch_sizer.hold is not shard.memory.queues.suspended_from:
            shard.take([StoreLagged(hold=self._batch_sizer.hold)], now=now)
        is_urgent = any(isinstance(event, RunArrived) for event in self._urgent)
        while (self._urgent or self._ordinary) and not shard.is_spent():
            shard.take(self._next_events(), now=now)
        batch = shard.finish(now=now, urgent=is_urgent)
        self._counters.turn_took(self._cpu() - began)
        self._turned_at = at
        rows = batch.rows()
        if not rows and not batch.effects:
            return
        seconds = self._host.commit + rows * self._host.row
        self._busy_until = at + seconds
        self._batch_sizer.observe(rows, seconds)
        self._counters.batch_closed(batch, at, self._busy_until)
        self._intake.batch_durable(batch.runs, self._busy_until)
        self._workers.apply_effects(batch.effects, self._busy_until)

    def _next_events(self) -> list[Event]:
        events: list[Event] = []
        for lane in (self._urgent, self._ordinary):
            while lane and len(events) < MAX_EVENTS_PER_STEP:
                events.append(lane.popleft())
        return events


def rules_of(scenario: Scenario, pool: int) -> SharingRules:
    """The quotas of a pool's tenants: their weights, and their guaranteed cores."""
    tenants, workers = scenario.tenants_of(pool), scenario.workers
    shares = sum(machine.share for machine in workers.machines)
    cores = sum(machine.cpu * machine.share for machine in workers.machines) / shares * workers.count / workers.pools
    weights = sum(scenario.weight(tenant) for tenant in tenants)
    rows = {}
    for tenant in tenants:
        weight = scenario.weight(tenant)
        guaranteed_tenants = int(scenario.tenants.guaranteed * cores * weight / weights)
        quota = Quota(weight=weight, guaranteed=Resources(cpu_millis=guaranteed_tenants))
        rows[tenant_name(tenant)] = QuotaRow(
            tenant=tenant_name(tenant), pool="", quota=quota, raised=None, version=1, updated_at=START,
            updated_by="simulation",
        )  # fmt: skip
    return SharingRules(version=1, quotas=rows)
