"""The rows, as a store would have them, in dicts: takes batches, and refuses every one that a store should not see.

What is checked for each batch:

1. A changed task was as its change says (STA-2); a new task is new; a run is known.
2. Transitions of a task follow each other without a gap, along the table, to the state in its row (I-03, I-04).
3. Nothing leaves a final state but a reopening, which starts a generation with counters at zero (I-05, STA-1).
4. An attempt id is used once, and a task has at most one live attempt (I-10, I-11).
5. No attempt is made before all upstream tasks have ended and allow it (I-40), all tasks of a fan-out included.
6. No attempt is made on a worker that is cordoned or draining (WRK-9).
7. An act has one entry in the audit log, and only if its answer says that it was carried out, or was so (I-73).
"""

from __future__ import annotations

from copy import copy
from datetime import datetime

import msgspec

from mainspring.core.graph.fan_out import gather
from mainspring.core.lifecycle.readiness import Upstream, decide, decide_when
from mainspring.core.lifecycle.states import FINAL, HELD_BY_WORKER, is_allowed
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import (
    Batch,
    BreakerRow,
    BulkOperation,
    BulkOperationKind,
    Checkpoint,
    DurationRow,
    FailureCountRow,
    LateResult,
    OutboxRow,
    RejectedEvent,
    WorkerRow,
)
from mainspring.core.model.job import Job
from mainspring.core.model.run import FINAL_RUN, Run
from mainspring.core.model.task import Attempt, RecordedAttempt, Task, TaskState, Transition
from mainspring.shard.effects import LookUpAttempt, LookUpRun
from mainspring.shard.events import Event, RunRows
from tests.shard.run_graph import Family

SpreadKey = tuple[str, str, int, BulkOperationKind]


class Loaded(msgspec.Struct, frozen=True):
    """What a new leader reads."""

    runs: list[Run]
    tasks: list[Task]
    bulk_operations: list[BulkOperation]
    checkpoints: list[Checkpoint]
    cordoned_workers: list[WorkerRow]
    breakers: list[BreakerRow]
    durations: list[DurationRow]
    shares: list[ShareRow]
    failure_counts: list[FailureCountRow]


class Ledger:
    """Committed rows."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.runs: dict[str, Run] = {}
        self.tasks: dict[str, Task] = {}
        self.attempts: dict[str, Attempt] = {}
        self.history: dict[str, list[Transition]] = {}
        self.bulk_operations: dict[SpreadKey, BulkOperation] = {}
        self.late: list[LateResult] = []
        self.outbox: list[OutboxRow] = []
        self.rejected: list[RejectedEvent] = []
        self.workers: dict[str, WorkerRow] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.breakers: dict[tuple[str, str], BreakerRow] = {}
        self.durations: dict[tuple[str, str, str], DurationRow] = {}
        self.shares: dict[str, ShareRow] = {}
        """The shard's own, by limit."""
        self.failure_counts: dict[tuple[str, datetime], FailureCountRow] = {}
        self.archived: set[str] = set()
        self.audit: dict[str, AuditEntry] = {}
        self._used_attempts: dict[str, str] = {}
        self._of_run: dict[str, list[str]] = {}

    def commit(self, batch: Batch) -> None:
        """Take a batch, as a store does."""
        for run in batch.runs:
            assert run.id in self.runs, f"{run.id} is not a run of this shard"
            self.runs[run.id] = copy(run)
        for task in batch.new_tasks:
            assert task.id not in self.tasks, f"{task.id} is made twice"
            self.tasks[task.id] = copy(task)
            self._of_run.setdefault(task.run_id, []).append(task.id)
        for change in batch.tasks:
            row = self.tasks[change.task.id]
            assert (row.state, row.seq) == (change.was, change.was_seq), f"stale write: {row} is not {change}"
            self.tasks[row.id] = copy(change.task)
        for transition in batch.transitions:
            self._append(transition)
        for changed in [*batch.new_tasks, *(change.task for change in batch.tasks)]:
            self._check_task(changed)
        for attempt in batch.attempts:
            assert attempt.id not in self.attempts, f"{attempt.id} ended twice"
            assert self.tasks[attempt.task_id].attempt_id != attempt.id, f"{attempt} has ended, and is current"
            self.attempts[attempt.id] = attempt
        self._check_starts(batch)
        for spread in batch.bulk_operations:
            self._save_spread(spread)
        self._save_limits(batch)
        self.late += batch.late
        self.outbox += [row for row in batch.outbox if row.id not in {known.id for known in self.outbox}]
        self.rejected += batch.rejected
        self.workers.update((row.id, row) for row in batch.workers)
        for saved in batch.checkpoints:
            assert saved.attempt_id, f"nobody made {saved}"
            self.checkpoints[saved.task_id] = saved
        for entry in batch.audit:
            assert entry.id not in self.audit, f"{entry} is there twice"
            self.audit[entry.id] = entry
        self._check_holds(batch)
        self._save_breakers(batch)
        self.durations.update(((row.tenant, row.job, row.task), row) for row in batch.durations)
        for run_id in batch.archived:
            assert self.runs[run_id].state in FINAL_RUN, f"{run_id} moves to history, and is not over"
            self.archived.add(run_id)

    # reading, as a host does

    def load(self) -> Loaded:
        """The active work of the shard: copies, as from a database."""
        runs = [copy(run) for run in self.runs.values() if run.adopted_at is not None and run.state not in FINAL_RUN]
        ids = {run.id for run in runs}
        return Loaded(
            runs,
            [copy(task) for run in runs for task in self.tasks_of(run.id)],
            [copy(spread) for spread in self.bulk_operations.values() if spread.run_id in ids],
            [saved for saved in self.checkpoints.values() if saved.run_id in ids],
            [row for row in self.workers.values() if row.hold],
            list(self.breakers.values()),
            list(self.durations.values()),
            list(self.shares.values()),
            list(self.failure_counts.values()),
        )

    def rows_of(self, run_id: str) -> RunRows:
        """One run, whatever its state."""
        run = self.runs.get(run_id)
        if run is None or run_id in self.archived:
            return RunRows()
        bulk_operations = tuple(copy(spread) for spread in self.bulk_operations.values() if spread.run_id == run_id)
        tasks = tuple(copy(task) for task in self.tasks_of(run_id))
        checkpoints = tuple(saved for saved in self.checkpoints.values() if saved.run_id == run_id)
        job = self.jobs.get(run.job_id)
        return RunRows(run=copy(run), job=job, tasks=tasks, bulk_operations=bulk_operations, checkpoints=checkpoints)

    def look_up(self, wanted: LookUpAttempt | LookUpRun) -> Event:
        """An event about something not in memory, with its rows, as the host delivers it again."""
        if isinstance(wanted, LookUpRun):
            return msgspec.structs.replace(wanted.event, rows=self.rows_of(wanted.event.run_id))
        recorded = self.find_attempt(wanted.event.attempt)
        return msgspec.structs.replace(wanted.event, looked_up=True, recorded=recorded)

    def find_attempt(self, attempt: str) -> RecordedAttempt | None:
        """What the rows say of an attempt."""
        ended = self.attempts.get(attempt)
        if ended is not None:
            return RecordedAttempt(id=attempt, task_id=ended.task_id, worker_id=ended.worker_id, end=ended.end)
        for task in self.tasks.values():
            if task.attempt_id == attempt and task.worker_id is not None:
                return RecordedAttempt(id=attempt, task_id=task.id, worker_id=task.worker_id, end=None)
        return None

    def tasks_of(self, run_id: str) -> list[Task]:
        """The tasks of a run, by position."""
        return sorted((self.tasks[one] for one in self._of_run.get(run_id, ())), key=lambda task: task.position)

    def path(self, task_id: str) -> list[TaskState]:
        """The states that a task went through."""
        return [transition.end for transition in self.history[task_id]]

    # checks

    def _append(self, transition: Transition) -> None:
        history = self.history.setdefault(transition.task_id, [])
        assert transition.seq == len(history) + 1, f"a gap before {transition}: {history}"
        assert transition.by, f"nobody did {transition}"
        assert transition.because, f"{transition} happened for no reason"
        if not history:
            assert transition.start is None, f"{transition} comes from nowhere"
        else:
            before = history[-1]
            assert transition.start is before.end, f"{transition} does not follow {before}"
            if transition.generation != before.generation:
                assert transition.generation == before.generation + 1, f"{transition} skips a generation"
                assert before.end in FINAL, f"{transition} reopens what is not over"
                assert transition.end is TaskState.PENDING, f"{transition} reopens into {transition.end}"
                history.append(transition)
                return
        assert is_allowed(transition.start, transition.end), f"the table has no {transition}"
        history.append(transition)

    def _check_task(self, task: Task) -> None:
        last = self.history[task.id][-1]
        assert (last.end, last.seq, last.generation) == (task.state, task.seq, task.generation), f"{task} after {last}"
        held = task.state in HELD_BY_WORKER
        for field in (task.attempt_id, task.lease_id, task.worker_id):
            assert (field is not None) is held, f"{task.state} and {field}: {task}"
        assert task.stop is None or held, f"nobody can stop {task}"
        assert task.due_at is None or task.state is TaskState.PENDING, f"a delay without a wait: {task}"
        assert (task.ended_at is not None) is (task.state in FINAL), f"over or not: {task}"
        if task.attempt_id is not None:
            owner = self._used_attempts.setdefault(task.attempt_id, f"{task.id}:{task.generation}:{task.attempt}")
            assert owner == f"{task.id}:{task.generation}:{task.attempt}", f"{task.attempt_id} is used twice"
            assert task.attempt_id not in self.attempts, f"{task.attempt_id} has ended, and is current"

    def _check_starts(self, batch: Batch) -> None:
        """I-40: when an attempt is created, everything upstream has ended and allows it."""
        families: dict[str, Family] = {}
        for transition in batch.transitions:
            if transition.end is not TaskState.ASSIGNED:
                continue
            task = self.tasks[transition.task_id]
            run = self.runs[task.run_id]
            job = self.jobs[run.job_id]
            if run.id not in families:
                families[run.id] = Family(job, self.tasks_of(run.id))
            family = families[run.id]
            spec = family.spec(task)
            assert spec is not None, f"nobody knows what {task} is"
            assert not family.is_replaced(task), f"{task} was placed, and is replaced"
            upstreams: list[Upstream] = []
            for members, total, when in family.needs(task):
                assert len(members) == total, f"{task} was placed before all {total} upstream were made"
                upstreams += [
                    Upstream(
                        id=one.id, name=one.name, state=one.state, output=one.output, when=when if total == 1 else None
                    )
                    for one in members
                ]  # fmt: skip
            decision = decide(job.spec.on_failure, spec.on_skip, upstreams, run.params)
            assert decision.state is TaskState.QUEUED, f"{task} was placed: {decision}"
            if spec.when is not None:
                named = [one for one in _as_wholes(family, task) if one.name in spec.when]
                refused = decide_when(spec.when, named, run.params)
                assert refused is None, f"{task} was placed: {refused}"

    def _check_holds(self, batch: Batch) -> None:
        """WRK-9: nothing is placed on a worker that is held."""
        for transition in batch.transitions:
            if transition.end is TaskState.ASSIGNED:
                worker = self.workers.get(self.tasks[transition.task_id].worker_id or "")
                assert worker is None or not worker.hold, f"{transition} on {worker}"

    def _save_breakers(self, batch: Batch) -> None:
        """A row of each circuit that is open."""
        for row in batch.breakers:
            if row.closed_at is None:
                self.breakers[row.kind, row.subject] = row
            else:
                self.breakers.pop((row.kind, row.subject), None)

    def _save_limits(self, batch: Batch) -> None:
        """Parts of limits only ever fall here, and tallies only rise."""
        for share in batch.shares:
            known = self.shares.get(share.limit)
            assert known is None or share.granted <= known.granted, f"{share} is more than {known}"
            self.shares[share.limit] = share
            if not share.granted:
                del self.shares[share.limit]
        for tally in batch.failure_counts:
            before = self.failure_counts.get((tally.tenant, tally.since))
            assert before is None or tally.failures > before.failures, f"{tally} is not more than {before}"
            self.failure_counts[tally.tenant, tally.since] = tally

    def _save_spread(self, spread: BulkOperation) -> None:
        key = (spread.run_id, spread.parent, spread.generation, spread.kind)
        if spread.done >= spread.total:
            self.bulk_operations.pop(key, None)
        else:
            self.bulk_operations[key] = copy(spread)


def _as_wholes(family: Family, task: Task) -> list[Upstream]:
    """What a task needs, each as one: a fan-out with the list of its outputs."""
    found = []
    for members, _, _ in family.needs(task):
        spec = family.spec(members[0])
        is_fan_out = members[0].origin is not None and spec is not None and spec.for_each is not None
        output = gather(one.output for one in members) if is_fan_out else members[0].output
        found.append(Upstream(id=members[0].id, name=members[0].name, state=members[0].state, output=output))
    return found
