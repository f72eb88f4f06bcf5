"""Simulate a snapshot on a clock of its own: a real shard decides, tasks and workers behave as they usually do.

    a task that is placed      starts at once, and ends after a duration drawn from recent ones of its kind
    one that runs              ends after the rest of a duration longer than it has run so far
    one that is asked to stop  ends within its grace; one that is recalled and has not started, at once
    the limits of groups       are granted as far as they reach; of a rate, as its period allows

Durations are drawn at random, from a seed: the same snapshot and seed give the same forecast. New work arrives at the
recent rate. In the optimistic forecast nothing arrives, and tasks that have run longer than any before, or never ended,
end soon; otherwise they continue.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from copy import copy
from datetime import datetime, timedelta
from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.core.limits.rate_grants import LimitRow, RateRequest, Take, take
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.task import StopKind, Task, TaskState
from mainspring.protocol.ids import task_id as task_id_of
from mainspring.protocol.wire import Assign, Outcome, Recall, Stop
from mainspring.shard import effects
from mainspring.shard import events as happened
from mainspring.shard.explain.snapshot import Snapshot, discard_memory, fill
from mainspring.shard.shard import Shard
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.state.starved_queues import RECHECK_SECONDS, QueueKey
from mainspring.shard.state.timers import MAX_TURN_SECONDS

HORIZON = timedelta(days=2)
"""Later starts are not reported."""
_TICK = timedelta(milliseconds=10)
"""After a timer's time, so that no rounding is between it and its turn."""
_SHARP_TURNS, _BLUR, _MAX_BLUR = 20, 0.004, 0.06
"""After many turns, tasks that end at about the same time end in one turn: as a fraction of the time that has passed,
which grows with the turns. It merges small gaps into large ones, and so is kept small.
"""
_TURNS_AT_ONCE = 16
_SOON_SECONDS = 1.0
_MAX_TAKES = 32
S = TaskState


class _Template(msgspec.Struct, frozen=True):
    """A task that further ones can be made from, each as the only task of a run."""

    task: Task
    run: Run
    job: Job


class _More(msgspec.Struct):
    """The rest of a queue that was not copied completely: more tasks like its last."""

    template: _Template
    left: int


class Forecast:
    """One simulated future of a snapshot."""

    def __init__(self, snapshot: Snapshot, seed: int = 0, *, optimistic: bool = False) -> None:
        self.snapshot = snapshot
        self.now = snapshot.at
        self.shard = Shard(
            snapshot.shard, seed=(-1, seed), scheduler_settings=snapshot.scheduler_settings
        )  # so that none of its ids exists
        self.memory = self.shard.memory
        fill(self.memory, snapshot)
        self.turns = 0
        self.placed = 0
        """Groups of tasks placed so far."""
        self.known_durations = 0
        """Running tasks with a known usual duration."""
        self.unknown = 0
        """Running tasks without."""
        self.preempted: dict[str, Task] = {}
        """Tasks that were asked to stop for the one under diagnosis, as they were."""
        self._random = Random(seed)
        self._optimistic = optimistic
        self._ends: list[tuple[datetime, int, str]] = []
        self._count = 0
        self._events: list[happened.Event] = []
        self._starts: list[happened.Event] = []
        """Starts since the last turn, delivered with the next one."""
        self._last_turn = snapshot.at
        self._more: dict[QueueKey, _More] = {}
        self._others = _shares_of_others(snapshot)
        self._kept = {task_id for kept in self.memory.queues.reserved.values() for task_id in kept}
        """Tasks that had a reservation already."""
        self._rates: dict[str, LimitRow] = {}
        for task_id, left in snapshot.coverage.omitted.items():
            last = self._task(task_id)
            self._more[last.priority, last.tenant, self.memory.shape(last)] = _More(self._template_of(last), left)
        self._newcomers = (
            [] if optimistic else [self._template_of(self._task(task_id)) for task_id in snapshot.newcomers]
        )
        self._next_arrival = self._next_arrival_at(snapshot.at)
        for lease in self.memory.leases.values():
            self._run_next(list(lease.members))

    def mine(self) -> Task:
        """The task under diagnosis."""
        return self._task(self.snapshot.task_id)

    def has_started(self) -> bool:
        """Return whether it has been placed."""
        return self.mine().worker_id is not None

    def add_events(self, *events: happened.Event) -> None:
        """Add events to the next turn."""
        self._events += events

    def check_now(self) -> None:
        """Let the queue of the task under diagnosis be checked in the next turn, as it is within a second."""
        mine = self.mine()
        shape = self.memory.shape(mine)
        self.memory.queues.starved.check_now(mine.priority, self.memory.shard_time, lambda other: other == shape)

    def settle(self) -> None:
        """Run turns until the shard waits for time to pass."""
        for _ in range(_TURNS_AT_ONCE):
            self._turn()
            if self.has_started() or not (self._events or self.shard.has_more()):
                return

    def step(self) -> bool:
        """Advance to the next event; False if there is none."""
        due = self._next()
        if due is None or due - self.snapshot.at > HORIZON:
            return False
        blur = (due - self.snapshot.at) * min(_MAX_BLUR, _BLUR * max(0, self.turns - _SHARP_TURNS))
        self.now = max(self.now, due + blur / 2)
        while self._ends and self._ends[0][0] <= due + blur:
            self._end(heapq.heappop(self._ends)[2])
        self._arrive(self.now)
        self.settle()
        return True

    def end(self) -> None:
        """Discard the memory; only the counters are read afterwards."""
        discard_memory(self.memory)

    def is_still(self) -> bool:
        """Return whether nothing pending could let anything start.

        Nothing ends, nothing arrives, and each queue without capacity has been checked again. Timers of further checks,
        and of reservations made since, change nothing then.
        """
        if self._ends or self._newcomers or (self.now - self.snapshot.at).total_seconds() <= RECHECK_SECONDS:
            return False
        timers = (*self.memory.timers.at.pending(), *self.memory.timers.after.pending())
        return all(one.kind is happened.TimerKind.RESERVATION and one.subject not in self._kept for one in timers)

    def _task(self, task_id: str) -> Task:
        task = self.memory.runs.find(task_id)
        return task if task is not None else self.snapshot.task()

    def _next(self) -> datetime | None:
        seconds = self.shard.seconds_to_timer(self.now)
        is_late = seconds is None or seconds > HORIZON.total_seconds()
        soonest = (self.now - self.snapshot.at) * _MAX_BLUR
        timer = None if is_late else self.now + max(timedelta(seconds=seconds or 0.0), soonest) + _TICK
        ends = self._ends[0][0] if self._ends else None
        return min((at for at in (timer, ends) if at is not None), default=None)

    def _turn(self) -> None:
        events = [*self._starts, *self._events]
        self._starts, self._events = [], []
        self.turns += 1
        passed = (self.now - self._last_turn).total_seconds()
        self.memory.timers.shard_time += max(0.0, passed - MAX_TURN_SECONDS)
        self._last_turn = self.now
        self._apply_effects(self.shard.handle(events, now=self.now))

    def _apply_effects(self, batch: Batch) -> None:
        for effect in batch.effects:
            match effect:
                case effects.Send(message=Assign() as message):
                    self.placed += 1
                    self._fill_up(message.group[0].task)
                    self._run_next([one.attempt for one in message.group])
                case effects.Send(message=Stop() as message):
                    self._stop(message.attempt)
                case effects.Send(message=Recall() as message):
                    self._give_back(message.attempts)
                case effects.RequestShare():
                    self._grant(effect)
                case effects.RequestRate():
                    self._allow(effect)
                case _:
                    pass  # notifications and store effects change nothing here

    # tasks

    def _run_next(self, attempts: list[str]) -> None:
        """The attempts of one lease: the first one runs, or starts now, and the others follow one by one."""
        for attempt in attempts:
            task = self.memory.attempts.get(attempt)
            if task is None:
                continue
            if task.stop is not None and task.stop.kind is not StopKind.HOLD:
                self._stop(attempt)
                continue
            if task.state is S.ASSIGNED:
                self._starts.append(self._worker_event(happened.AttemptStarted, task, attempt=attempt))
            seconds = self._seconds(task)
            if seconds is not None:
                self._end_at(attempt, self.now + timedelta(seconds=seconds))
            return

    def _end(self, attempt: str) -> None:
        task = self.memory.attempts.get(attempt)
        if task is None:
            return
        is_stopping = task.stop is not None and task.stop.kind is not StopKind.HOLD
        outcome = Outcome.STOPPED if is_stopping else Outcome.SUCCEEDED
        self._events.append(self._worker_event(happened.AttemptEnded, task, attempt=attempt, outcome=outcome))
        lease = self.memory.leases.get(task.lease_id or "")
        if lease is not None and len(lease.members) > 1:
            self._run_next([one for one in lease.members if one != attempt])

    def _end_at(self, attempt: str, at: datetime) -> None:
        self._count += 1
        heapq.heappush(self._ends, (at, self._count, attempt))

    def _stop(self, attempt: str) -> None:
        """A task that is asked to stop ends within its grace, sooner rather than later."""
        task = self.memory.attempts.get(attempt)
        if task is None or task.stop is None:
            return
        if task.stop.for_task == self.snapshot.task_id:
            self.preempted[task.id] = copy(task)
        grace = max(0.0, (task.stop.kill_at - self.now).total_seconds())
        self._end_at(attempt, self.now + timedelta(seconds=grace * self._random.random() ** 2))

    def _give_back(self, attempts: tuple[str, ...]) -> None:
        for attempt in attempts:
            task = self.memory.attempts.get(attempt)
            if task is not None and task.state is S.ASSIGNED:
                if task.stop is not None and task.stop.for_task == self.snapshot.task_id:
                    self.preempted[task.id] = copy(task)
                self._events.append(self._worker_event(happened.AttemptReturned, task, attempt=attempt))

    def _worker_event(self, kind: type[happened.WorkerEvent], task: Task, **fields: object) -> happened.WorkerEvent:
        worker = task.worker_id or ""
        return kind(worker=worker, session=self.memory.workers[worker].session, **fields)

    def _seconds(self, task: Task) -> float | None:
        """Return how long a task will run from now on; None if unknown."""
        run = self.memory.runs[task.run_id]
        ran = (self.now - task.started_at).total_seconds() if task.started_at is not None else 0.0
        spec = run.spec(task.position)
        known = self.snapshot.duration_samples.get((task.tenant, run.job.spec.name, task.name), ())
        if not known and spec.expected_seconds is not None:
            known = (spec.expected_seconds / 2, spec.expected_seconds, 2 * spec.expected_seconds)
        first_longer = bisect_right(known, ran)
        if first_longer < len(known):
            self.known_durations += self.now == self.snapshot.at
            return self._random.choice(known[first_longer:]) - ran
        self.unknown += self.now == self.snapshot.at
        return _SOON_SECONDS + self._random.random() * ran / 4 if self._optimistic else None

    def _fill_up(self, task_id: str) -> None:
        """Replace a task that was placed from a queue that was not copied completely."""
        task = self._task(task_id)
        shape = self.memory.shape(task)
        more = self._more.get((task.priority, task.tenant, shape))
        if more is None or not more.left:
            return
        more.left -= 1
        like, row = copy(more.template.task), self._new_run(more.template)
        like.id, like.run_id, like.position = task_id_of(row.id, 0), row.id, 0
        like.since -= timedelta(microseconds=1)
        self.memory.runs.add(RunMemory(run=row, job=more.template.job, tasks=[like], waiting=[0], counts={S.QUEUED: 1}))
        key = (like.priority, like.tenant)
        self.memory.queues.depth[key] = self.memory.queues.depth.get(key, 0) + 1
        self.memory.queues.put_back(like, shape)

    # arrivals

    def overtaking_per_second(self) -> float:
        """Arrivals per second that are more important than the task under diagnosis."""
        mine = self.mine().priority
        above = sum(one.task.priority < mine for one in self._newcomers)
        return self.snapshot.arrivals_per_second * above / max(1, len(self._newcomers))

    def _arrive(self, until: datetime) -> None:
        """Let new work arrive at the recent rate and of the recent kinds."""
        while self._newcomers and self._next_arrival <= until:
            template = self._random.choice(self._newcomers)
            self.add_events(happened.RunArrived(run=self._new_run(template), job=template.job))
            self._next_arrival = self._next_arrival_at(self._next_arrival)

    def _next_arrival_at(self, at: datetime) -> datetime:
        if not self._newcomers:
            return at
        return at + timedelta(seconds=self._random.expovariate(self.snapshot.arrivals_per_second))

    def _template_of(self, task: Task) -> _Template:
        run = self.memory.runs[task.run_id]
        return _Template(copy(task), copy(run.run), _single_task_job(run.job, task.position))

    def _new_run(self, template: _Template) -> Run:
        self._count += 1
        like = template.run
        return Run(
            id=f"run_more{self._count}", shard=like.shard, tenant=like.tenant, job_id=like.job_id,
            priority=like.priority, params=like.params, task_count=1, submitted_by=like.submitted_by,
            created_at=self.now, start_at=self.now,
        )  # fmt: skip

    # limits of groups

    def _grant(self, request: effects.RequestShare) -> None:
        group = self.memory.rules.groups.get(request.limit)
        if group is None:
            return
        has = self.memory.limits.ledger.shares.get(request.limit, 0)
        granted = max(has, min(request.wanted, group.most - self._others.get(request.limit, 0)))
        if granted > has or granted >= request.wanted:
            self.add_events(happened.ShareGranted(limit=request.limit, granted=granted, stamp=request.stamp))

    def _allow(self, request: effects.RequestRate) -> None:
        group = self.memory.rules.groups.get(request.limit)
        if group is None or group.per_seconds is None:
            return
        wanted = RateRequest(limit=request.limit, most=group.most, per_seconds=group.per_seconds, wanted=request.wanted)
        row = self._rates.get(request.limit) or _taken_before(self.snapshot, wanted)
        (answer,), changed = take([wanted], {request.limit: row}, self.now)
        self._rates[request.limit] = changed[0] if changed else row
        more_at = answer.more_at
        self.add_events(happened.RateGranted(limit=request.limit, amount=answer.granted, more_at=more_at))


def _shares_of_others(snapshot: Snapshot) -> dict[str, int]:
    """The shares of other pools in the limits of which this one requested more than it got."""
    ledger, groups = snapshot.gates.ledger, snapshot.gates.rules.groups
    return {
        limit: max(0, groups[limit].most - ledger.shares.get(limit, 0))
        for limit, wanted in ledger.requested.items()
        if limit in groups and groups[limit].per_seconds is None and wanted > ledger.shares.get(limit, 0)
    }


def _taken_before(snapshot: Snapshot, request: RateRequest) -> LimitRow:
    """What may have been taken of a rate: if the store said when there is more, its real limit, evenly until then."""
    more_at, group = snapshot.gates.ledger.not_before.get(request.limit), snapshot.gates.rules.groups.get(request.limit)
    if more_at is None or group is None:
        return LimitRow(limit=request.limit, takes=(), counts_until=snapshot.at)
    period = timedelta(seconds=request.per_seconds)
    parts = max(1, min(_MAX_TAKES, group.most))
    first, gap = more_at - period, max(timedelta(), snapshot.at - (more_at - period)) / parts
    takes = tuple(Take(first + number * gap, -(-group.most // parts)) for number in range(parts))
    return LimitRow(limit=request.limit, takes=takes, counts_until=snapshot.at + period)


def _single_task_job(job: Job, position: int) -> Job:
    """A job with only one of these tasks."""
    return replace(job, tasks=(job.tasks[position],), upstream=((),), downstream=((),), shapes=(job.shapes[position],))
