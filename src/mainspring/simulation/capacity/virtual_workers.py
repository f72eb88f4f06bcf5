"""Virtual workers of one pool on the clock of the simulation: they send what real ones would.

A worker whose zone is lost goes silent; when it returns, it holds nothing. Messages have latency in both directions.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate

from mainspring.core.model.batch import Effect
from mainspring.host.links import events_of, registration
from mainspring.protocol.wire import Assignment, Credit, FromWorker, Offer, ToWorker, Welcome
from mainspring.shard.effects import CloseLink, Send
from mainspring.shard.events import Event, WorkerHeartbeat
from mainspring.simulation.capacity.duration_model import chance
from mainspring.simulation.capacity.outcomes import DOWN, TaskOutcomes, failure
from mainspring.simulation.capacity.scenario import Machine, Outage, Scenario
from mainspring.simulation.virtual_worker import BEAT_SECONDS, Ending, SimulatedWorker

_UNLIMITED = Credit(2**62)
_Step = Callable[[], object]


class PoolWorker(SimulatedWorker):
    """One worker of a pool."""

    def __init__(self, pool: VirtualWorkers, name: str, machine: Machine, zone: str) -> None:
        super().__init__(name, offer_of(machine), zone=zone, ending_of=pool.ending_of)
        self.is_up = True
        self._pool = pool

    def send(self, messages: Sequence[FromWorker]) -> None:
        """Send messages to the server."""
        self._pool.send(self, messages)

    def end_after(self, seconds: float, attempt: str, ending: Ending) -> None:
        """End an attempt after some seconds of the simulation."""
        self._pool.schedule(self._pool.now + seconds, partial(self.end_as, attempt, ending))


class VirtualWorkers:
    """All virtual workers of a pool: takes the shard's effects, and yields the workers' events."""

    def __init__(self, scenario: Scenario, pool: int) -> None:
        self.task_outcomes = TaskOutcomes(scenario)
        self.now = self._began = -scenario.warm_up
        self._link = scenario.host.link
        self._ring = [PoolWorker(self, *place) for place in places_of(scenario, pool)]
        self._workers = {worker.name: worker for worker in self._ring}
        self._beats = 0
        self._in_flight: deque[tuple[float, PoolWorker, str, list[Event]]] = deque()
        """On its way to the server: arrival time, worker, session, events."""
        self._scheduled: list[tuple[float, int, _Step]] = []
        self._numbers = 0
        for worker in self._ring:
            self.schedule(self._began - self._link, partial(self._register, worker))
        for lost in scenario.zones_lost:
            self.schedule(lost.at, partial(self._lose_zone, zone_name(lost.zone)))
            if lost.back_after is not None:
                self.schedule(lost.at + lost.back_after, partial(self._restore_zone, zone_name(lost.zone)))
        for outage in scenario.outages:
            self.schedule(outage.at, partial(self._start_outage, outage))

    def next_at(self) -> float:
        """When the next event is due, as far as known."""
        at = self._beat_at()
        if self._in_flight:
            at = min(at, self._in_flight[0][0])
        return min(at, self._scheduled[0][0]) if self._scheduled else at

    def events_until(self, until: float) -> Iterator[Event]:
        """Events until a time, in order; heartbeats last."""
        said, later = self._in_flight, self._scheduled
        while True:
            first = said[0][0] if said else until + 1
            if later and later[0][0] <= until and later[0][0] <= first:
                self.now, _, step = heapq.heappop(later)
                step()
            elif first <= until:
                _, worker, session, events = said.popleft()
                if worker.is_up and worker.session == session:
                    yield from events
            else:
                break
        while self._beat_at() <= until:
            worker = self._ring[self._beats % len(self._ring)]
            self._beats += 1
            if worker.is_up:
                yield WorkerHeartbeat(worker=worker.name, session=worker.session)

    def apply_effects(self, effects: Iterable[Effect], at: float) -> None:
        """Deliver effects of the shard to the workers."""
        messages: dict[tuple[str, str], list[ToWorker]] = {}
        for effect in effects:
            match effect:
                case Send():
                    messages.setdefault((effect.worker, effect.session), []).append(effect.message)
                    if isinstance(effect.message, Welcome):
                        messages[effect.worker, effect.session].append(_UNLIMITED)
                case CloseLink():
                    self.schedule(at + self._link, partial(self._close, effect))
                case _:
                    pass
        for (name, session), told in messages.items():
            self.schedule(at + self._link, partial(self._deliver, self._workers[name], session, told))

    # workers

    def ending_of(self, assignment: Assignment) -> Ending:
        """Outcome of an attempt that begins now."""
        return self.task_outcomes.of(assignment, self.now)

    def send(self, worker: PoolWorker, messages: Sequence[FromWorker]) -> None:
        """Send messages of a worker to the server."""
        name, session = worker.name, worker.session
        self._send(worker, [event for message in messages for event in events_of(name, session, message)])

    def _send(self, worker: PoolWorker, events: list[Event]) -> None:
        self._in_flight.append((self.now + self._link, worker, worker.session, events))

    def schedule(self, at: float, step: _Step) -> None:
        """Do something at a time."""
        self._numbers += 1
        heapq.heappush(self._scheduled, (at, self._numbers, step))

    def _register(self, worker: PoolWorker) -> None:
        self._send(worker, [registration(worker.register())])

    def _deliver(self, worker: PoolWorker, session: str, messages: Sequence[ToWorker]) -> None:
        if worker.is_up and worker.session == session:
            worker.take(messages)

    def _close(self, effect: CloseLink) -> None:
        """Register again, because the server does not know the session."""
        worker = self._workers[effect.worker]
        if worker.is_up and worker.session == effect.session:
            self._register(worker)

    # failures

    def _start_outage(self, outage: Outage) -> None:
        """Begin an outage: running tasks that depend on it fail soon."""
        for worker in self._ring:
            for attempt, assignment in worker.running.items():
                if self.task_outcomes.needs(assignment, outage):
                    worker.end_after(outage.fails_after * chance(attempt), attempt, failure(0.0, DOWN))

    def _lose_zone(self, zone: str) -> None:
        for worker in self._ring:
            if worker.zone == zone:
                worker.is_up = False
                worker.reset()

    def _restore_zone(self, zone: str) -> None:
        for worker in self._ring:
            if worker.zone == zone and not worker.is_up:
                worker.is_up = True
                self._register(worker)

    def _beat_at(self) -> float:
        return self._began + (self._beats + 1) * BEAT_SECONDS / len(self._ring)


def places_of(scenario: Scenario, pool: int) -> Iterator[tuple[str, Machine, str]]:
    """Names, machines and zones of a pool's workers: every n-th worker, with its part of each zone and machine type."""
    workers = scenario.workers
    picks = _spread(workers.machines, -(-workers.count // workers.pools))
    for place, number in enumerate(range(pool, workers.count, workers.pools)):
        yield f"w{number + 1:05d}", picks[place], zone_name(place % workers.zones + 1)


def offer_of(machine: Machine) -> Offer:
    """Resources of a machine."""
    return Offer(machine.cpu, machine.memory, machine.gpus)


def zone_name(zone: int) -> str:
    """Name of a zone, from 1."""
    return f"zone-{zone}"


def _spread(machines: tuple[Machine, ...], count: int) -> list[Machine]:
    """Draw machines of each type by share, evenly mixed."""
    sums = list(accumulate(machine.share for machine in machines))
    golden = 0.6180339887498949  # multiples of it fill the unit interval evenly, in any order of zones
    places = (place * golden % 1 * sums[-1] for place in range(count))
    return [next(machine for machine, end in zip(machines, sums, strict=True) if place < end) for place in places]
