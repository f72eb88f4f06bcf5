"""Checks of every batch that the store accepts: compared with the model, then applied to it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.lifecycle.retry_policy import MAX_LOSSES
from mainspring.core.lifecycle.states import FINAL, HELD_BY_WORKER, UNSUCCESSFUL, is_allowed
from mainspring.core.model.batch import Batch, BulkOperationKind, TaskChange
from mainspring.core.model.job import Job, OnSkip, TaskSpec
from mainspring.core.model.run import FINAL_RUN, FailurePolicy, Run, RunProgress, derive_run_state
from mainspring.core.model.task import Attempt, AttemptEnd, Task, TaskState, Transition
from mainspring.core.work.work import digest_of
from mainspring.protocol.wire import Outcome
from tests.sim.check_artifacts import ArtifactCheck
from tests.sim.check_conditions import WhenCheck
from tests.sim.check_deadlines import DeadlineCheck
from tests.sim.check_decisions import DecisionCheck
from tests.sim.check_dynamic_tasks import GrowthCheck, can_be_added, causes
from tests.sim.check_failures import FailureCheck
from tests.sim.check_groups import GroupCheck, runs_begun
from tests.sim.check_preemption import PreemptionCheck
from tests.sim.check_sharing import Before, Made, SharingCheck, waiting_tasks
from tests.sim.findings import Findings
from tests.sim.jobs import CONDITIONS
from tests.sim.model import Ever, Model

S = TaskState
_COUNTED = frozenset({AttemptEnd.SUCCEEDED, AttemptEnd.FAILED, AttemptEnd.TIMED_OUT})


class CommitCheck:
    """Checks batches against the model, and applies them to it."""

    def __init__(
        self,
        findings: Findings,
        ever: Ever,
        failures: FailureCheck,
        sharing: SharingCheck,
        preemption: PreemptionCheck,
        groups: GroupCheck, decisions: DecisionCheck,
    ) -> None:  # fmt: skip
        self._findings = findings
        self._failures = failures
        self._sharing = sharing
        self._preemption = preemption
        self._groups = groups
        self._decisions = decisions
        self._artifacts = ArtifactCheck(findings)
        self._growth = GrowthCheck(findings, ever)
        self._whens = WhenCheck(findings)
        self._deadlines = DeadlineCheck(findings, ever)
        self._require = findings.require
        self._ever = ever
        self._placed: list[Task] = []
        """Tasks that the batch gives a new attempt."""
        self._queued_at: dict[str, datetime] = {}
        """When tasks were queued, if before the batch."""

    def apply(self, model: Model, batch: Batch, made: Made | None) -> None:
        """Check a written batch, and apply it to the model. `made`: the input of its decision."""
        places = _assigns(batch)
        before = Before(waiting_tasks(model) if places else [], dict(model.reserved), dict(model.live))
        begun = runs_begun(model) if places else set()
        self._placed.clear()
        self._queued_at.clear()
        touched: dict[str, None] = {}
        last = self._check_history(model, batch)
        self._apply_checkpoints(model, batch)
        self._failures.check(model, batch)
        for attempt in batch.attempts:
            self._check_attempt(model, attempt, batch, last)
        self._artifacts.check(batch)
        self._deadlines.check(model, batch, made)
        for run in batch.runs:
            self._apply_run(model, run)
            touched[run.id] = None
        for change in batch.tasks:
            self._check_change(model, change, last)
            model.put_task(change.task)
            touched[change.task.run_id] = None
        for task in batch.new_tasks:
            self._require("I-04", len(model.tasks[task.run_id]) == task.position, f"{task.id} is made out of order")
            self._check_row(model, task, last)
            model.put_task(task)
            touched[task.run_id] = None
        for late in batch.late:
            self._require("I-52", late.attempt_id not in model.live, f"a late result of live {late.attempt_id}")
            self._ever.late.add(late.attempt_id)
        for row in batch.workers:
            model.workers[row.id] = row
            if row.hold:
                self._ever.held.add(row.id)
        self._apply_spreads(model, batch, touched)
        self._groups.apply(model, batch)
        self._check_records(model, batch)
        self._failures.check_counted(model, batch)
        self._growth.check(model, batch)
        self._whens.check(model, batch)
        for run_id in touched:
            self._check_run(model, run_id)
        if places:
            self._check_placing(model)
        self._failures.apply_openings(model, batch)
        if made is not None:
            self._groups.check_rules(made.rules)
            self._preemption.check(model, before, batch, made)
            self._decisions.check(model, before, batch, self._placed, made)
            self._sharing.check_use(model, made)
            if places:
                self._sharing.check(model, before, self._placed, self._queued_at, made)
                self._groups.check(model, begun, self._placed, made)
        for run_id in batch.archived:
            self._archive(model, run_id)

    # history

    def _check_history(self, model: Model, batch: Batch) -> dict[str, Transition]:
        """Check that each task's transitions continue its row without a gap, as the state table allows."""
        last: dict[str, Transition] = {}
        for step in batch.transitions:
            before, row = last.get(step.task_id), model.task(step.task_id)
            if before is None:
                seq, state, generation = (row.seq, row.state, row.generation) if row else (0, None, 1)
            else:
                seq, state, generation = before.seq, before.end, before.generation
            story = f"{step.task_id} #{step.seq} {step.start} to {step.end} ({step.because}), after #{seq} {state}"
            self._require("I-04", step.seq == seq + 1 and step.start == state, story)
            if state in FINAL:
                reopened = step.end is S.PENDING and step.generation == generation + 1
                # The first member of a fan-out whose list is being rebuilt waits for the new list once it has ended.
                listed = row is not None and row.origin is not None and row.origin.parent == row.position
                self._require("I-05", reopened and (step.by.startswith("person:") or listed), story)
            else:
                self._require("I-04", is_allowed(state, step.end) and step.generation == generation, story)
            self._require("I-07", step.by and step.because, f"{story}: nobody says who or why")
            if step.end is S.RUNNING:
                model.first_starts.setdefault((step.task_id, step.generation), step.at)
            if step.end in (S.FAILED, S.TIMED_OUT):
                tenant = model.runs[f"run_{step.task_id[5:].partition('.')[0]}"].tenant
                model.failures[tenant] = model.failures.get(tenant, 0) + 1
            last[step.task_id] = step
        return last

    def _check_change(self, model: Model, change: TaskChange, last: dict[str, Transition]) -> None:
        row = model.task(change.task.id)
        same = row is not None and row.state is change.was and row.seq == change.was_seq
        self._require(
            "I-06", same, f"{change.task.id} was {row and (row.state, row.seq)}, not {change.was, change.was_seq}"
        )
        self._check_row(model, change.task, last)

    def _check_row(self, model: Model, task: Task, last: dict[str, Transition]) -> None:
        step = last.get(task.id)
        if step is not None:
            self._require("I-03", step.end is task.state and step.seq == task.seq, f"{task.id} is not where it went")
        held = task.state in HELD_BY_WORKER
        whole = (task.attempt_id is not None) is held and (task.worker_id is not None) is held
        self._require("I-12", whole and (task.lease_id is not None) is held, f"{task}")
        if task.attempt_id is not None:
            other = model.live.get(task.attempt_id)
            self._require("I-10", other is None or other.id == task.id, f"{task.attempt_id} has two tasks")
            known = self._ever.attempts.get(task.attempt_id)
            row = model.task(task.id)
            if row is None or row.attempt_id != task.attempt_id:
                # A restored store may receive the same batch again, from a call that was delayed.
                same = self._ever.restores and self._ever.task_of.get(task.attempt_id) == task.id
                again = same and known == task.worker_id
                self._require("I-11", known is None or again, f"{task.attempt_id} was handed out before")
                self._ever.task_of[task.attempt_id] = task.id
                self._ever.attempts[task.attempt_id] = task.worker_id or ""
                self._placed.append(task)
                if row is not None and row.state is S.QUEUED:
                    self._queued_at[task.id] = row.since
            if task.stop is not None:
                self._ever.stops.add(task.attempt_id)
        spec = model.spec_of(task)
        bounded = task.tries <= spec.max_attempts and task.losses <= MAX_LOSSES + 1
        self._require("I-18", bounded, f"{task.id}: {task.tries} tries, {task.losses} losses")

    def _apply_checkpoints(self, model: Model, batch: Batch) -> None:
        """Check that only a live attempt saves, for its own task, and that its document is stored unchanged (WRK-7).

        A user's document is stored only if the expected version was current.
        """
        for saved in batch.checkpoints:
            if saved.document in self._ever.put:
                task_id, expected = self._ever.put[saved.document]
                before = model.checkpoints.get(saved.task_id)
                there = "" if before is None else digest_of(before.document)
                fits = task_id == saved.task_id and expected in (None, there)
                self._require("WRK-7", fits, f"{saved} was put for {expected!r}, and {before} was there")
                model.checkpoints[saved.task_id] = saved
                continue
            row = model.live.get(saved.attempt_id)
            self._require("I-13", row is not None and row.id == saved.task_id, f"{saved} is of no live attempt")
            mine = saved.document in self._ever.saved.get(saved.attempt_id, ())
            self._require("WRK-7", mine, f"{saved.attempt_id} did not save {saved.document}")
            model.checkpoints[saved.task_id] = saved

    # attempts

    def _check_attempt(self, model: Model, attempt: Attempt, batch: Batch, last: dict[str, Transition]) -> None:
        row = model.live.get(attempt.id)
        new = any(step.task_id == attempt.task_id and step.end is S.ASSIGNED for step in batch.transitions)
        self._require("I-51", attempt.id not in model.ended, f"{attempt.id} has ended twice")
        self._require("I-13", row is not None or new, f"{attempt.id} ended {attempt.end}, and was not live")
        if row is not None:
            mine = row.worker_id == attempt.worker_id and row.id == attempt.task_id
            self._require("I-13", mine, f"{attempt.id} of {row.worker_id} was ended for {attempt.worker_id}")
        if attempt.end in (AttemptEnd.SUCCEEDED, AttemptEnd.FAILED):
            worker, result = self._ever.left.get(attempt.id, ("nobody", None))
            outcome = Outcome.SUCCEEDED if attempt.end is AttemptEnd.SUCCEEDED else Outcome.FAILED
            told = result is not None and result.outcome is outcome and worker == attempt.worker_id
            if row is not None and result is not None and model.spec_of(row).grows:
                bad = result.outcome is Outcome.SUCCEEDED and not can_be_added(model, row, result.output or "")
                self._require("DAG-5", not bad or attempt.end is AttemptEnd.FAILED, f"{attempt.id} adds {result}")
                told = told or (bad and worker == attempt.worker_id)
            self._require("I-13", told, f"{attempt.id} {attempt.end}: its process on {worker} left {result}")
            change = next((one.task for one in batch.tasks if one.task.id == attempt.task_id), None)
            if told and change is not None and change.state is S.SUCCEEDED and result is not None:
                self._require("I-51", change.output == result.output, f"{attempt.id} left another output")
        model.ended[attempt.id] = attempt.end
        self._ever.ended.add(attempt.id)
        if attempt.end in _COUNTED:
            key = (attempt.task_id, attempt.generation)
            model.counted[key] = model.counted.get(key, 0) + 1
            most = model.spec_of(model.live[attempt.id]).max_attempts if row is not None else 0
            self._require("I-18", model.counted[key] <= most, f"{attempt.task_id} was tried {model.counted[key]} times")

    # runs and bulk operations

    def _apply_run(self, model: Model, run: Run) -> None:
        old = model.runs.get(run.id)
        self._require("I-01", old is not None, f"{run.id} changed, and is not there")
        model.runs[run.id] = run
        model.tasks.setdefault(run.id, [])
        model.dirty[run.id] = None
        if run.cancelled_by is not None:
            self._ever.cancelled.add(run.id)
        if run.paused:
            self._ever.paused.add(run.id)
        if run.state in FINAL_RUN:
            self._ever.run_ends.setdefault(run.id, set()).add(run.state)

    def _apply_spreads(self, model: Model, batch: Batch, touched: dict[str, None]) -> None:
        for spread in batch.bulk_operations:
            key = (spread.run_id, spread.kind, spread.parent)
            old = model.bulk_operations.get(key)
            again = spread.kind is not BulkOperationKind.ADOPT  # a user may repeat a request
            forward = old is None or old.generation != spread.generation or old.done <= spread.done or again
            self._require("SPREAD", forward and spread.done <= spread.total, f"{spread} went back from {old}")
            touched[spread.run_id] = None
            if spread.done < spread.total:
                model.bulk_operations[key] = spread
            else:
                model.bulk_operations.pop(key, None)

    def _check_run(self, model: Model, run_id: str) -> None:
        """Check that a run's state is a function of its tasks' rows (I-44)."""
        run = model.runs[run_id]
        if run.adopted_at is None:
            return
        counts: dict[TaskState, int] = {}
        delayed = 0
        tasks = model.tasks[run_id]
        for task in tasks:
            if task.state in FINAL and task.origin is not None and task.origin.replaced:
                continue
            counts[task.state] = counts.get(task.state, 0) + 1
            delayed += task.state is S.PENDING and task.due_at is not None
        finish = RunProgress(
            policy=model.job_of(run_id).spec.on_failure,
            paused=run.paused or run.held is not None,
            cancelled=run.cancelled_by is not None,
            timed_out=run.timed_out,
            complete=len(tasks) == run.task_count and not any(key[0] == run_id for key in model.bulk_operations),
            delayed=delayed,
        )
        state = derive_run_state(counts, finish)
        self._require("I-44", run.state is state, f"{run_id} is {run.state}, its tasks say {state}: {counts} {finish}")
        starts = [model.first_starts.get((task.id, task.generation)) for task in tasks]
        first = min(filter(None, starts), default=None) if run.state in FINAL_RUN else None
        self._require("OBS-5", run.started_at == first, f"{run_id} started at {run.started_at}, its tasks say {first}")
        if (run_id, BulkOperationKind.REPRIORITIZE, "") not in model.bulk_operations:
            others = [task.id for task in tasks if task.state not in FINAL and task.priority is not run.priority]
            self._require("OPS-1", not others, f"{run_id} has {run.priority!r}, and {others} have another")

    def _archive(self, model: Model, run_id: str) -> None:
        run = model.runs.pop(run_id, None)
        if run is None:
            return  # Two sweeps selected it: it is in history already.
        tasks = model.tasks.pop(run_id, [])
        for task in tasks:
            model.checkpoints.pop(task.id, None)
        self._require("I-05", all(task.state in FINAL for task in tasks), f"{run_id} went to history, and is not over")
        model.archived[run_id] = run

    def _check_records(self, model: Model, batch: Batch) -> None:
        alerts = {row.id for row in batch.outbox if row.kind == "alert"}
        for record in batch.rejected:
            if record.kind != "CheckpointSaved":
                model.rejected.add(record.subject)
                self._ever.rejected.add(record.subject)
            self._require("L-4", f"alert:{record.id}:on" in alerts, f"{record.id} was rejected, without an alert")
        for row in batch.outbox:
            if "unexplained" in row.id:
                self._require("I-45", False, row.payload)
            if row.kind == "alert" and row.key.startswith("alert:"):
                model.alerts.add(row.key.removeprefix("alert:"))

    # placement

    def _check_placing(self, model: Model) -> None:
        for task in self._placed:
            self._check_causes(model, task)
            self._whens.check_placed(model, task)
            self._failures.check_placed(model, task)
            row = model.workers.get(task.worker_id or "")
            self._require("WRK-9", row is not None and not row.hold, f"{task.id} was placed on {row}")
            saved = model.checkpoints.get(task.id)
            self._ever.to_find[task.attempt_id or ""] = saved.document if saved is not None else None

    def _check_causes(self, model: Model, task: Task) -> None:
        """Check that all upstream tasks have ended as required when an attempt is created (I-40)."""
        job = model.job_of(task.run_id)
        params = model.runs[task.run_id].params
        for parent, what in causes(model, task):
            allowed = parent is not None and _allows(job, model.spec_of(task), parent, task, params)
            self._require("I-40", allowed, f"{task.id} was placed, and {what} does not allow it")


def _allows(job: Job, spec: TaskSpec, parent: Task, task: Task, params: str) -> bool:
    match parent.state:
        case S.SUCCEEDED:
            when = job.conditions.get(task.position, {}).get(parent.position)
            if when is None:
                return True
            holds = CONDITIONS[when]
            return holds is not None and holds(
                msgspec.json.decode(parent.output or "null"), msgspec.json.decode(params)
            )
        case S.SKIPPED:
            return spec.on_skip is OnSkip.RUN
        case _:
            return parent.state in UNSUCCESSFUL and job.spec.on_failure is FailurePolicy.SKIP_FAILED


def _assigns(batch: Batch) -> bool:
    return any(step.end is S.ASSIGNED for step in batch.transitions)
