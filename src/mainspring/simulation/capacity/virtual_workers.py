"""Virtual workers of one pool: they send what real ones would, and their processes take as long as was drawn.

A task that is asked to stop takes all of its grace period. A worker whose zone is lost goes silent; when it returns, it
holds nothing. Messages have latency in both directions.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

import msgspec

from mainspring.core.model.batch import Effect
from mainspring.protocol.wire import Assign, Assignment, Offer, Outcome, Recall, Stop
from mainspring.shard.effects import CloseLink, Send
from mainspring.shard.events import (
    AttemptEnded,
    AttemptReturned,
    AttemptsReceived,
    AttemptStarted,
    Event,
    WorkerEvent,
    WorkerHeartbeat,
    WorkerRegistered,
)
from mainspring.simulation.capacity.duration_model import chance
from mainspring.simulation.capacity.outcomes import DOWN, TaskOutcomes
from mainspring.simulation.capacity.scenario import Machine, Outage, Scenario, ZoneLost
from mainspring.simulation.virtual_worker import BEAT_SECONDS


class SimulatedWorker(msgspec.Struct, kw_only=True):
    """One virtual worker: its resources, zone and status."""

    name: str
    offer: Offer
    zone: int
    """From 1."""
    is_up: bool = True
    sessions: int = 1

    @property
    def session(self) -> str:
        """The open session."""
        return f"{self.name}:{self.sessions}"


class _Running(msgspec.Struct, kw_only=True):
    worker: SimulatedWorker
    assignment: Assignment
    lease: str
    ends: int
    """Number of the entry that ends it: older entries are void."""


_Step = Callable[[float], Iterator[WorkerEvent]]


class VirtualWorkers:
    """All virtual workers of a pool: takes the shard's effects, and yields the workers' events."""

    def __init__(self, scenario: Scenario, pool: int) -> None:
        self.task_outcomes = TaskOutcomes(scenario)
        self._link = scenario.host.link
        self._workers = {worker.name: worker for worker in workers_of(scenario, pool)}
        self._ring = list(self._workers.values())
        self._beats = 0
        self._began = -scenario.warm_up
        self._in_flight: deque[tuple[float, SimulatedWorker, int, tuple[WorkerEvent, ...]]] = deque()
        """On its way to the server: arrival time, worker, session, events."""
        self._scheduled: list[tuple[float, int, _Step]] = []
        self._numbers = 0
        self._running: dict[str, _Running] = {}
        self._groups: dict[str, deque[Assignment]] = {}
        """By lease: tasks of its group that have not started."""
        for worker in self._ring:
            self._schedule(self._began, partial(self._register, worker))
        for lost in scenario.zones_lost:
            self._plan_loss(lost)
        for outage in scenario.outages:
            self._schedule(outage.at, partial(self._start_outage, outage))

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
                at, _, step = heapq.heappop(later)
                yield from step(at)
            elif first <= until:
                _, worker, session, events = said.popleft()
                if worker.is_up and worker.sessions == session:
                    yield from events
            else:
                break
        while self._beat_at() <= until:
            worker = self._ring[self._beats % len(self._ring)]
            self._beats += 1
            if worker.is_up:
                yield WorkerHeartbeat(worker=worker.name, session=worker.session)

    def apply_effect(self, effect: Effect, at: float) -> None:
        """Apply an effect of the shard."""
        if isinstance(effect, Send):
            worker = self._workers[effect.worker]
            if not worker.is_up or worker.session != effect.session:
                return
            match effect.message:
                case Assign():
                    self._assign(worker, effect.message, at + self._link)
                case Stop():
                    self._stop(worker, effect.message, at + self._link)
                case Recall():
                    self._recall(worker, effect.message, at + self._link)
                case _:
                    pass  # a welcome or a verdict: nothing to do
        elif isinstance(effect, CloseLink):
            self._close(effect, at + self._link)

    # actions of workers

    def _assign(self, worker: SimulatedWorker, message: Assign, at: float) -> None:
        """Receive a group: its first task starts at once."""
        first, *others = message.group
        self._say(
            worker,
            at,
            AttemptsReceived(
                worker=worker.name, session=worker.session, attempts=tuple(one.attempt for one in message.group)
            ),
            AttemptStarted(worker=worker.name, session=worker.session, attempt=first.attempt),
        )
        if others:
            self._groups[message.lease] = deque(others)
        self._begin(worker, message.lease, first, at)

    def _begin(self, worker: SimulatedWorker, lease: str, assignment: Assignment, at: float) -> None:
        seconds, error = self.task_outcomes.of(assignment, at)
        self._running[assignment.attempt] = _Running(worker=worker, assignment=assignment, lease=lease, ends=0)
        self._end_at(at + seconds, assignment.attempt, Outcome.SUCCEEDED if error is None else Outcome.FAILED, error)

    def _end_at(self, at: float, attempt: str, outcome: Outcome, error: str | None) -> None:
        number = self._schedule(at + self._link, lambda now: self._end(attempt, number, outcome, error, now))
        self._running[attempt].ends = number

    def _end(self, attempt: str, number: int, outcome: Outcome, error: str | None, at: float) -> Iterator[WorkerEvent]:
        running = self._running.get(attempt)
        if running is None or running.ends != number:
            return
        del self._running[attempt]
        worker = running.worker
        output = self.task_outcomes.output(running.assignment) if outcome is Outcome.SUCCEEDED else None
        yield AttemptEnded(
            worker=worker.name, session=worker.session, attempt=attempt, outcome=outcome, output=output, error=error
        )
        group = self._groups.get(running.lease)
        if group:
            follower = group.popleft()
            yield AttemptStarted(worker=worker.name, session=worker.session, attempt=follower.attempt)
            self._begin(worker, running.lease, follower, at - self._link)
        if not group:
            self._groups.pop(running.lease, None)

    def _stop(self, worker: SimulatedWorker, message: Stop, at: float) -> None:
        running = self._running.get(message.attempt)
        if running is not None:
            if message.grace_seconds <= 0:
                del self._running[message.attempt]
            else:
                self._stop_running(running, at + message.grace_seconds)
        elif self._leave_group(message.attempt):
            self._say(
                worker,
                at,
                AttemptEnded(
                    worker=worker.name, session=worker.session, attempt=message.attempt, outcome=Outcome.STOPPED
                ),
            )

    def _stop_running(self, running: _Running, at: float) -> None:
        """End a task by itself, or at the end of its grace period, whichever comes first."""
        attempt, natural = running.assignment.attempt, running.ends

        def kill(now: float) -> Iterator[WorkerEvent]:
            still = self._running.get(attempt)
            if still is None or still.ends != natural:
                return iter(())
            return self._end(attempt, natural, Outcome.STOPPED, None, now)

        self._schedule(at + self._link, kill)

    def _recall(self, worker: SimulatedWorker, message: Recall, at: float) -> None:
        """Return what has not started."""
        for attempt in message.attempts:
            if self._leave_group(attempt):
                self._say(worker, at, AttemptReturned(worker=worker.name, session=worker.session, attempt=attempt))

    def _leave_group(self, attempt: str) -> bool:
        for group in self._groups.values():
            for assignment in group:
                if assignment.attempt == attempt:
                    group.remove(assignment)
                    return True
        return False

    # failures

    def _register(self, worker: SimulatedWorker, _at: float) -> Iterator[WorkerEvent]:
        yield self._registration(worker, ())

    def _start_outage(self, outage: Outage, at: float) -> Iterator[WorkerEvent]:
        """Begin an outage: running tasks that depend on it fail soon."""
        for attempt, running in self._running.items():
            if self.task_outcomes.needs(running.assignment, outage):
                self._end_at(at + outage.fails_after * chance(attempt), attempt, Outcome.FAILED, DOWN)
        return iter(())

    def _plan_loss(self, lost: ZoneLost) -> None:
        self._schedule(lost.at, partial(self._lose_zone, lost.zone))
        if lost.back_after is not None:
            self._schedule(lost.at + lost.back_after, partial(self._restore_zone, lost.zone))

    def _lose_zone(self, zone: int, _at: float) -> Iterator[WorkerEvent]:
        for worker in self._ring:
            worker.is_up = worker.is_up and worker.zone != zone
        gone = [attempt for attempt, running in self._running.items() if not running.worker.is_up]
        for attempt in gone:
            self._groups.pop(self._running.pop(attempt).lease, None)
        return iter(())

    def _restore_zone(self, zone: int, _at: float) -> Iterator[WorkerEvent]:
        for worker in self._ring:
            if worker.zone == zone and not worker.is_up:
                worker.is_up = True
                worker.sessions += 1
                yield self._registration(worker, ())

    def _close(self, effect: CloseLink, at: float) -> None:
        """Register again with all attempts, because the server does not know the session."""
        worker = self._workers[effect.worker]
        if not worker.is_up or worker.session != effect.session:
            return
        worker.sessions += 1
        holds = [attempt for attempt, running in self._running.items() if running.worker is worker]
        leases = {self._running[attempt].lease for attempt in holds}
        holds += [one.attempt for lease in sorted(leases) for one in self._groups.get(lease, ())]
        self._say(worker, at, self._registration(worker, tuple(holds)))

    def _registration(self, worker: SimulatedWorker, holds: tuple[str, ...]) -> WorkerRegistered:
        return WorkerRegistered(
            worker=worker.name, session=worker.session, offer=worker.offer, labels={}, zone=f"zone-{worker.zone}",
            version="", holds=holds,
        )  # fmt: skip

    # time

    def _say(self, worker: SimulatedWorker, at: float, *events: WorkerEvent) -> None:
        self._in_flight.append((at + self._link, worker, worker.sessions, events))

    def _schedule(self, at: float, step: _Step) -> int:
        self._numbers += 1
        heapq.heappush(self._scheduled, (at, self._numbers, step))
        return self._numbers

    def _beat_at(self) -> float:
        return self._began + (self._beats + 1) * BEAT_SECONDS / len(self._ring)


def workers_of(scenario: Scenario, pool: int) -> Iterator[SimulatedWorker]:
    """The workers of a pool: every n-th worker, with its part of each zone and machine type."""
    fleet = scenario.workers
    picks = _spread(fleet.machines, -(-fleet.count // fleet.pools))
    for place, number in enumerate(range(pool, fleet.count, fleet.pools)):
        machine = picks[place]
        offer = Offer(machine.cpu, machine.memory, machine.gpus)
        yield SimulatedWorker(name=f"w{number + 1:05d}", offer=offer, zone=place % fleet.zones + 1)


def _spread(machines: tuple[Machine, ...], count: int) -> list[Machine]:
    """Draw machines of each type by share, evenly mixed."""
    sums = list(accumulate(machine.share for machine in machines))
    golden = 0.6180339887498949  # multiples of it fill the unit interval evenly, in any order of zones
    places = (place * golden % 1 * sums[-1] for place in range(count))
    return [next(machine for machine, end in zip(machines, sums, strict=True) if place < end) for place in places]
