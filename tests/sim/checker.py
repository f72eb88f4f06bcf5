"""The checker: sees every call that the store carries out, every message and every process, and reports violations.

Names of invariants are those of the list of safety properties that the project keeps: I-01 and so on for what must
always hold, L-1 and so on for what must happen once faults have stopped, STA-3 and STA-8 of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import Batch, OutboxRow
from mainspring.core.model.job import JobRow, JobSpec, compile_job
from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import EvaluationBatch, ScheduleDecision
from mainspring.core.model.settings import DEFAULTS
from mainspring.core.model.task import StopKind
from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.loop import LEASE_MARGIN, Leader
from mainspring.protocol.errors import Fenced, Rejected
from mainspring.protocol.wire import Answer, Assign, Progress, Result, Stop, Verdict
from mainspring.shard.effects import ActionReply, ActionStatus
from mainspring.shard.events import ActionRequest, CancelRun, PauseRun, RunAction, UncordonWorker, WorkerAction
from mainspring.shard.shard import Shard
from mainspring.store.ports.store import IdempotencyKey, Term
from tests.sim.check_audit import AuditCheck
from tests.sim.check_commit import CommitCheck
from tests.sim.check_decisions import DecisionCheck
from tests.sim.check_failures import FailureCheck
from tests.sim.check_groups import GroupCheck
from tests.sim.check_http_workers import ClaimCheck
from tests.sim.check_preemption import PreemptionCheck
from tests.sim.check_schedules import ScheduleCheck
from tests.sim.check_sharing import Made, SharingCheck, machine_of
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model

if TYPE_CHECKING:
    from tests.sim.http_worker import Claimant
    from tests.sim.worker import SimWorker
    from tests.sim.world import World

_MADE_KEPT = 100
"""Batches decided and not written: many hold no row, and some are never written."""
_DRIFT = 0.95
"""How much slower the store's clock may make a duration seem."""


class Checker:
    """One account of everything, to compare the system with."""

    def __init__(self, world: World, findings: Findings) -> None:
        self._world = world
        self.findings = findings
        self._require = findings.require
        self.model = Model()
        self.ever = Ever()
        everybody: list[SimWorker | Claimant] = [*world.workers, *world.claimants.all]
        machines = {one.name: machine_of(one.offer, one.labels, one.zone) for one in everybody}
        self.failures = FailureCheck(findings, self.ever, lambda: world.loop.now, world.store_clock, world.mix.alike)
        self.preemption = PreemptionCheck(findings, machines, world.is_calm)
        self.groups = GroupCheck(findings, self.ever, lambda: world.loop.now, world.is_calm)
        sharing = SharingCheck(findings, machines, world.store_clock)
        decisions = DecisionCheck(findings, machines)
        self._commits = CommitCheck(
            findings, self.ever, self.failures, sharing, self.preemption, self.groups, decisions
        )
        self.schedules = ScheduleCheck(findings, self.ever)
        self.audit = AuditCheck(findings, self.ever)
        self.claims = ClaimCheck(
            findings,
            self.ever,
            lambda: world.loop.now,
            world.store_clock,
            world.scheduler_settings.claim_heartbeat_timeout_seconds,
        )
        self._heard: dict[tuple[int, str], float] = {}
        """When a leader (by nonce) last heard from a worker."""
        self._trusted_until: dict[int, float] = {}
        self._issued: dict[int, int] = {}
        self._made: dict[int, Made] = {}
        self.outbox: dict[str, int] = {}

    # the fence

    def expect(self, term: Term, number: int) -> str:
        """Expected result of a commit: written, written before, or fenced."""
        fence = self.model.fence
        if (term.epoch, term.nonce) != (fence.epoch, fence.nonce):
            return "fenced"
        if number == fence.batch_no + 1:
            return "written"
        return "repeated" if number == fence.batch_no else "fenced"

    def refused(self, term: Term, number: int, batch: Batch, expected: str, error: Exception) -> None:
        """The store has refused a commit."""
        story = f"batch {number} of term {term.epoch} must be {expected}, and got {error!r}"
        self._require("I-20", (expected == "fenced") is isinstance(error, Fenced), story)
        self._require("STA-2", expected == "written" or isinstance(error, Fenced), story)
        # A failover may lose runs that were only submitted, and no batch: the leader finds out when it adopts them.
        erased = any(run.id in self.ever.erased_runs for run in batch.runs)
        if expected == "written" and not isinstance(error, Rejected) and not erased:
            self._require("MEMORY", False, f"a leader's memory is not what the rows say: {story}")
        self._world.trace.note("commit.refused", story)

    def committed(self, term: Term, number: int, batch: Batch, expected: str) -> None:
        """The store has taken a commit."""
        story = f"batch {number} of term {term.epoch} must be {expected}, and was taken"
        self._require("I-20", expected != "fenced", f"{story}; the term is {self.model.fence}")
        if expected == "repeated":
            return
        fence = self.model.fence
        fence.batch_no = number
        fence.lease_until = self._world.store_clock.wall() + fence.ttl
        if batch.rows():
            made = self._made.pop(id(batch), None)
            self.claims.committed(self.model, term, batch, alone=made is None or made.alone)
            self._commits.apply(self.model, batch, made)
            self.audit.committed(self.model, batch)
            last = batch.transitions[-1] if batch.transitions else None
            what = f"{last.task_id} {last.end}" if last else ""
            self._world.trace.note("commit", f"{term.epoch}/{number} {batch.rows()} {what}")
            self._tell(batch)

    def _tell(self, batch: Batch) -> None:
        """Trace rare events."""
        note = self._world.trace.note
        for circuit in batch.breakers:
            note("circuit.closed" if circuit.closed_at is not None else "circuit.open", circuit.subject)
        for row in batch.outbox:
            if row.kind == "alert":
                note(f"alert.{row.key.split(':')[1]}", row.id)
        for task in (change.task for change in batch.tasks):
            if task.reserved is not None:
                note("kept", f"{task.reserved.worker} for {task.id}: {task.reserved.why}")
            elif task.stop is not None and task.stop.kind is StopKind.PREEMPT:
                note("makes_room", f"{task.id}: {task.stop.why}")
        born = [task for task in batch.new_tasks if task.origin is not None]
        if born:
            note("born", f"{len(born)} from {born[0].id}")

    def campaigned(self, shard: str, holder: str, nonce: int, ttl: timedelta, term: Term | None) -> None:
        """The store has decided on a leader."""
        fence = self.model.fence
        now = self._world.store_clock.wall()
        if term is None:
            self._require(
                "L-2", fence.lease_until is not None and fence.lease_until > now, "nobody leads, and nobody may"
            )
            return
        if nonce == fence.nonce:
            return
        over = fence.nonce == 0 or fence.lease_until is None or fence.lease_until <= now
        self._require("I-22", over, f"{holder} leads at {now}, and {fence.holder} does until {fence.lease_until}")
        self._require("I-21", self.ever.terms.get(nonce) is None, f"nonce {nonce} has two terms")
        self._require("I-20", term.epoch == fence.epoch + 1, f"epoch {term.epoch} follows {fence.epoch}")
        self.ever.terms[nonce] = term.epoch
        fence.epoch, fence.nonce, fence.holder, fence.ttl = term.epoch, nonce, holder, ttl
        fence.lease_until = now + ttl
        self._world.trace.note("term", f"{term.epoch} {holder}")

    def released(self, term: Term) -> None:
        """A term may have been given back."""
        fence = self.model.fence
        if (term.epoch, term.nonce) == (fence.epoch, fence.nonce):
            fence.nonce, fence.holder, fence.lease_until = 0, "", self._world.store_clock.wall()

    def remember(self) -> Model:
        """The model as it is, to go with a snapshot of the store."""
        return self.model.copy()

    def restored(self, model: Any) -> None:
        """The store was restored from a snapshot."""
        now, then = self.model, model
        self.ever.erased_runs.update(
            run for run in (*now.runs, *now.archived) if run not in then.runs and run not in then.archived
        )
        self.ever.erased_attempts.update(attempt for attempt in now.ended if attempt not in then.ended)
        self.ever.erased_entries.update(entry for entry in now.audit if entry not in then.audit)
        self.ever.restores += 1
        self.ever.restored_at = self._world.loop.now
        self.model = then
        self.groups.ruled(self._world.truth.rules())

    # leaders

    def made(self, how: str, shard: Shard, batch: Batch) -> None:
        """A leader has decided a batch: remember the input until it is written."""
        memory = shard.memory
        led_since = max((self.ever.led_since[nonce] for nonce in self.ever.led_since), default=0.0)
        self._made[id(batch)] = Made(
            batch=batch, alone=how != "finish", rules=memory.rules, scheduler_settings=memory.scheduler_settings,
            led_since=led_since,
            now=memory.timers.last_turn or EPOCH, use=dict(memory.leases.use), lease_counts=dict(memory.leases.counts),
            groups=dict(memory.limits.ledger.use),
            reserved={name: worker.id for worker in memory.workers.values() for name in worker.reserved},
            open=frozenset(worker.id for worker in memory.workers.values() if _takes_anything(worker)),
            recalled=frozenset(lease.id for lease in memory.leases.values() if lease.recalled),
        )  # fmt: skip
        if len(self._made) > _MADE_KEPT:
            del self._made[next(iter(self._made))]

    def ruled(self, rules: AllRules, entry: AuditEntry, dropped: str | None) -> None:
        """The sharing rules were changed."""
        self.model.audit.setdefault(entry.id, entry)
        self.groups.ruled(rules)
        if dropped is not None:
            self.groups.dropped(self.model, dropped)

    def took_lead(self, leader: Leader) -> None:
        """A host believes that it leads."""
        self.ever.led_since[leader.term.nonce] = self._world.loop.now

    def issued(self, term: Term, number: int, batch: Batch) -> None:
        """A host sends a commit: its decision is made, and its lease must be valid."""
        now = self._world.loop.now
        trusted = self._trusted_until.get(term.nonce, now + 1)
        self._require("I-23", now <= trusted + 1e-6, f"{term.epoch} commits {now - trusted:.3f} s after its lease")
        if self._issued.get(term.nonce) != number:
            self.claims.issued(term, batch)
            if batch.attempts:
                self._check_losses(term, batch)
        self._issued[term.nonce] = number

    def renewed(self, term: Term, began: float) -> None:
        """A host's lease was renewed."""
        lease = timedelta(seconds=5) - LEASE_MARGIN
        self._trusted_until[term.nonce] = began + lease.total_seconds()

    def heard(self, term: Term, worker: str) -> None:
        """A leader heard from a worker."""
        self._heard[term.nonce, worker] = self._world.loop.now

    def let_out(self, worker: str, messages: Sequence[Any]) -> None:
        """Messages leave a host: each belongs to a durable batch (STA-3), a stop to a durable request (STA-8)."""
        ever = self.ever
        for message in messages:
            match message:
                case Assign():
                    for one in message.group:
                        known = ever.attempts.get(one.attempt) == worker
                        self._require("STA-3", known, f"{one.attempt} was sent to {worker}, and is not durable")
                        latest = ever.to_find.get(one.attempt)
                        self._require("WRK-7", one.checkpoint == latest, f"{one} does not find {latest}")
                case Answer(verdict=Verdict.APPLIED):
                    self._require(
                        "STA-3", message.attempt in ever.ended, f"{message.attempt} was acknowledged too early"
                    )
                case Answer(verdict=Verdict.UNKNOWN):
                    lost = message.attempt not in ever.attempts or ever.restores > 0
                    self._require("I-54", lost, f"{message.attempt} is known, and was called unknown")
                case Stop() if message.grace_seconds > 0:
                    self._require("STA-8", message.attempt in ever.stops, f"{message.attempt} was signaled too early")

    def answered(self, action: ActionRequest, answered: ActionReply) -> None:
        """A person got the reply to an action."""
        self.audit.answered(self.model, action, answered)
        if answered.reply is ActionStatus.DONE and isinstance(action, CancelRun):
            self._require(
                "STA-3", action.run_id in self.ever.cancelled, f"the cancel of {action.run_id} is not durable"
            )
        elif answered.reply is ActionStatus.DONE and isinstance(action, PauseRun):
            self._require("STA-3", action.run_id in self.ever.paused, f"the pause of {action.run_id} is not durable")
        elif (
            answered.reply is ActionStatus.DONE
            and isinstance(action, WorkerAction)
            and not isinstance(action, UncordonWorker)
        ):
            self._require("STA-3", action.worker in self.ever.held, f"the hold of {action.worker} is not durable")
        self._world.trace.note("answered", f"{say_act(action)} {answered.reply}")

    def moved(self, term: Term, progress: Progress) -> None:
        """A leader got a progress report; a repeated value is no progress."""
        said = (term.nonce, progress.attempt)
        percent, heard, _ = self.ever.moved.get(said, (None, 0.0, 0.0))
        if progress.percent != percent:
            self.ever.moved[said] = (progress.percent, self._world.loop.now, heard)

    def schedule_outbox(self, row: OutboxRow) -> None:
        """A message was delivered outside."""
        self.outbox[row.id] = self.outbox.get(row.id, 0) + 1

    # submissions

    def defined(self, row: JobRow) -> None:
        """A definition is stored."""
        if row.id not in self.model.jobs:
            job = compile_job(row.id, msgspec.json.decode(row.definition, type=JobSpec))
            self.model.jobs[row.id] = self.model.definitions[row.id] = job

    def inserted(self, runs: Sequence[Run], key: IdempotencyKey | None, ids: Sequence[str]) -> None:
        """The store has taken a submission, or recognized it."""
        model = self.model
        first = model.keys.get((key.tenant, key.key)) if key is not None else None
        if first is not None:
            self._require("I-02", list(ids) == first, f"{key} made {ids}, and {first} before")
            return
        if key is not None:
            model.keys[key.tenant, key.key] = list(ids)
        for run in runs:
            self._require("I-02", run.id not in model.runs, f"{run.id} is inserted twice")
            model.runs[run.id] = run
            model.tasks[run.id] = []
            model.dirty[run.id] = None
        if runs:
            self._world.trace.note("runs", " ".join(ids))

    def settled(self, evaluation_batch: EvaluationBatch, schedule_decisions: Sequence[ScheduleDecision]) -> None:
        """The store has evaluated schedules, by its own time."""
        now = self._world.store_clock.wall()
        self._require(
            "I-31", evaluation_batch.now <= now, f"it is {now}, and {evaluation_batch.now} is the time of the rules"
        )
        self.schedules.settled(self.model, evaluation_batch, schedule_decisions)
        for schedule_decision in schedule_decisions:
            self.inserted(schedule_decision.runs, None, [run.id for run in schedule_decision.runs])
            if schedule_decision.fires or schedule_decision.changes:
                what = " ".join(
                    f"{fire.window_at:%H:%M:%S}#{fire.generation}={fire.outcome}" for fire in schedule_decision.fires
                )
                acts = " ".join(change.action for change in schedule_decision.changes)
                self._world.trace.note("settled", f"{schedule_decision.schedule.id} {what} {acts}")

    def acknowledged(self, ids: Sequence[str], key: IdempotencyKey | None) -> None:
        """A client got the acknowledgement of its runs."""
        self.ever.acknowledged.update(dict.fromkeys(ids))

    # workers

    def process_begun(self, worker: str, attempt: str) -> None:
        """A worker starts a process."""
        before = self.ever.begun.get(attempt)
        self._require("I-17", before is None, f"{attempt} was started on {before} and again on {worker}")
        self._require("STA-3", self.ever.attempts.get(attempt) == worker, f"{attempt} runs, and is not durable")
        self.ever.begun[attempt] = worker

    def process_left(self, worker: str, result: Result) -> None:
        """A process has ended, and its result is in the spool."""
        self.ever.left[result.attempt] = (worker, result)
        self._world.trace.note("left", f"{result.attempt} {result.outcome}")

    def forgotten(self, worker: str, attempt: str, *, discarded: bool) -> None:
        """A worker takes an attempt out of its hands: if it had a result, that is durable elsewhere (I-50)."""
        if attempt not in self.ever.left:
            return
        if discarded:
            unknown = attempt not in self.model.ended or self.ever.restores
            self._require("I-54", unknown, f"{attempt} was discarded, but is known")
        else:
            safe = attempt in self.ever.ended or attempt in self.ever.late or attempt in self.ever.rejected
            self._require("I-50", safe, f"{worker} forgot the result of {attempt}, which nobody has")

    def saved(self, attempt: str, document: str) -> None:
        """A process saves something."""
        self.ever.saved.setdefault(attempt, set()).add(document)

    def put(self, document: str, task_id: str, expected: str | None) -> None:
        """A person replaces the checkpoint of a task, if the digest matches."""
        self.ever.put[document] = (task_id, expected)

    def wiped(self, worker: str) -> None:
        """A worker's disk is lost."""
        self.ever.wiped.update(attempt for attempt, (owner, _) in self.ever.left.items() if owner == worker)

    def _check_losses(self, term: Term, batch: Batch) -> None:
        """No worker is lost that was heard, or before a new leader could hear it (I-15, I-16, I-42)."""
        now = self._world.loop.now
        silent = {row.id for row in batch.workers if row.status == WorkerStatus.LOST}
        for worker in sorted(silent):
            since = self._heard.get((term.nonce, worker), 0.0)
            began = self.ever.led_since[term.nonce]
            jumps = sum(1 for at in self._world.store_clock.jumps if at > max(since, began) - 1)
            least = DEFAULTS.lost_after_seconds * _DRIFT - 2.0 * jumps
            self._require(
                "I-16", now - since >= least, f"{worker} was given up {now - since:.1f} s after its last word"
            )
            self._require("I-42", now - began >= least, f"{worker} was given up {now - began:.1f} s into a term")


def say_act(action: ActionRequest) -> str:
    """Describe an action and its target."""
    match action:
        case RunAction():
            return f"{type(action).__name__} {action.run_id}"
        case WorkerAction():
            return f"{type(action).__name__} {action.worker}"
        case _:
            return type(action).__name__


def is_spoiled(shard: Shard) -> bool:
    """Whether a shard's memory is about to be thrown away."""
    return bool(getattr(shard.memory, "is_spoiled", False))


def _takes_anything(worker: Worker) -> bool:
    return worker.status is WorkerStatus.READY and worker.accepts_work() and not worker.refused
