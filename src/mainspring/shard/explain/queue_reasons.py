"""Reasons of queues: the reason of the oldest task of each, as its diagnosis finds it, for many queues at once.

`ms queue`, `ms why --queue` and the metrics use this, and so agree with `ms why` about the oldest.

`summarize_waiting` adds up what waits in a pool, by reason: how many, since when, and the longest waiting one. Queued
tasks are summed by queue, pending ones by run. It costs a scan of the queues and runs, and one diagnosis per reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.core.explain.diagnosis import Reason, WaitingSummary
from mainspring.core.fairness.fair_queues import QueueSummary
from mainspring.core.model.task import Task, TaskState
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.diagnosis_context import DiagnosisContext
from mainspring.shard.explain.queued_tasks import held_by_capacity, held_by_rules
from mainspring.shard.state.blocked import BlockedTask
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory

S = TaskState

_MAX_QUEUES = 2_000
_MAX_SHAPES = 32
"""Limits of queues and parked shapes that are diagnosed, so that others don't wait. The rest is reported as parked or
not.
"""


class QueueReason(NamedTuple):
    """Reason of the oldest task of a queue."""

    reason: Reason | None
    """None: it is next."""
    why: str
    """In words; empty: it is next."""


_NEXT = QueueReason(None, "")


def of_queue(diagnosis: DiagnosisContext, queue: QueueSummary) -> QueueReason:
    """Find the reason of the oldest task of a queue."""
    queues = diagnosis.memory.queues
    front = queues.front(queue.priority, queue.tenant, queue.shape)
    if front is None:
        return _NEXT
    diagnosis.queues_explained += 1
    parked = queues.parked.get(queue.shape)
    otherwise = _NEXT if parked is None else QueueReason(Reason.NO_WORKER_CAPACITY, parked)
    if diagnosis.queues_explained > _MAX_QUEUES:
        return otherwise
    context = diagnosis.context_of(front[2], queue.shape)
    block = held_by_rules(context)
    if block is None and parked is not None:
        shapes = diagnosis.shapes_known()
        if queue.shape not in shapes and len(shapes) >= _MAX_SHAPES:
            return otherwise
        block = held_by_capacity(context)
    return otherwise if block is None else QueueReason(block.reason, block.why)


def of_blocked(diagnosis: DiagnosisContext, blocked_task: BlockedTask) -> Reason | None:
    """Find the reason of a blocked task; None if it is about to return to its queue."""
    block = held_by_rules(diagnosis.context_of(*blocked_task))
    return None if block is None else block.reason


class _Part(msgspec.Struct, frozen=True):
    """Tasks that wait for one reason, and how to find the longest waiting one."""

    reason: Reason
    tasks: int
    since: datetime
    first: Task | RunMemory


def summarize_waiting(memory: ShardMemory, now: datetime, tenant: str | None = None) -> list[WaitingSummary]:
    """Summarize the waiting tasks of a pool, or of one tenant there, by reason; the most first."""
    parts: dict[Reason, list[_Part]] = {}
    for part in (*_queued(memory, now, tenant), *_not_queued(memory, now, tenant)):
        parts.setdefault(part.reason, []).append(part)
    sums = [_sum(memory, now, reason, found) for reason, found in parts.items()]
    return sorted(sums, key=lambda one: (-one.tasks, one.reason))


def _sum(memory: ShardMemory, now: datetime, reason: Reason, parts: list[_Part]) -> WaitingSummary:
    oldest = min(parts, key=lambda part: part.since)
    task = oldest.first if isinstance(oldest.first, Task) else _first_of(oldest.first, reason)
    example = "" if task is None else task.id
    said = None if task is None else diagnose(memory, task.id, now)
    since = oldest.since if task is None else min(oldest.since, task.since)
    return WaitingSummary(
        reason=reason, tasks=sum(part.tasks for part in parts), oldest=since, example=example,
        says="" if said is None else said.verdict,
    )  # fmt: skip


def _queued(memory: ShardMemory, now: datetime, only: str | None) -> Iterator[_Part]:
    """Queued tasks. With stale entries no more are counted than there are tasks."""
    diagnosis = DiagnosisContext(memory, now)
    for queue in memory.queues.queues():
        front = memory.queues.front(queue.priority, queue.tenant, queue.shape) if only in {None, queue.tenant} else None
        if front is not None:
            reason = of_queue(diagnosis, queue).reason or Reason.PRIORITY_QUEUE_WAIT
            count = min(queue.length, memory.queues.depth.get((queue.priority, queue.tenant), 0))
            yield _Part(reason, count, queue.since, front[2])
    for blocked_task in memory.queues.blocked.queues():
        task = blocked_task.first.task
        if only in {None, task.tenant}:
            reason = of_blocked(diagnosis, blocked_task.first) or Reason.PRIORITY_QUEUE_WAIT
            yield _Part(reason, blocked_task.length, task.since, task)


def _not_queued(memory: ShardMemory, now: datetime, only: str | None) -> Iterator[_Part]:
    """Pending tasks, and quarantined ones."""
    for run in memory.runs.values():
        pending, held = run.counts.get(S.PENDING, 0), run.counts.get(S.QUARANTINED, 0)
        if not (pending or held) or only not in {None, run.run.tenant}:
            continue
        since = run.changed_at or run.run.adopted_at or now
        if held:
            yield _Part(Reason.QUARANTINED, held, since, run)
        if run.is_suspended():
            yield _Part(Reason.PAUSED, pending, since, run)
            continue
        if run.delayed:
            is_failing = run.subject() in memory.limits.job_breakers.open
            yield _Part(Reason.CIRCUIT_OPEN if is_failing else Reason.WAITING_RETRY, run.delayed, since, run)
        if pending > run.delayed:
            yield _Part(Reason.WAITING_UPSTREAM, pending - run.delayed, since, run)


def _first_of(run: RunMemory, reason: Reason) -> Task | None:
    """The task of a run that has waited longest for this."""
    state = S.QUARANTINED if reason is Reason.QUARANTINED else S.PENDING
    is_due = {Reason.WAITING_UPSTREAM: False, Reason.WAITING_RETRY: True, Reason.CIRCUIT_OPEN: True}.get(reason)
    tasks = (task for task in run.tasks if task.state is state and is_due in {None, task.due_at is not None})
    return min(tasks, key=lambda task: task.since, default=None)
