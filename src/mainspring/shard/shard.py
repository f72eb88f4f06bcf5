"""One shard: the in-memory scheduler of one pool. Events in, batch out.

`handle` is the only mutator (in one call, or as `begin`, `take`, `finish`). It applies events, decides what follows,
and returns the batch. Nothing leaves the shard until the batch is committed. No I/O, clock or randomness of its own:
`now` is an argument, and the generator is seeded with the term's nonce.

Order of a turn: advance the clock; apply events; mark silent workers lost and fire timers; run propagations and bulk
operations, a part at a time; place tasks. The last two can be deferred: they stop when the row budget of the turn is
used up, as `has_more` reports. Each has its own part of the budget, so that adopting a large run never delays
placement.

Which function applies which event is in `shard/handlers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from random import Random

from mainspring.core.fairness.sharing_rules import NO_RULES, SharingRules
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.batch import (
    Batch,
    BreakerRow,
    BulkOperation,
    Checkpoint,
    DurationRow,
    FailureCountRow,
    WorkerRow,
)
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.core.model.task import Task
from mainspring.protocol.errors import Broken
from mainspring.shard import events as happened
from mainspring.shard import handlers, rejected_events
from mainspring.shard.events import Event
from mainspring.shard.placement import dispatch, rule_changes
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.tasks import (
    adoption,
    bulk_operations,
    circuit_breakers,
    progress,
    timeouts,
)
from mainspring.shard.turn import Turn
from mainspring.shard.workers import claims, liveness

DEFAULT_BUDGET = 2_000
_TIMERS_PER_TURN = 500


class Shard:
    """The runs, tasks and workers of one pool."""

    def __init__(self, shard: str, *, seed: tuple[int, int], scheduler_settings: SchedulerSettings = DEFAULTS) -> None:
        """`seed` is the term's nonce and the number of the last batch: no attempt id is ever drawn twice."""
        self.memory = ShardMemory(shard, scheduler_settings)
        self._cut_short = False
        self._defer = False
        self._open: Turn | None = None
        self._random = Random(f"{seed[0]}:{seed[1]}")

    def load(
        self,
        runs: Sequence[Run],
        tasks: Sequence[Task],
        jobs: dict[str, Job],
        open_operations: Sequence[BulkOperation],
        *,
        checkpoints: Sequence[Checkpoint] = (),
        cordoned_workers: Sequence[WorkerRow] = (),
        breakers: Sequence[BreakerRow] = (),
        durations: Sequence[DurationRow] = (),
        rules: SharingRules = NO_RULES,
        shares: Sequence[ShareRow] = (),
        failure_counts: Sequence[FailureCountRow] = (),
        now: datetime,
        before: ShardMemory | None = None,
    ) -> None:
        """Load the rows. Workers that hold leases are EXPECTED, and lost only after the grace period.

        If the memory is reloaded within a term, what workers reported `before` still applies.
        """
        self.memory.workers.load(cordoned_workers)
        self.memory.set_rules(rules)
        self.memory.limits.ledger.load(shares)
        self.memory.limits.failures.load(failure_counts)
        if before is not None:
            liveness.carry_over(before, self.memory)
        tasks_of: dict[str, list[Task]] = {run.id: [] for run in runs}
        for task in tasks:
            tasks_of[task.run_id].append(task)
        operations_of: dict[str, list[BulkOperation]] = {}
        for operation in open_operations:
            operations_of.setdefault(operation.run_id, []).append(operation)
        self.memory.timers.advance(now)
        for run in runs:
            mine = operations_of.get(run.id, [])
            adoption.restore_run(self.memory, run, jobs[run.job_id], tasks_of[run.id], mine, now)
        self.memory.queues.sort()
        adoption.restore_checkpoints(self.memory, checkpoints)
        circuit_breakers.restore(self.memory, breakers, now)
        self.memory.durations.load(durations)
        if before is not None:
            liveness.carry_over_attempts(before, self.memory)
            timeouts.restore_progress(self.memory)
        rule_changes.watch(self.memory, now)
        turn = self._turn(now, 0)
        claims.restore(self.memory)
        for worker in self.memory.workers.values():
            liveness.watch(turn, worker)

    def handle(self, events: Iterable[Event], *, now: datetime, budget: int = DEFAULT_BUDGET) -> Batch:
        """Apply events and return the batch that follows.

        The batch is the only output. Nothing leaves the shard until it is committed.
        """
        self.begin(now=now, budget=budget)
        self.take(events, now=now)
        return self.finish(now=now)

    def begin(self, *, now: datetime, budget: int = DEFAULT_BUDGET) -> None:
        """Begin a turn: the first of the three parts of `handle`, for applying events as they arrive."""
        self._open = self._turn(now, budget)

    def take(self, events: Iterable[Event], *, now: datetime) -> None:
        """Apply more events to the open turn."""
        turn = self._opened()
        turn.now = now
        self.memory.timers.advance(now)
        for event in events:
            handlers.apply(turn, event)

    def is_spent(self) -> bool:
        """Whether the open turn has used up its row budget: later events belong to the next turn."""
        return self._opened().spent()

    def finish(self, *, now: datetime, urgent: bool = False) -> Batch:
        """Run what is due, place tasks, and close the turn.

        If urgent, propagations and bulk operations are deferred to the next turn, but never twice in a row.
        """
        turn = self._opened()
        self._open = None
        self.memory.timers.advance(now)
        turn.now = now
        liveness.remove_silent(turn)
        for timer in self.memory.timers.pop_due(now, _TIMERS_PER_TURN):
            handlers.apply(turn, timer)
        self._defer = urgent and not self._defer
        if not self._defer:
            turn.grant_quarter()
            self._continue_backlog(turn)
        turn.grant_quarter()
        self._cut_short = not dispatch.place(turn)
        memory = self.memory
        turn.batch.durations = memory.durations.rows_to_write(memory.shard, life=memory.shard_time, now=now)
        self._cut_short = self._cut_short or turn.spent()
        return turn.close()

    def handle_alone(self, event: Event, *, now: datetime, budget: int = DEFAULT_BUDGET) -> Batch:
        """Apply this one event and nothing else, so that a fault has an owner."""
        turn = self._turn(now, budget)
        handlers.apply(turn, event)
        liveness.remove_silent(turn)
        return turn.close()

    def reject(self, event: Event, fault: str, *, now: datetime) -> Batch:
        """Record an event that failed alone, and hold its owner."""
        turn = self._turn(now, DEFAULT_BUDGET)
        rejected_events.reject(turn, event, fault)
        return turn.close()

    def due(self, now: datetime) -> list[Event]:
        """Everything that is due now, as events that can be applied one at a time."""
        self.memory.timers.advance(now)
        found: list[Event] = list(self.memory.timers.pop_due(now, _TIMERS_PER_TURN))
        backlog = self.memory.backlog
        found += [*backlog.undecided, *backlog.propagations, *backlog.bulk_operations]
        shapes = dict.fromkeys(self.memory.queues.shapes() + self.memory.queues.blocked.shapes_returning())
        shapes.update((shape, None) for _, _, shape in self.memory.queues.ready())
        found += [happened.PlaceShape(shape=shape) for shape in shapes]
        return found

    def has_more(self) -> bool:
        """Whether there is work that needs no outside event."""
        memory = self.memory
        return bool(
            self._cut_short or memory.backlog or memory.claims.has_recalled()
            or memory.queues.blocked.returning or memory.limits.ledger.freed
        )  # fmt: skip

    def seconds_to_timer(self, now: datetime) -> float | None:
        """Seconds until the next timer; None if there is none."""
        return self.memory.timers.seconds_to_next(now)

    def _opened(self) -> Turn:
        if self._open is None:
            raise Broken("no turn is open")
        return self._open

    def _turn(self, now: datetime, budget: int) -> Turn:
        self.memory.timers.advance(now)
        return Turn(self.memory, now, self._random, budget)

    def _continue_backlog(self, turn: Turn) -> None:
        """Run propagations and bulk operations within the budget. Each gets one step before any gets a second."""
        backlog = self.memory.backlog
        while backlog.undecided and not turn.spent():
            progress.decide_again(turn, backlog.undecided[0])
        self._drain_propagations(turn)
        for _ in range(len(backlog.bulk_operations)):
            if turn.spent() or not backlog.bulk_operations:
                return
            bulk_operations.continue_operation(turn, backlog.bulk_operations[0])
            self._drain_propagations(turn)

    def _drain_propagations(self, turn: Turn) -> None:
        while self.memory.backlog.propagations and not turn.spent():
            progress.step(turn, self.memory.backlog.propagations[0])
