"""A shard and what surrounds it, played: rows in dicts, workers by the messages they would send, a manual clock.

    world.given_running("extract", on="w1")
    world.advance(seconds=14)
    assert world.task("extract").state is RUNNING

After each turn the batch is taken by a ledger that checks it, and the memory is checked against the rows. Workers are
silent unless `advance(heard=..)` names them. What a shard sends them waits in `said_to(worker)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from msgspec.structs import replace

from mainspring.core.fairness.sharing_rules import NO_RULES, SharingRules
from mainspring.core.lifecycle.states import HELD_BY_WORKER
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobSpec, TaskSpec, compile_job
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.protocol.ids import task_id
from mainspring.protocol.wire import Answer, Offer, Outcome, Recall, Stop, ToWorker, Verdict
from mainspring.shard import effects
from mainspring.shard import events as happened
from mainspring.shard.events import Event, RunAction, WorkerEvent
from mainspring.shard.shard import DEFAULT_BUDGET, Shard
from tests.shard import invariants, jobs, limits_held
from tests.shard.ledger import Ledger
from tests.shard.run_graph import Family
from tests.shard.virtual_worker import VirtualWorker

CHECKED_EACH_TURN = 400
"""With more tasks than this, memory and rows are compared at the end only."""
MOST_TURNS = 20_000
_E = TypeVar("_E", bound=WorkerEvent)


class World:
    """One shard from its first term on."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.ledger = Ledger()
        self.terms = 1
        self.shard = Shard("pool", seed=(1, 0))
        self.workers: dict[str, VirtualWorker] = {}
        self.batches: list[Batch] = []
        self.answers: dict[int, effects.ActionReply] = {}
        self.budget = DEFAULT_BUDGET
        self.rules = NO_RULES
        self.limit_requests: list[effects.RequestShare | effects.RequestRate] = []
        """Requests of the shard to the store without a reply."""
        self._before = limits_held.note(self.shard.memory)
        self._lookups: list[effects.LookUpAttempt | effects.LookUpRun] = []
        self._tickets = 0

    # turns

    def turn(self, *events: Event) -> Batch:
        """Run one turn with these events and the pending lookups. Effects follow the rows."""
        lookups, self._lookups = self._lookups, []
        batch = self.shard.handle([*map(self.ledger.look_up, lookups), *events], now=self.now, budget=self.budget)
        self._commit(batch)
        return batch

    def urgent_turn(self, *events: Event) -> Batch:
        """One turn that is closed as soon as possible."""
        self.shard.begin(now=self.now, budget=self.budget)
        self.shard.take(events, now=self.now)
        batch = self.shard.finish(now=self.now, urgent=True)
        self._commit(batch)
        return batch

    def turn_alone(self, event: Event) -> None:
        """One turn with this event and nothing else."""
        self._commit(self.shard.handle_alone(event, now=self.now, budget=self.budget))

    def settle(self, *events: Event) -> None:
        """Run turns with these events until the shard waits for an outside event."""
        self.turn(*events)
        for _ in range(MOST_TURNS):
            if not self._lookups and not self.shard.has_more():
                return
            self.turn()
        raise AssertionError("the shard does not come to rest")

    def settle_alone(self) -> None:
        """The same, with everything due applied one at a time, as a host does to find a fault."""
        for _ in range(MOST_TURNS):
            due = self.shard.due(self.now)
            if not due:
                return
            before = [(task, len(path)) for task, path in self.ledger.history.items()]
            for event in due:
                self.turn_alone(event)
            after = [(task, len(path)) for task, path in self.ledger.history.items()]
            if before == after and not self.shard.has_more():
                return
        raise AssertionError("the shard does not come to rest")

    def advance(self, seconds: float, *, heard: Sequence[str] = ()) -> None:
        """Let time pass, a second per turn; the workers that are named beat in each of them."""
        whole, rest = divmod(seconds, 1)
        for step in [1.0] * int(whole) + [rest] * (rest > 0):
            self.now += timedelta(seconds=step)
            self.settle(*(self.say(happened.WorkerHeartbeat, name) for name in heard))

    @contextmanager
    def rows_per_turn(self, budget: int) -> Iterator[None]:
        """Let turns be short, so that work on a run takes several."""
        before, self.budget = self.budget, budget
        yield
        self.budget = before

    def reject(self, event: Event, fault: str) -> Batch:
        """What a host does with an event that failed alone: load the memory again, and put the event on record."""
        self.reload()
        batch = self.shard.reject(event, fault, now=self.now)
        self._commit(batch)
        return batch

    def reload(self) -> None:
        """Load the memory again within the term: sessions stay."""
        self._load(before=self.shard)

    def new_leader(self) -> None:
        """Start another term: the memory is loaded from the rows, and no worker has a session."""
        self.terms += 1
        for worker in self.workers.values():
            worker.closed = True
        self._load(before=None)

    def check(self) -> None:
        """Every invariant holds now."""
        invariants.check(self.shard.memory, self.ledger)
        limits_held.check(self.shard.memory, self._before, self.now)
        self._before = limits_held.note(self.shard.memory)

    def rule(self, rules: SharingRules) -> None:
        """Apply sharing rules."""
        self.rules = replace(rules, version=self.rules.version + 1)
        self.settle(happened.RulesChanged(rules=self.rules))

    # runs

    def put_in_intake(
        self, spec: JobSpec, *, tenant: str = "acme", priority: Priority = Priority.P1, params: str = "{}",
        watched: bool = False,
    ) -> Run:  # fmt: skip
        """Create a run that is not adopted yet."""
        number = len(self.ledger.runs) + 1
        compiled = self.ledger.jobs[f"job_{number}"] = compile_job(f"job_{number}", spec)
        run = Run(
            id=f"run_{number:04}", shard="pool", tenant=tenant, job_id=compiled.id, priority=priority, params=params,
            task_count=len(compiled.tasks), submitted_by="user", watched=watched, created_at=self.now,
            start_at=self.now,
        )  # fmt: skip
        self.ledger.runs[run.id] = run
        return run

    def arrival(self, run: Run) -> happened.RunArrived:
        """Intake hands a run over."""
        return happened.RunArrived(run=replace(run), job=self.ledger.jobs[run.job_id])

    def submit(
        self, spec: JobSpec, *, tenant: str = "acme", priority: Priority = Priority.P1, params: str = "{}",
        watched: bool = False,
    ) -> Run:  # fmt: skip
        """Make a run and have it adopted."""
        run = self.put_in_intake(spec, tenant=tenant, priority=priority, params=params, watched=watched)
        self.settle(self.arrival(run))
        return self.run(run)

    def given_running(self, name: str, *, on: str, **fields: Any) -> Run:
        """A run of one task that a worker has started."""
        if on not in self.workers:
            self.register(on)
        run = self.submit(jobs.job(jobs.task(name, **fields)))
        self.start(name)
        assert self.task(name).worker_id == on
        return self.run(run)

    def given_run(self, *tasks: TaskSpec) -> Run:
        """An adopted run of these tasks."""
        return self.submit(jobs.job(*tasks))

    def run(self, run: Run | str | None = None) -> Run:
        """A run's row; the only one, if none is named."""
        if run is None:
            (only,) = self.ledger.runs.values()
            return only
        return self.ledger.runs[run if isinstance(run, str) else run.id]

    def task(self, name: str, of: Run | None = None) -> Task:
        """A task's row, by its id, its name, or of a fan-out its name and number, as in `fetch[2]`."""
        if name in self.ledger.tasks:
            return self.ledger.tasks[name]
        if name.endswith("]"):
            name, _, number = name[:-1].partition("[")
            return self.members(name, of)[int(number)]
        (found,) = [
            task for task in self.ledger.tasks.values() if task.name == name and (of is None or task.run_id == of.id)
        ]
        return found

    def members(self, name: str, of: Run | None = None) -> list[Task]:
        """The tasks of a fan-out that are not replaced, in order."""
        run = self.run(of)
        family = Family(self.ledger.jobs[run.job_id], self.ledger.tasks_of(run.id))
        (head, *_) = [task for task in family.tasks if task.name == name]
        return family.members(head)[0]

    def states(self, of: Run | None = None) -> dict[str, TaskState]:
        """The states of a run's tasks, by name."""
        return {task.name: task.state for task in self.ledger.tasks_of(self.run(of).id)}

    def names(self, state: TaskState) -> list[str]:
        """The tasks that are in a state, in the order in which they came to it last."""
        found = [task for task in self.ledger.tasks.values() if task.state is state]
        return [task.name for task in sorted(found, key=lambda task: task.since)]

    def path(self, name: str, of: Run | None = None) -> list[TaskState]:
        """The states that a task went through."""
        return self.ledger.path(self.task(name, of).id)

    # people

    def action(
        self, kind: type[RunAction], run: Run | None = None, *, task: str | None = None, **fields: Any
    ) -> effects.ActionReply:
        """Have an act carried out to its end; returns the answer."""
        event = self.asked(kind, run, task=task, **fields)
        self.settle(event)
        return self.answers[event.request_id]

    def asked(
        self, kind: type[RunAction], run: Run | None = None, *, task: str | None = None, **fields: Any
    ) -> RunAction:
        """An act, as an event."""
        self._tickets += 1
        run_id = self.run(run).id
        if task is not None:
            names = [spec.name for spec in self.ledger.jobs[self.ledger.runs[run_id].job_id].tasks]
            fields["task_id"] = task_id(run_id, names.index(task)) if task in names else self.task(task, run).id
        return kind(run_id=run_id, by="ann", request_id=self._tickets, **fields)

    def reply(self, kind: type[RunAction], run: Run | None = None, *, task: str | None = None) -> effects.ActionStatus:
        """The short form of the answer to an act."""
        return self.action(kind, run, task=task).reply

    # workers

    def register(
        self, name: str, *, cores: float = 1, gpus: int = 0, labels: dict[str, str] | None = None, zone: str = "",
        holds: Sequence[str] = (),
    ) -> VirtualWorker:  # fmt: skip
        """A worker opens its first session."""
        offer = Offer(int(cores * 1000), int(cores * jobs.GIB), gpus)
        self.workers[name] = VirtualWorker(name, offer, labels or {}, zone)
        return self.reconnect(name, holds=holds)

    def reconnect(self, name: str, *, holds: Sequence[str] | None = None) -> VirtualWorker:
        """Open another session of a worker, with the attempts that it holds, or with the given ones."""
        worker = self.workers[name]
        worker.sessions += 1
        worker.closed = False
        worker.told.clear()
        worker.holds = list(worker.holds if holds is None else holds)
        self.settle(
            self.say(
                happened.WorkerRegistered, name, offer=worker.offer, labels=worker.labels, zone=worker.zone,
                version="", holds=tuple(worker.holds),
            )
        )  # fmt: skip
        return worker

    def say(self, kind: type[_E], worker: str, **fields: Any) -> _E:
        """An event of a worker in its session."""
        return kind(worker=worker, session=self.workers[worker].session, **fields)

    def holder(self, name: str, of: Run | None = None) -> tuple[str, str]:
        """Who holds a task now, and as which attempt."""
        task = self.task(name, of)
        assert task.state in HELD_BY_WORKER, f"{name} is {task.state} ({task.because})"
        assert task.worker_id is not None
        assert task.attempt_id is not None
        return task.worker_id, task.attempt_id

    def receive(self, name: str, of: Run | None = None) -> None:
        """The worker acknowledges the task."""
        worker, attempt = self.holder(name, of)
        self.settle(self.say(happened.AttemptsReceived, worker, attempts=(attempt,)))

    def start(self, *names: str, of: Run | None = None) -> None:
        """The worker reports the start of a task."""
        for name in names:
            worker, attempt = self.holder(name, of)
            self.settle(self.say(happened.AttemptStarted, worker, attempt=attempt))

    def start_now(self, name: str, of: Run | None = None) -> None:
        """The same, in a single turn."""
        worker, attempt = self.holder(name, of)
        self.turn(self.say(happened.AttemptStarted, worker, attempt=attempt))

    def succeed(self, *names: str, output: str | None = None, of: Run | None = None) -> None:
        """The worker reports a success."""
        for name in names:
            self.settle(self.result(name, Outcome.SUCCEEDED, output=output, of=of))

    def fail(self, *names: str, error: str | None = None, of: Run | None = None) -> None:
        """The worker reports a failure."""
        for name in names:
            self.settle(self.result(name, Outcome.FAILED, error=error, of=of))

    def stop(self, *names: str, of: Run | None = None) -> None:
        """The worker reports that a task has stopped as requested."""
        for name in names:
            self.settle(self.result(name, Outcome.STOPPED, of=of))

    def give_back(self, *names: str, refusal: str | None = None, of: Run | None = None) -> None:
        """The worker returns unstarted tasks."""
        for name in names:
            worker, attempt = self.holder(name, of)
            self.workers[worker].holds.remove(attempt)
            self.settle(self.say(happened.AttemptReturned, worker, attempt=attempt, refusal=refusal))

    def result(
        self, name: str, outcome: Outcome, *, output: str | None = None, error: str | None = None, of: Run | None = None
    ) -> happened.AttemptEnded:
        """A result, as an event."""
        worker, attempt = self.holder(name, of)
        return self.say(
            happened.AttemptEnded, worker, attempt=attempt, outcome=outcome, output=output, error=error
        )  # fmt: skip

    def run_through(self, *names: str, of: Run | None = None) -> None:
        """These tasks start and succeed, one after another."""
        for name in names:
            self.start(name, of=of)
            self.succeed(name, of=of)

    # messages to workers

    def said_to(self, worker: str, kind: type[ToWorker]) -> list[ToWorker]:
        """Messages of a kind that a worker got in its session, in order."""
        return [message for message in self.workers[worker].told if isinstance(message, kind)]

    def stops(self, worker: str) -> list[tuple[str, float]]:
        """Attempts that a worker was asked to stop, and with how much grace."""
        return [(one.attempt, one.grace_seconds) for one in self.workers[worker].told if isinstance(one, Stop)]

    def recalls(self, worker: str) -> list[str]:
        """Attempts recalled from a worker."""
        return [attempt for one in self.workers[worker].told if isinstance(one, Recall) for attempt in one.attempts]

    def verdicts(self, worker: str) -> dict[str, Verdict]:
        """How a worker's results were answered."""
        return {one.attempt: one.verdict for one in self.workers[worker].told if isinstance(one, Answer)}

    # how

    def _load(self, before: Shard | None) -> None:
        rows = self.ledger.load()
        self.shard = Shard("pool", seed=(self.terms, len(self.batches)))
        self.shard.load(
            rows.runs, rows.tasks, self.ledger.jobs, rows.bulk_operations, checkpoints=rows.checkpoints, now=self.now,
            cordoned_workers=rows.cordoned_workers, breakers=rows.breakers, durations=rows.durations, rules=self.rules,
            shares=rows.shares, failure_counts=rows.failure_counts,
            before=None if before is None else before.memory,
        )  # fmt: skip
        self._before = limits_held.note(self.shard.memory)

    def _commit(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.ledger.commit(batch)
        for effect in batch.effects:
            match effect:
                case effects.Send():
                    worker = self.workers[effect.worker]
                    if worker.session == effect.session and not worker.closed:
                        worker.hear(effect.message)
                case effects.CloseLink():
                    if self.workers[effect.worker].session == effect.session:
                        self.workers[effect.worker].closed = True
                case effects.ActionReply():
                    assert effect.request_id not in self.answers, f"answered twice: {effect}"
                    self.answers[effect.request_id] = effect
                case effects.RequestShare() | effects.RequestRate():
                    self.limit_requests.append(effect)
                case effects.LookUpAttempt() | effects.LookUpRun():
                    self._lookups.append(effect)
                case _:
                    raise AssertionError(f"nobody carries out {effect}")
        if len(self.ledger.tasks) <= CHECKED_EACH_TURN:
            self.check()
