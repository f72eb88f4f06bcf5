"""One turn of a shard: the memory that it changes and the batch that it fills.

Every change of a row goes through here, so that the batch is complete: `move` for states, `touch` for other fields of a
task, `mark` for the columns of a run. `close` derives the states of runs, removes final ones, and finishes the batch
with copies of the rows.

A turn has a row budget. Steps that can wait (bulk operations, propagations, placement) stop when it is used up, and
continue in the next turn: this keeps batches short, and a P0 from waiting behind a long one.
"""

from __future__ import annotations

from copy import copy
from datetime import datetime, timedelta
from random import Random

import msgspec

from mainspring.core.lifecycle.states import FINAL, create, move
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.batch import (
    Batch,
    BreakerRow,
    BulkOperation,
    BulkOperationKind,
    Checkpoint,
    Effect,
    FailureCountRow,
    OutboxRow,
    TaskChange,
    WorkerRow,
)
from mainspring.core.model.resources import NAMES
from mainspring.core.model.run import FINAL_RUN, Run, RunState, update_state
from mainspring.core.model.task import Attempt, AttemptEnd, Priority, Task, TaskState
from mainspring.core.model.worker import Worker
from mainspring.core.placement.feasibility import Shortlist
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.wire import Stop, ToWorker
from mainspring.shard import alerts
from mainspring.shard.effects import ActionReply, ActionStatus, Send
from mainspring.shard.events import ActionRequest, BulkOperationStep, TimerKind
from mainspring.shard.placement import reservations
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.state.runs import PAST_INTAKE

S = TaskState
MAX_DEADLINE_CHECKS = 5_000
_ENCODER = msgspec.json.Encoder()
_AUDITED_RESULTS = (ActionStatus.DONE, ActionStatus.ALREADY)
_BLOCKED_PER_ROW = 8
"""Blocking a task costs about an eighth of writing a row."""


class Turn:
    """The work on one batch."""

    def __init__(self, memory: ShardMemory, now: datetime, random: Random, budget: int) -> None:
        self.memory = memory
        self.now = now
        self.random = random
        self.batch = Batch()
        self.budget = budget
        self.silent_workers: list[str] = []
        """Workers that are silent according to their rows: checked when all events of the turn are applied."""
        self.deadline_checks_left = MAX_DEADLINE_CHECKS
        """How many more tasks may be checked for deadlines in this turn: a check writes no row."""
        self.shortlists: dict[Shape, Shortlist] = {}
        """Workers found for tasks placed in this turn, for the next tasks of the same shape."""
        self._row_limit = budget
        self._tasks: dict[str, tuple[Task, TaskState, int]] = {}
        self._new: dict[str, Task] = {}
        self._runs: dict[str, RunMemory] = {}
        """Runs whose tasks have changed state."""
        self._marked: set[str] = set()
        """Runs whose own columns have changed."""
        self._bulk_operations: dict[tuple[str, BulkOperationKind, str], BulkOperation] = {}
        self._opened: set[tuple[str, BulkOperationKind, str]] = set()
        self._workers: dict[str, WorkerRow] = {}
        self._checkpoints: dict[str, Checkpoint] = {}
        self._breakers: dict[tuple[str, str], BreakerRow] = {}
        self._shares: dict[str, ShareRow] = {}
        self._failure_counts: dict[tuple[str, datetime], FailureCountRow] = {}
        self._blocked_or_released = 0
        """Tasks that were blocked or released: no row is written, but it takes time."""
        self._signals = False

    # rows

    def spent(self) -> bool:
        """Whether the batch has reached its size limit. Work that can wait is deferred."""
        return self._rows() >= self._row_limit

    def grant_quarter(self) -> None:
        """Grant the next phase a quarter of the budget, whatever was used before it, so that no phase starves."""
        self._row_limit = max(self._row_limit, self._rows() + self.budget // 4)

    def _rows(self) -> int:
        """Upper estimate of the rows that the batch would write now: not every checked run has changed."""
        written = len(self.batch.transitions) + len(self.batch.attempts)
        written += len(self._tasks) + len(self._new) + len(self._runs) + len(self._checkpoints)
        return written + self._blocked_or_released // _BLOCKED_PER_ROW

    def create(self, task: Task) -> None:
        """Add a new task to the batch."""
        self.batch.transitions.append(create(task))
        self._new[task.id] = task

    def move(self, task: Task, to: TaskState, *, by: str, because: str) -> None:
        """Change the state of a task. The only way for a shard to do so."""
        self.touch(task)
        start = task.state
        if start is S.QUEUED:
            if task.reserved is not None:
                reservations.release(self, task)
            self.memory.queues.remove(task)
        elif start is S.QUARANTINED:
            self.batch.outbox.append(alerts.quarantined(task, self.now, resolved=True))
        elif task.due_at is not None:
            task.due_at = None
            self.memory.runs[task.run_id].delayed -= 1
        self.batch.transitions.append(move(task, to, now=self.now, by=by, because=because))
        self.recount(task, start)
        if to is S.QUEUED:
            shape = self.memory.shape(task)
            self.memory.queues.push(task, shape)
            self.memory.mark_starved_if_parked(task, shape)
        elif to is S.QUARANTINED:
            self.batch.outbox.append(alerts.quarantined(task, self.now))
        elif to is S.FAILED or to is S.TIMED_OUT:
            row = self.memory.limits.failures.record(self.memory.shard, task.tenant, self.now)
            self._failure_counts[row.tenant, row.since] = row

    def delay(self, task: Task, due_at: datetime) -> None:
        """Make a PENDING task wait until a time, or until a later one."""
        if task.due_at is None:
            self.memory.runs[task.run_id].delayed += 1
        task.due_at = due_at
        self.memory.timers.set_at(due_at, TimerKind.RETRY, task.id, task.seq)

    def recount(self, task: Task, start: TaskState) -> None:
        """Update the counts of the run and the tenant after a change of state."""
        run, state = self.memory.runs[task.run_id], task.state
        counts, ended, had_ended = run.counts, state in FINAL, start in FINAL
        waits, waited = state not in PAST_INTAKE, start not in PAST_INTAKE
        is_replaced = task.origin is not None and task.origin.replaced
        if not (is_replaced and had_ended):
            counts[start] -= 1
        if not (is_replaced and ended):
            counts[state] = counts.get(state, 0) + 1
        self._runs[task.run_id] = run
        run.changed_at = self.now
        if waits is not waited:
            self.memory.runs.unstarted.count(task.priority, task.tenant, 1 if waits else -1)

    def set_priority(self, task: Task, priority: Priority) -> None:
        """Change the priority of a task that has not ended, in its row and in every index that depends on it."""
        self.touch(task)
        reservations.release(self, task)
        was, task.priority = task.priority, priority
        if task.state not in PAST_INTAKE:
            self.memory.runs.move_unstarted(task.tenant, was, priority)
        if task.state is S.QUEUED:
            self.memory.queues.blocked.discard(task)
            shape = self.memory.shape(task)
            self.memory.queues.change(task, shape, was)
            self.memory.mark_starved_if_parked(task, shape)
        elif task.lease_id is not None:
            self.memory.leases.update_priority(self.memory.leases[task.lease_id])

    def block(self, subject: str, why: str, task: Task, shape: Shape) -> None:
        """Block a task that was taken out of its queue: it waits for something other than capacity."""
        self.memory.queues.blocked.put(subject, why, task, shape)
        reservations.release(self, task)
        self._blocked_or_released += 1

    def put_back(self) -> None:
        """Return released tasks to their queues: they wait for capacity only."""
        blocked = self.memory.queues.blocked
        while blocked.returning and not self.spent():
            for task, shape in blocked.returned(_BLOCKED_PER_ROW):
                self.memory.queues.put_back(task, shape)
            self._blocked_or_released += _BLOCKED_PER_ROW

    def replace(self, task: Task) -> None:
        """The creator of this task was started again: once the task has ended, it no longer counts."""
        if task.origin is None or task.origin.replaced:
            return
        self.touch(task)
        task.origin = msgspec.structs.replace(task.origin, replaced=True)
        run = self._runs[task.run_id] = self.memory.runs[task.run_id]
        if task.state in FINAL:
            run.counts[task.state] -= 1

    def touch(self, task: Task) -> None:
        """Record that a task's row is about to change. Call it before the change."""
        if task.id not in self._tasks and task.id not in self._new:
            self._tasks[task.id] = (task, task.state, task.seq)

    def mark(self, run: RunMemory) -> None:
        """Record that a run's own columns may have changed."""
        self._runs[run.run.id] = run
        self._marked.add(run.run.id)

    def end_attempt(self, task: Task, end: AttemptEnd, error: str | None = None, *, why: str = "") -> None:
        """End the current attempt of a task: record it, and release its part of the lease.

        `error` is what the attempt reported, as JSON; `why` is our own message if it reported nothing.
        """
        self.touch(task)
        if task.attempt_id is None or task.lease_id is None or task.worker_id is None or task.assigned_at is None:
            raise ValueError(f"{task.id} has no attempt to end: {task}")
        for kind in sorted(self.memory.attempts.details(task.attempt_id).alerts):
            summary = f"the attempt of {task.name} has ended"
            self.batch.outbox.append(alerts.attempt(kind, task, task.attempt_id, summary, self.now, resolved=True))
        self.batch.attempts.append(
            Attempt(
                id=task.attempt_id, task_id=task.id, run_id=task.run_id, shard=task.shard, tenant=task.tenant,
                generation=task.generation, number=task.attempt, worker_id=task.worker_id, lease_id=task.lease_id,
                assigned_at=task.assigned_at, started_at=task.started_at, ended_at=self.now, end=end,
                error=_ENCODER.encode({"message": why}).decode() if why else error,
            )
        )  # fmt: skip
        self.memory.release_attempt(task.attempt_id, task.lease_id)
        task.attempt_id = task.lease_id = task.worker_id = task.stop = None

    def open_bulk_operation(
        self, run: RunMemory, kind: BulkOperationKind, *, by: str, why: str, parent: str = "", done: int = 0,
        total: int | None = None,
    ) -> None:  # fmt: skip
        """Start or restart a bulk operation. Its first step is done in this turn, within the budget.

        By default it visits all positions.
        """
        row, operation = run.run, run.bulk_operations.get((kind, parent))
        total = row.task_count if total is None else total
        if operation is not None:
            operation.done, operation.total = done, total
        else:
            operation = run.bulk_operations[kind, parent] = BulkOperation(
                run_id=row.id, parent=parent, generation=row.generation, kind=kind, shard=self.memory.shard,
                total=total, done=done, by=by, why=why,
            )  # fmt: skip
            self.memory.backlog.add(BulkOperationStep(run_id=row.id, kind=kind, parent=parent))
            if (row.id, kind, parent) not in self._bulk_operations:
                self._opened.add((row.id, kind, parent))
        self.save_bulk_operation(operation)

    def save_bulk_operation(self, operation: BulkOperation) -> None:
        """Record a step of a bulk operation; its row is removed with the last one."""
        self._bulk_operations[operation.run_id, operation.kind, operation.parent] = operation
        self._runs[operation.run_id] = self.memory.runs[operation.run_id]

    def drop_bulk_operations(self, run: RunMemory, *kinds: BulkOperationKind) -> None:
        """End bulk operations of these kinds early: the opposite was requested."""
        for key in [key for key in run.bulk_operations if key[0] in kinds]:
            operation = run.bulk_operations.pop(key)
            step = BulkOperationStep(run_id=operation.run_id, kind=operation.kind, parent=operation.parent)
            self.memory.backlog.bulk_operations.discard(step)
            operation.done = operation.total
            self.save_bulk_operation(operation)

    def save_worker(self, worker: Worker) -> None:
        """Write a worker's row. The known row of a worker that has not registered in this term has more detail."""
        total, known = worker.total, self.memory.workers.cordoned.get(worker.id)
        if known is not None and not worker.session:
            changed = {"status": worker.status, "since": self.now, "hold": worker.hold, "hold_why": worker.hold_why}
            self.save_worker_row(msgspec.structs.replace(known, **changed))
            return
        offer = {name: getattr(total, name) for name in NAMES}
        row = WorkerRow(
            id=worker.id, shard=self.memory.shard, offer=_ENCODER.encode(offer).decode(),
            labels=_ENCODER.encode(worker.labels).decode(), zone=worker.zone, version=worker.version,
            status=worker.display_status(), since=self.now,
            last_heartbeat_at=self.now - timedelta(seconds=self.memory.shard_time - worker.last_heartbeat),
            hold=worker.hold, hold_why=worker.hold_why,
        )  # fmt: skip
        self.save_worker_row(row)

    def save_worker_row(self, row: WorkerRow) -> None:
        """Write a worker's row, whether or not the worker is connected. Cordoned workers are remembered."""
        self._workers[row.id] = row
        self.memory.workers.note_row(row)

    def save_checkpoint(self, task: Task, attempt_id: str, document: str) -> None:
        """Save a checkpoint for the next attempt of the task."""
        self.memory.runs[task.run_id].checkpoints[task.position] = document
        self.memory.attempts.record(attempt_id, saved_at=self.now)
        self._checkpoints[task.id] = Checkpoint(
            task_id=task.id, run_id=task.run_id, attempt_id=attempt_id, document=document, saved_at=self.now
        )

    def save_breaker(self, row: BreakerRow) -> None:
        """Record that a circuit breaker was opened, probed or closed."""
        self._breakers[row.kind, row.subject] = row

    def save_share(self, row: ShareRow) -> None:
        """Record that the shard lowered its share of a limit."""
        self._shares[row.limit] = row

    # effects

    def send(self, worker: Worker, message: ToWorker) -> None:
        """Send a message once the batch is durable. Nothing is sent to a worker without a session."""
        if worker.session:
            self.batch.effects.append(Send(worker.id, worker.session, message))
            self._signals = self._signals or isinstance(message, Stop)

    def respond(self, request: ActionRequest, reply: ActionStatus, detail: str = "") -> None:
        """Reply to a request. An executed or redundant action is written to the audit log (SEC-4)."""
        if request.audit is not None and reply in _AUDITED_RESULTS:
            after = _ENCODER.encode({"reply": reply, "detail": detail}).decode()
            self.batch.audit.append(msgspec.structs.replace(request.audit, after=after))
        if request.request_id:
            self.batch.effects.append(ActionReply(request.request_id, reply, detail))

    # the end of the turn

    def close(self) -> Batch:
        """Derive the states of changed runs, remove final ones from memory, and return the batch."""
        for run_id, run in self._runs.items():
            self._update_run_state(run_id, run)
        batch = self.batch
        if self._signals:
            batch.effects = [effect for effect in batch.effects if not self._is_moot(effect)]
        batch.new_tasks = [copy(task) for task in self._new.values()]
        batch.bulk_operations = [
            copy(operation)
            for key, operation in self._bulk_operations.items()
            if operation.done < operation.total or key not in self._opened
        ]
        batch.tasks = [TaskChange(copy(task), was, seq) for task, was, seq in self._tasks.values()]
        batch.workers = list(self._workers.values())
        batch.checkpoints = list(self._checkpoints.values())
        batch.breakers = list(self._breakers.values())
        batch.shares = list(self._shares.values())
        batch.failure_counts = list(self._failure_counts.values())
        return batch

    def _is_moot(self, effect: Effect) -> bool:
        """Whether a stop signal is for an attempt that ended in this turn: the request will never be in a row."""
        if not isinstance(effect, Send) or not isinstance(effect.message, Stop):
            return False
        return effect.message.grace_seconds > 0 and effect.message.attempt not in self.memory.attempts

    def _update_run_state(self, run_id: str, run: RunMemory) -> None:
        row = run.run
        if row.stuck_at is not None and run.changed_at is not None and run.changed_at > row.stuck_at:
            # A stuck run makes progress again (DAG-8).
            self.batch.outbox.append(alerts.run_stuck(row, row.stuck_at, self.now, resolved=True))
            row.stuck_at, row.because = None, "a task has moved again"
            self._marked.add(run_id)
        changed = update_state(row, run.state(), self.now, run.tasks)
        if changed and row.state in FINAL_RUN:
            self.memory.runs.remove(run_id)
            self.memory.limits.ledger.leave(run_id)
            self.memory.queues.wake_affinity(run_id)
            if row.state is RunState.SUCCEEDED and row.adopted_at is not None:
                took = (self.now - row.adopted_at).total_seconds()
                self.memory.durations.record(row.tenant, run.job.spec.name, "", took, life=self.memory.shard_time)
            if row.watched:
                self.batch.outbox.append(run_ended_message(row, self.now))
            self.batch.outbox += alerts.deadline_resolved(row, run.job.spec.name, self.now)
        if changed or run_id in self._marked:
            self.batch.runs.append(copy(row))


def run_ended_message(row: Run, now: datetime) -> OutboxRow:
    """The outbox message that a run has ended."""
    news = {"run": row.id, "tenant": row.tenant, "job": row.job_id, "state": row.state, "generation": row.generation}
    return OutboxRow(
        id=f"{row.id}:{row.generation}:ended", key=row.id, kind="run.ended",
        payload=_ENCODER.encode(news).decode(), created_at=now,
    )  # fmt: skip
