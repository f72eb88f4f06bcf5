"""One shard: the in-memory scheduler of one pool. Events in, batch out.

`handle` is the only mutator (in one call, or as `begin`, `take`, `finish`). It applies events, decides what follows,
and returns the batch. Nothing leaves the shard until the batch is committed. No I/O, clock or randomness of its own:
`now` is an argument, and the generator is seeded with the term's nonce.

Order of a turn: advance the clock; apply events; mark silent workers lost and fire timers; run propagations and bulk
operations, a part at a time; place tasks. The last two can be deferred: they stop when the row budget of the turn is
used up, and `has_more` says so. Each has its own part of the budget, so that adopting a large run never delays
placement.

To add an event: `shard/events.py`, a case in `_apply`, its owner in `shard/rejected_events.py`.
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
    BulkOperationKind,
    Checkpoint,
    DurationRow,
    FailureCountRow,
    WorkerRow,
)
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.core.model.task import Task, TaskState
from mainspring.protocol.errors import Broken
from mainspring.shard import events as happened
from mainspring.shard import invariants, rejected_events
from mainspring.shard.actions import actions
from mainspring.shard.events import Event
from mainspring.shard.placement import concurrency_groups, dispatch, reservations, rule_changes
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.tasks import (
    adoption,
    bulk_operations,
    circuit_breakers,
    deadlines,
    progress,
    run_pacing,
    timeouts,
)
from mainspring.shard.turn import Turn
from mainspring.shard.workers import claims, cordon, liveness, reports
from mainspring.shard.workers.claim_events import ClaimAbandoned, ClaimCall

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
            self._apply(turn, event)

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
            self._apply(turn, timer)
        self._defer = urgent and not self._defer
        if not self._defer:
            turn.grant_quarter()
            self._go_on(turn)
        turn.grant_quarter()
        self._cut_short = not dispatch.place(turn)
        memory = self.memory
        turn.batch.durations = memory.durations.rows_to_write(memory.shard, life=memory.life, now=now)
        self._cut_short = self._cut_short or turn.spent()
        return turn.close()

    def handle_alone(self, event: Event, *, now: datetime, budget: int = DEFAULT_BUDGET) -> Batch:
        """Apply this one event and nothing else, so that a fault has an owner."""
        turn = self._turn(now, budget)
        self._apply(turn, event)
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
        found += [
            happened.TaskUndecided(run_id=run, position=position) for run, position in self.memory.backlog.undecided
        ]
        found += [
            happened.PropagationStep(run_id=run, position=position)
            for run, position in self.memory.backlog.propagations
        ]
        found += [
            happened.BulkOperationStep(run_id=run, kind=kind, parent=of)
            for run, kind, of in self.memory.backlog.bulk_operations
        ]
        shapes = dict.fromkeys(self.memory.queues.shapes() + self.memory.queues.blocked.shapes_returning())
        shapes.update((shape, None) for _, _, shape in self.memory.queues.ready())
        found += [happened.PlaceShape(shape=shape) for shape in shapes]
        return found

    def has_more(self) -> bool:
        """Whether there is work that needs no outside event."""
        memory = self.memory
        return bool(
            self._cut_short or memory.backlog or memory.claims.recalled
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

    def _apply(self, turn: Turn, event: Event) -> None:
        match event:
            case happened.WorkerRegistered():
                liveness.register(turn, event)
            case happened.WorkerEvent():
                if liveness.note_heartbeat(turn, event):
                    self._apply_report(turn, event)
            case happened.RunArrived():
                adoption.adopt(turn, event)
            case happened.RunUnreadable():
                rejected_events.reject(turn, event, event.fault)
            case happened.EventNotStorable():
                if liveness.note_heartbeat(turn, event.event):
                    rejected_events.reject(turn, event.event, event.fault)
            case happened.RunAction():
                actions.apply(turn, event)
            case happened.WorkerAction():
                cordon.apply(turn, event)
            case ClaimCall():
                claims.apply(turn, event)
            case happened.WorkerSilent():
                liveness.silent_workers(turn, event)
            case happened.RunsExpired():
                named = dict.fromkeys([*turn.batch.archived, *event.run_ids])
                turn.batch.archived = [run for run in named if run not in self.memory.runs]
            case _:
                self._apply_due(turn, event)

    def _apply_due(self, turn: Turn, event: Event) -> None:
        """Events of the shard itself: what is due, and what the host reports."""
        match event:
            case happened.TimerDue():
                self._apply_timer(turn, event)
            case happened.TaskUndecided():
                self._decide_again(turn, event.run_id, event.position)
            case happened.PropagationStep():
                self._step_propagation(turn, event.run_id, event.position)
            case happened.BulkOperationStep():
                self._step_bulk_operation(turn, event.run_id, event.kind, event.parent)
            case happened.PlaceShape():
                dispatch.place(turn, only=event.shape)
            case happened.StoreLagged():
                self.memory.queues.suspended_from = event.hold
            case happened.SettingsChanged():
                self.memory.retune(event.scheduler_settings)
            case happened.RulesChanged():
                rule_changes.rule(turn, event)
            case happened.ShareGranted():
                concurrency_groups.share_granted(turn, event)
            case happened.ShareWanted():
                concurrency_groups.share_wanted(turn, event)
            case happened.RateGranted():
                concurrency_groups.rate_granted(turn, event)
            case happened.InvariantsDue():
                invariants.check(turn)
            case ClaimAbandoned():
                claims.drop(turn, event)
            case _:
                raise Broken(f"no handler for {event}")

    def _apply_report(self, turn: Turn, event: happened.WorkerEvent) -> None:
        match event:
            case happened.AttemptsReceived():
                reports.received(turn, event)
            case happened.AttemptStarted():
                reports.started(turn, event)
            case happened.AttemptEnded():
                reports.ended(turn, event)
            case happened.AttemptReturned():
                reports.returned(turn, event)
            case happened.CheckpointSaved():
                reports.checkpoint(turn, event)
            case happened.ExtensionRequested():
                timeouts.more_time(turn, event)
            case happened.WorkerHeartbeat():
                reports.progressed(turn, event)
            case happened.WorkerLeaving():
                liveness.leave(turn, event)
            case happened.WorkerGone():
                liveness.remove_gone(turn, event)
            case _:
                raise Broken(f"no handler for {event}")

    def _apply_timer(self, turn: Turn, timer: happened.TimerDue) -> None:
        match timer.kind:
            case happened.TimerKind.SILENCE | happened.TimerKind.RECEIPT:
                liveness.due(turn, timer)
            case happened.TimerKind.CLAIM | happened.TimerKind.CLAIM_SILENCE:
                claims.due(turn, timer)
            case happened.TimerKind.RETRY:
                progress.retry_due(turn, timer)
            case happened.TimerKind.TASK_LIMIT:
                timeouts.hard_limit_due(turn, timer)
            case happened.TimerKind.SOFT_LIMIT:
                timeouts.soft_limit_due(turn, timer)
            case happened.TimerKind.STALL:
                timeouts.stall_due(turn, timer)
            case happened.TimerKind.CIRCUIT:
                circuit_breakers.circuit_due(turn, timer)
            case happened.TimerKind.PACE:
                run_pacing.due(self.memory, timer)
            case happened.TimerKind.RESERVATION:
                reservations.due(turn, timer)
            case happened.TimerKind.RULES:
                rule_changes.due(turn)
            case happened.TimerKind.LIMIT:
                concurrency_groups.limit_due(turn, timer)
            case happened.TimerKind.THROTTLE:
                pass  # the tenant is checked again when the turn places tasks
            case happened.TimerKind.RUN_LIMIT | happened.TimerKind.DEADLINE:
                self._run_due(turn, timer)

    def _run_due(self, turn: Turn, timer: happened.TimerDue) -> None:
        if timer.kind is happened.TimerKind.DEADLINE:
            deadlines.due(turn, timer)
            return
        run = self.memory.runs[timer.subject]
        run.run.timed_out = True
        turn.mark(run)
        turn.open_bulk_operation(run, BulkOperationKind.CANCEL, by="shard", why="the run timed out")

    def _go_on(self, turn: Turn) -> None:
        """Run propagations and bulk operations within the budget. Each gets one step before any gets a second."""
        memory = self.memory
        while memory.backlog.undecided and not turn.spent():
            self._decide_again(turn, *memory.backlog.undecided[0])
        self._drain_propagations(turn)
        for _ in range(len(memory.backlog.bulk_operations)):
            if turn.spent() or not memory.backlog.bulk_operations:
                return
            self._step_bulk_operation(turn, *memory.backlog.bulk_operations[0])
            self._drain_propagations(turn)

    def _drain_propagations(self, turn: Turn) -> None:
        while self.memory.backlog.propagations and not turn.spent():
            self._step_propagation(turn, *self.memory.backlog.propagations[0])

    def _decide_again(self, turn: Turn, run_id: str, position: int) -> None:
        self.memory.backlog.undecided.take((run_id, position))
        run = self.memory.runs.get(run_id)
        if run is not None and not run.waiting[position]:
            task = run.tasks[position]
            if task.state is TaskState.PENDING and task.due_at is None:
                progress.free(turn, run, task)

    def _step_propagation(self, turn: Turn, run_id: str, position: int) -> None:
        """Notify more children of an ended task. A held run is skipped until a person resumes it."""
        self.memory.backlog.propagations.take((run_id, position))
        run = self.memory.runs.get(run_id)
        if run is None or run.run.held is not None or position not in run.propagations:
            return
        end = progress.propagate(turn, run, position)
        if end is progress.Step.MORE:
            self.memory.backlog.propagations.appendleft((run_id, position))
        elif end is progress.Step.LATER:
            run_pacing.defer_propagation(self.memory, run, position)

    def _step_bulk_operation(self, turn: Turn, run_id: str, kind: BulkOperationKind, parent: str) -> None:
        """One step of a bulk operation; if it is not finished, it goes to the end of the queue."""
        self.memory.backlog.bulk_operations.take((run_id, kind, parent))
        run = self.memory.runs.get(run_id)
        if run is None or run.run.held is not None or (kind, parent) not in run.bulk_operations:
            return
        end = bulk_operations.step(turn, run, run.bulk_operations[kind, parent])
        if end is progress.Step.MORE:
            self.memory.backlog.bulk_operations.append((run_id, kind, parent))
        elif end is progress.Step.LATER:
            run_pacing.defer_bulk_operation(self.memory, run, kind, parent)
