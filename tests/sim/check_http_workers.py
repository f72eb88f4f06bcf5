"""Checks of HTTP workers (WRK-2), in addition to those of every worker.

1. An attempt is assigned to an HTTP worker only in reply to its open claim, in the same batch. A reply has at most the
   number of attempts that the claim requested.
2. No call succeeds for an attempt that had ended or belongs to another worker (I-13). An accepted start is durable, and
   so is a result (STA-3); a rejected start leaves nothing behind.
3. A claim reserves its attempts for the requested time, and not longer. Attempts recalled before they started are
   requeued immediately, and so are those in a reply to a worker that had disconnected (LIV-3).
4. A started attempt is lost after the allowed silence, and not before, counted from its latest heartbeat in this term
   (I-16), or from the start of the term (I-42). No leader waits longer (LIV-1).

Capacity, usage, order, cordons, histories, checkpoints and attempts are checked as for any other worker; L-1 checks
that everything ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.core.model.batch import Batch
from mainspring.core.model.task import AttemptEnd, TaskState
from mainspring.core.model.worker import Worker, is_claimant
from mainspring.host.loop import Leader
from mainspring.shard.effects import ActionReply, ActionStatus
from mainspring.shard.shard import Shard
from mainspring.shard.workers.claim_events import ClaimCall, ClaimEnded, ClaimHeartbeat, ClaimStarted, ClaimWork
from mainspring.shard.workers.claims import NO_HEARTBEAT
from mainspring.shard.workers.liveness import NOT_STARTED_IN_TIME
from mainspring.store.ports.store import Term
from tests.sim.clocks import StoreClock
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model

S = TaskState
_DRIFT = 0.95
_SLACK = 10.0
"""Tolerance in shard time when a leader is checked."""
_AT_ONCE = 3.0
_LONGEST_TASK = 60.0
"""Maximum silence of a worker while a claim waits, and then until its work has expired."""


class Question(msgspec.Struct, frozen=True):
    """The state at the time of a request."""

    action: ClaimCall
    was_over: bool
    owner: str | None


class ClaimCheck:
    """Checks the calls and replies of HTTP workers, and each batch."""

    def __init__(
        self, findings: Findings, ever: Ever, now: Callable[[], float], store: StoreClock, silence: float
    ) -> None:
        self._require = findings.require
        self._ever = ever
        self._now = now
        self._store = store
        self._silence = silence
        self._open: dict[tuple[int, int], ClaimWork] = {}
        """Claims by nonce and ticket, until a batch answers them with something."""
        self._heard: dict[tuple[int, str], float] = {}
        """When a leader (by nonce) last got a heartbeat of an attempt."""
        self._held: dict[str, tuple[int, float, float]] = {}
        """By claimed attempt: the leader, the time of its decision, and the duration of the claim."""
        self._started: set[str] = set()
        """Attempts with a durable start."""
        self._given: dict[tuple[int, int], tuple[str, ...]] = {}
        """Work in the replies to claims, by nonce and ticket."""
        self._dropped: set[tuple[int, int]] = set()
        """Abandoned claims."""
        self._nobodys: dict[str, int] = {}
        """Attempts in abandoned replies, and by which leader (by nonce)."""
        self._seen: dict[str, tuple[Shard, float, bool]] = {}
        """Unstarted attempts: the time of the claim in shard time, and whether the reply was abandoned."""

    # calls

    def asked(self, model: Model, term: Term, request_id: int, action: ClaimCall) -> Question:
        """Record that a call of an HTTP worker has reached a leader."""
        if isinstance(action, ClaimWork):
            self._open[term.nonce, request_id] = action
            return Question(action, was_over=False, owner=action.worker)
        attempt = _attempt(action)
        owner = self._ever.attempts.get(attempt)
        if owner == action.worker:
            self._heard[term.nonce, attempt] = self._now()
        return Question(action, was_over=attempt in model.ended, owner=owner)

    def answered(self, model: Model, question: Question, answered: ActionReply) -> None:
        """Check the reply to a call of an HTTP worker."""
        action, ever = question.action, self._ever
        if isinstance(action, ClaimWork):
            self._check_claimed(action, answered)
            return
        attempt = _attempt(action)
        said = f"{action} is answered {answered.reply} {answered.detail}"
        if answered.reply is ActionStatus.REFUSED:
            live = model.live.get(attempt)
            waits = isinstance(action, ClaimStarted) and live is not None and live.state is S.ASSIGNED
            self._require("WRK-2", not waits or question.owner != action.worker, f"{said}, and waits for it: {live}")
            return
        mine = question.owner == action.worker and (not question.was_over or ever.restores)
        self._require("I-13", mine, f"{said}; it is of {question.owner}, over: {question.was_over}")
        if isinstance(action, ClaimStarted):
            self._require("STA-3", attempt in self._started, f"{said}, and that is not durable")
        elif isinstance(action, ClaimEnded):
            self._require("STA-3", attempt in ever.ended, f"{said}, and that is not durable")
        elif answered.stop is not None:
            self._require("STA-8", attempt in ever.stops, f"{said}: it is to stop, and nobody has asked for that")

    def dropped(self, term: Term, request_id: int) -> None:
        """Record an abandoned claim."""
        key = (term.nonce, request_id)
        self._dropped.add(key)
        self._nobodys.update(dict.fromkeys(self._given.get(key, ()), term.nonce))

    def _check_claimed(self, action: ClaimWork, answered: ActionReply) -> None:
        few = len(answered.claimed) <= action.wanted
        self._require("WRK-2", few, f"{action} is answered with {len(answered.claimed)}")
        for one in (claimed.assignment for claimed in answered.claimed):
            known = self._ever.attempts.get(one.attempt) == action.worker
            self._require("STA-3", known, f"{one.attempt} was given to {action.worker}, and is not durable")
            latest = self._ever.to_find.get(one.attempt)
            self._require("WRK-7", one.checkpoint == latest, f"{one} does not find {latest}")

    # batches

    def issued(self, term: Term, batch: Batch) -> None:
        """Check a leader's decision when it is first sent to the store."""
        for effect in batch.effects:
            for one in effect.claimed if isinstance(effect, ActionReply) else ():
                action = self._open.get((term.nonce, effect.request_id))  # type: ignore[attr-defined]
                hold = action.hold_seconds if action is not None else 0.0
                self._held[one.assignment.attempt] = (term.nonce, self._now(), hold)
        why = {step.task_id: step.because for step in batch.transitions if step.start in (S.ASSIGNED, S.RUNNING)}
        for attempt in batch.attempts:
            because = why.get(attempt.task_id, "")
            if attempt.end is AttemptEnd.LOST and NO_HEARTBEAT in (attempt.error or ""):
                self._check_loss(term, attempt.id, attempt.error or "")
            elif attempt.end is AttemptEnd.RETURNED and NOT_STARTED_IN_TIME in because:
                nonce, since, least = self._held.get(attempt.id, (0, 0.0, 0.0))
                least = min(least, self._silence)  # Reloading the memory restarts the allowed silence.
                if nonce != term.nonce:
                    since, least = self._ever.led_since[term.nonce], self._silence
                self._check_length("LIV-3", since, least, f"{attempt.id} was taken back: {because}")

    def _check_loss(self, term: Term, attempt: str, because: str) -> None:
        since, began = self._heard.get((term.nonce, attempt), 0.0), self._ever.led_since[term.nonce]
        self._check_length("I-16", since, self._silence, f"{attempt} was given up: {because}")
        self._check_length("I-42", began, self._silence, f"{attempt} was given up: {because}")

    def _check_length(self, name: str, since: float, length: float, story: str) -> None:
        jumps = sum(1 for at in self._store.jumps if at > since - 1)
        passed = self._now() - since
        self._require(name, passed >= length * _DRIFT - 2.0 * jumps, f"{story}, after {passed:.1f} s of {length:g}")

    def committed(self, model: Model, term: Term, batch: Batch, *, alone: bool) -> None:
        """Check a written batch, before the model is changed. `alone`: it was made from a single event."""
        if not alone and not self._ever.restores:
            self._check_called_back(model, batch)
        rows = [*(change.task for change in batch.tasks), *batch.new_tasks]
        given = {
            task.attempt_id: task.worker_id
            for task in rows
            if task.attempt_id not in model.live and is_claimant(task.worker_id or "")
        }
        told: dict[str | None, str | None] = {}
        for effect in batch.effects:
            if isinstance(effect, ActionReply) and effect.claimed:
                self._check_answer(term, effect)
                told.update((one.assignment.attempt, effect.worker) for one in effect.claimed)
        if given or told:
            self._require("WRK-2", given == told, f"{given} are given to claimants, and {told} are reported")
        self._started.update(
            task.attempt_id for task in rows if task.attempt_id is not None and task.state is S.RUNNING
        )
        self._started.update(one.id for one in batch.attempts if one.end is not AttemptEnd.RETURNED)

    def _check_called_back(self, model: Model, batch: Batch) -> None:
        """Check that the next turn returns a recalled attempt that has not started."""
        over = {attempt.id for attempt in batch.attempts}
        for attempt, task in model.live.items():
            if task.stop is not None and task.state is S.ASSIGNED and is_claimant(task.worker_id or ""):
                story = f"{attempt} was called back from {task.worker_id}, and is still there: {task.stop}"
                self._require("LIV-3", attempt in over, story)

    def _check_answer(self, term: Term, effect: ActionReply) -> None:
        key = (term.nonce, effect.request_id)
        attempts = self._given[key] = tuple(one.assignment.attempt for one in effect.claimed)
        if key in self._dropped:
            self._nobodys.update(dict.fromkeys(attempts, term.nonce))
        action = self._open.pop(key, None)
        if action is None:
            # A restored store may receive the same batch again, from a call that was delayed.
            self._require("WRK-2", self._ever.restores, f"{effect} answers no claim that is open")
            return
        fits = action.worker == effect.worker and len(effect.claimed) <= action.wanted
        self._require("WRK-2", fits, f"{action} is answered with {len(effect.claimed)} for {effect.worker}")

    # leaders

    def look(self, leader: Leader, worker: Worker) -> None:
        """Check that a live leader waits for no HTTP worker that is long overdue."""
        shard, memory = leader.shard, leader.shard.memory
        quiet = memory.shard_time - worker.last_heartbeat
        idle = not worker.leases and not worker.claim_slots
        most = 2 * self._silence + _LONGEST_TASK + _SLACK
        self._require("LIV-1", not idle or quiet < most, f"{worker.id} is idle for {quiet:.0f} s")
        for lease in worker.leases.values():
            for attempt, task in lease.members.items():
                if task.state is S.RUNNING:
                    self._seen.pop(attempt, None)
                    silent = memory.shard_time - lease.last_heartbeat
                    story = f"nothing was said of {attempt} for {silent:.0f} s, and it is still {worker.id}'s"
                    self._require("LIV-1", silent < self._silence + _SLACK, story)
                    continue
                before, since, was_nobodys = self._seen.get(attempt, (None, 0.0, False))
                is_nobodys = self._nobodys.get(attempt) == leader.term.nonce
                if before is not shard or was_nobodys is not is_nobodys:
                    since = memory.shard_time
                    self._seen[attempt] = (shard, since, is_nobodys)
                most = _AT_ONCE if is_nobodys else max(self._silence, self._hold(attempt)) + _SLACK
                waits = memory.shard_time - since
                story = f"{attempt} waits for {worker.id} to start it, {waits:.0f} s; nobody has it: {is_nobodys}"
                self._require("LIV-3", waits < most, story)

    def _hold(self, attempt: str) -> float:
        return self._held.get(attempt, (0, 0.0, 0.0))[2]


def _attempt(action: Any) -> str:
    assert isinstance(action, ClaimStarted | ClaimHeartbeat | ClaimEnded)
    return action.attempt
