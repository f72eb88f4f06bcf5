"""A cluster under a mixed load, on a manual clock: several tenants, sizes and priorities, and durations that vary.

    load = MixedLoad(seed=1)
    load.advance(120)
    load.queued()

A real shard decides. The workers follow instructions immediately; each task takes as long as one drawn from the kind of
job that it is of, which is what the shard knows of their durations, too. New work comes all the time, as much as keeps
`load` of the fleet busy.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.limits.rate_grants import LimitRow, RateRequest, take
from mainspring.core.model.job import Job, JobSpec, TaskSpec, compile_job
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.protocol.wire import Assign, Offer, Outcome, Recall, Stop
from mainspring.shard import effects
from mainspring.shard import events as happened
from mainspring.shard.shard import Shard
from tests.shard import jobs, sharing_rules

TENANTS = ("acme", "beta", "gamma")
_CORES = (4, 8, 8)
"""Of each worker."""
_THEN = datetime(2026, 1, 1, tzinfo=UTC)
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Kind(NamedTuple):
    """A kind of job."""

    job: Job
    tenant: str
    seconds: tuple[float, ...]
    """How long its tasks take: each as likely as another."""


class MixedLoad:
    """A shard, its workers, and changing work."""

    def __init__(
        self,
        seed: int,
        *,
        load: float = 0.85,
        rules: SharingRules | None = None,
        asks: Mapping[int, Mapping[str, Any]] = _NOTHING,
        offers: Mapping[str, str] = _NOTHING,
    ) -> None:
        """`asks` has for each number of a kind what its tasks ask for besides; `offers` the zone of each worker, which
        is also a label of it."""
        self.random = Random(seed)
        self.now = _THEN
        self.shard = Shard("pool", seed=(seed, 0))
        self.starts: dict[str, datetime] = {}
        """By task: when it was placed, the last time."""
        self.first_starts: dict[str, datetime] = {}
        """Time of the first start, or since it was cleared."""
        self.where: dict[str, str] = {}
        """And on which worker."""
        self.victims: dict[str, str | None] = {}
        """Tasks that were asked to stop, and for which task."""
        self._asks, self._offers = asks, offers
        self._later: list[tuple[datetime, int, happened.Event]] = []
        self._count = 0
        self._rates: dict[str, LimitRow] = {}
        self.kinds = [self._kind(number) for number in range(9)]
        self._per_second = load * sum(_CORES) / (sum(map(_core_seconds, self.kinds)) / len(self.kinds))
        self.turn(happened.RulesChanged(rules=rules or _RULES))
        for number, cores in enumerate(_CORES):
            self.turn(self._registered(f"w{number}", cores))
        self._arrive_next()

    # work

    def submit(self, kind: Kind, priority: Priority, job: Job | None = None) -> str:
        """A run of a kind of job arrives; returns the id of its first task."""
        self._count += 1
        job = job or kind.job
        run = Run(
            id=f"run_{self._count:05}", shard="pool", tenant=kind.tenant, job_id=job.id, priority=priority, params="{}",
            task_count=len(job.tasks), submitted_by="user", created_at=self.now, start_at=self.now,
        )  # fmt: skip
        self.turn(happened.RunArrived(run=run, job=job))
        return f"task_{run.id[4:]}.0"

    def submit_some(self, count: int) -> None:
        """This number of runs of any kind arrive at once."""
        for _ in range(count):
            self.submit(self.random.choice(self.kinds), self._priority())

    def queued(self) -> list[Task]:
        """All tasks that wait in a queue, the oldest first."""
        tasks = (task for run in self.shard.memory.runs.values() for task in run.tasks)
        return sorted((task for task in tasks if task.state is TaskState.QUEUED), key=lambda task: task.since)

    def task(self, task_id: str) -> Task:
        """A task that is not over."""
        task = self.shard.memory.runs.find(task_id)
        assert task is not None
        return task

    # time

    def advance(self, seconds: float) -> None:
        """Let this time pass."""
        until = self.now + timedelta(seconds=seconds)
        while self._step(until):
            pass
        self.now = until
        self.turn()

    def stand_still(self, seconds: float) -> None:
        """Advance the clock while nothing arrives, starts or ends except by the shard."""
        later, self._later = self._later, []
        self.advance(seconds)
        for entry in later:
            heapq.heappush(self._later, entry)

    def advance_until(self, task_ids: Iterable[str], most_seconds: float) -> None:
        """Advance the clock until all of these have started, up to a limit."""
        until = self.now + timedelta(seconds=most_seconds)
        left = set(task_ids)
        while left and self._step(until):
            left.difference_update(self.first_starts)

    def turn(self, *events: happened.Event) -> None:
        """Let this happen, and the shard decide until it waits for something."""
        waiting = list(events)
        for _ in range(50):
            self._answers: list[happened.Event] = []
            for effect in self.shard.handle(waiting, now=self.now).effects:
                self._carry_out(effect)
            waiting = self._answers
            if not waiting and not self.shard.has_more():
                return

    def _step(self, until: datetime) -> bool:
        seconds = self.shard.seconds_to_timer(self.now)
        timer = self.now + timedelta(seconds=max(0.01, min(1.0, 1.0 if seconds is None else seconds)))
        due = min(timer, self._later[0][0] if self._later else timer)
        if due > until:
            return False
        self.now = due
        events: list[happened.Event] = [
            happened.WorkerHeartbeat(worker=name, session=name) for name in self.shard.memory.workers
        ]
        while self._later and self._later[0][0] <= self.now:
            event = heapq.heappop(self._later)[2]
            if isinstance(event, happened.InvariantsDue):
                self.submit(self.random.choice(self.kinds), self._priority())
                self._arrive_next()
            else:
                events.append(event)
        self.turn(*events)
        return True

    def _at(self, seconds: float, event: happened.Event) -> None:
        self._count += 1
        heapq.heappush(self._later, (self.now + timedelta(seconds=seconds), self._count, event))

    def _arrive_next(self) -> None:
        if self._per_second:
            self._at(self.random.expovariate(self._per_second), happened.InvariantsDue())

    # surroundings of the shard

    def _carry_out(self, effect: object) -> None:
        match effect:
            case effects.Send(message=Assign() as message):
                self._begin(effect.worker, [one.attempt for one in message.group])
            case effects.Send(message=Stop() as message):
                self._note_victim(self.shard.memory.attempts[message.attempt])
                self._end(effect.worker, message.attempt, self.random.uniform(0, 0.3) * message.grace_seconds)
            case effects.Send(message=Recall() as message):
                self._give_back(effect.worker, message.attempts)
            case effects.RequestShare():
                most = self.shard.memory.rules.groups[effect.limit].most
                granted = min(most, effect.wanted)
                self._answers.append(happened.ShareGranted(limit=effect.limit, granted=granted, stamp=effect.stamp))
            case effects.RequestRate():
                self._allow(effect)
            case _:
                pass

    def _begin(self, worker: str, attempts: list[str]) -> None:
        for attempt in attempts:
            task = self.shard.memory.attempts[attempt]
            self.starts[task.id], self.where[task.id] = self.now, worker
            self.first_starts.setdefault(task.id, self.now)
            self._answers.append(happened.AttemptStarted(worker=worker, session=worker, attempt=attempt))
            job = self.shard.memory.runs[task.run_id].job.spec.name
            kind = next(kind for kind in self.kinds if kind.job.spec.name == job)
            self._end(worker, attempt, self.random.choice(kind.seconds))

    def _end(self, worker: str, attempt: str, seconds: float) -> None:
        task = self.shard.memory.attempts[attempt]
        outcome = Outcome.STOPPED if task.stop is not None else Outcome.SUCCEEDED
        event = happened.AttemptEnded(
            worker=worker, session=worker, attempt=attempt, outcome=outcome, looked_up=True, recorded=None
        )
        self._at(seconds, event)

    def _give_back(self, worker: str, attempts: tuple[str, ...]) -> None:
        for attempt in attempts:
            task = self.shard.memory.attempts.get(attempt)
            if task is not None and task.state is TaskState.ASSIGNED:
                self._note_victim(task)
                self._answers.append(happened.AttemptReturned(worker=worker, session=worker, attempt=attempt))

    def _note_victim(self, task: Task) -> None:
        self.victims[task.id] = None if task.stop is None else task.stop.for_task

    def _allow(self, effect: effects.RequestRate) -> None:
        group = self.shard.memory.rules.groups[effect.limit]
        assert group.per_seconds is not None
        request = RateRequest(limit=effect.limit, most=group.most, per_seconds=group.per_seconds, wanted=effect.wanted)
        row = self._rates.get(effect.limit) or LimitRow(limit=effect.limit, takes=(), counts_until=self.now)
        (answer,), changed = take([request], {effect.limit: row}, self.now)
        self._rates[effect.limit] = changed[0] if changed else row
        self._answers.append(happened.RateGranted(limit=effect.limit, amount=answer.granted, more_at=answer.more_at))

    # what there is

    def _kind(self, number: int) -> Kind:
        """Tasks of one size, which usually take about as long as each other, and sometimes much longer."""
        tenant, cores = TENANTS[number % len(TENANTS)], self.random.choice((1, 1, 2, 2, 3, 4))
        middle = self.random.choice((8, 15, 30, 60))
        seconds = tuple(middle * self.random.lognormvariate(0, 0.4) for _ in range(40))
        name = f"kind{number}"
        tasks: tuple[TaskSpec, ...] = (jobs.task("a", resources=jobs.cores(cores), **self._asks.get(number, {})),)
        if number % 4 == 3:
            tasks = (*tasks, jobs.task("b", "a", resources=jobs.cores(1)))
        for took in seconds:
            for task in tasks:
                self.shard.memory.durations.record(tenant, name, task.name, took, life=0.0)
        return Kind(compile_job(f"job_{number}", JobSpec(name=name, tasks=tasks)), tenant, seconds)

    def _priority(self) -> Priority:
        return self.random.choices((Priority.P0, Priority.P1, Priority.P2), (0.05, 0.55, 0.4))[0]

    def _registered(self, name: str, cores: int) -> happened.WorkerRegistered:
        zone = self._offers.get(name, "")
        return happened.WorkerRegistered(
            worker=name, session=name, offer=Offer(cores * 1000, cores * jobs.GIB),
            labels={"in": zone} if zone else {}, zone=zone, version="", holds=(),
        )  # fmt: skip


def _core_seconds(kind: Kind) -> float:
    """What a run of a kind takes of the fleet, on average."""
    cores = sum(task.resources.cpu_millis for task in kind.job.tasks) / 1_000
    return cores * sum(kind.seconds) / len(kind.seconds)


_RULES = sharing_rules.rules(
    sharing_rules.quota("acme", guaranteed=4, weight=2.0),
    sharing_rules.quota("beta", burst=8),
    sharing_rules.quota("gamma"),
)
