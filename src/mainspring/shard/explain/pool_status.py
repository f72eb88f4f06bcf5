"""Make the status of a pool (`pool_status.py`) from the memory of its shard.

Made on request, read-only. Costs a scan of queues, tenants and workers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime

from mainspring.core.fairness.fair_queues import QueueSummary
from mainspring.core.fairness.pool_status import PoolStatus, QueueStatus, ReservationStatus, TenantStatus
from mainspring.core.fairness.quotas import is_guaranteed
from mainspring.core.model.resources import ZERO_RESOURCES, dominant_share
from mainspring.core.model.task import Priority, StopKind
from mainspring.core.model.worker import WorkerStatus
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.explain.diagnosis_context import DiagnosisContext
from mainspring.shard.explain.findings import lease_count
from mainspring.shard.explain.queue_reasons import of_blocked, of_queue
from mainspring.shard.placement import failure_throttle, fair_share, gates
from mainspring.shard.state.blocked import BlockedRun
from mainspring.shard.state.memory import ShardMemory

MAX_ROWS = 1_000
"""Limit of tenants, queues and reservations."""
_MOVED = frozenset({StopKind.PREEMPT, StopKind.EVICT})


def pool_status(memory: ShardMemory, now: datetime, tenant: str | None = None) -> PoolStatus:
    """The status of the pool; with `tenant`, details are of that tenant only."""
    ready = [worker for worker in memory.workers.values() if worker.status is WorkerStatus.READY]
    return PoolStatus(
        pool=memory.shard,
        at=now,
        workers=len(ready),
        capacity=memory.workers.capacity,
        used=sum(memory.leases.use.values(), start=ZERO_RESOURCES),
        dispatch_paused_from=memory.queues.suspended_from,
        queued=_queued(memory),
        tenants=_tenants(memory, now, tenant),
        queues=_queue_statuses(memory, now, tenant),
        reservations=heapq.nsmallest(
            MAX_ROWS,
            (reservation for reservation in _reservations(memory) if tenant in {None, reservation.tenant}),
            key=lambda reservation: (reservation.priority, reservation.until),
        ),
        stopping=sum(task.stop is not None and task.stop.kind in _MOVED for task in memory.attempts.values()),
    )


def _queued(memory: ShardMemory) -> dict[str, int]:
    queued = dict.fromkeys((priority.name for priority in Priority), 0)
    for (priority, _), depth in memory.queues.depth.items():
        queued[priority.name] += depth
    return queued


def _tenants(memory: ShardMemory, now: datetime, only: str | None) -> list[TenantStatus]:
    queued: dict[str, dict[str, int]] = {}
    for (priority, tenant), depth in memory.queues.depth.items():
        queued.setdefault(tenant, {})[priority.name] = depth
    here = fair_share.active_tenants(memory)
    weights = fair_share.total_weight(memory, here, now)
    shares = {
        tenant: dominant_share(memory.leases.use.get(tenant, ZERO_RESOURCES), memory.workers.capacity)
        for tenant in here
    }
    shown = here if only is None else [tenant for tenant in here if tenant == only]
    largest = heapq.nlargest(MAX_ROWS, shown, key=lambda tenant: (shares[tenant], tenant))
    found = []
    for tenant in largest:
        quota, use = memory.rules.quota(tenant, now), memory.leases.use.get(tenant, ZERO_RESOURCES)
        found.append(
            TenantStatus(
                tenant=tenant,
                quota=quota,
                queued=queued.get(tenant, {}),
                running=lease_count(memory, tenant),
                use=use,
                share=shares[tenant],
                fair_share=quota.weight / weights if weights else 0.0,
                is_on_burst=quota.guaranteed != ZERO_RESOURCES and not is_guaranteed(quota, use),
                blocked_by=_blocked(memory, tenant, queued.get(tenant, {}), now),
            )
        )
    return found


def _blocked(memory: ShardMemory, tenant: str, queued: dict[str, int], now: datetime) -> str:
    """Describe the rule that keeps a tenant with waiting tasks from starting any."""
    for priority in Priority:
        if priority.name in queued:
            waiting = memory.queues.shapes_of(priority, tenant)
            shapes = [shape for shape in waiting if memory.queues.front(priority, tenant, shape) is not None]
            whys = [_why_not(memory, priority, tenant, shape, now) for shape in (*shapes,) or (None,)]
            if all(whys):
                return whys[0]
    return ""


def _why_not(memory: ShardMemory, priority: Priority, tenant: str, shape: Shape | None, now: datetime) -> str:
    """Describe the rule that blocks a tenant's tasks of a priority and shape; empty if there is none."""
    frozen = gates.freeze_over(memory, tenant, now)
    if frozen is not None:
        return str(frozen)
    if priority is Priority.P0:
        return ""
    if memory.limits.failures.has(tenant) and failure_throttle.is_exhausted(memory, tenant, now):
        return failure_throttle.describe(memory, tenant, now)
    limit = None if shape is None else gates.exceeds(memory, priority, tenant, shape, now)
    return "" if limit is None else gates.format_excess(memory, tenant, limit, now)


def _queue_statuses(memory: ShardMemory, now: datetime, only: str | None) -> list[QueueStatus]:
    """The waiting queues; reasons are computed only for those that are returned."""
    queues = (queue for queue in memory.queues.queues() if only in {None, queue.tenant})
    blocked = (
        blocked_task
        for blocked_task in memory.queues.blocked.queues()
        if only in {None, blocked_task.first.task.tenant}
    )
    both: list[QueueSummary | BlockedRun] = [*queues, *blocked]
    first = heapq.nsmallest(MAX_ROWS, both, key=_place)
    diagnosis = DiagnosisContext(memory, now)
    return [
        _of_queue(diagnosis, one) if isinstance(one, QueueSummary) else _of_blocked(diagnosis, one) for one in first
    ]


def _place(queue: QueueSummary | BlockedRun) -> tuple[Priority, datetime]:
    if isinstance(queue, QueueSummary):
        return queue.priority, queue.since
    return queue.first.task.priority, queue.first.task.since


def _of_queue(diagnosis: DiagnosisContext, queue: QueueSummary) -> QueueStatus:
    reason, why = of_queue(diagnosis, queue)
    return QueueStatus(
        priority=queue.priority, tenant=queue.tenant, wants=str(queue.shape), waiting=queue.length, since=queue.since,
        why=why, reason=reason,
    )  # fmt: skip


def _of_blocked(diagnosis: DiagnosisContext, blocked_task: BlockedRun) -> QueueStatus:
    task, shape = blocked_task.first
    return QueueStatus(
        priority=task.priority, tenant=task.tenant, wants=str(shape), waiting=blocked_task.length, since=task.since,
        why=blocked_task.why, reason=of_blocked(diagnosis, blocked_task.first),
    )  # fmt: skip


def _reservations(memory: ShardMemory) -> Iterator[ReservationStatus]:
    for reserved in memory.queues.reserved.values():
        for task in reserved.values():
            if task.reserved is not None:
                yield ReservationStatus(
                    task=task.id, tenant=task.tenant, priority=task.priority, worker=task.reserved.worker,
                    until=task.reserved.until, why=task.reserved.why,
                )  # fmt: skip
