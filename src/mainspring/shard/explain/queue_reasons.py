"""What the tasks of a queue wait for: the reason of its oldest task, as its diagnosis finds it, for many queues at
once.

`ms queue`, `ms why --queue` and the metrics use this, and so agree with `ms why` about the oldest.
"""

from __future__ import annotations

from typing import NamedTuple

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.fairness.fair_queues import QueueSummary
from mainspring.shard.explain.diagnosis_context import DiagnosisContext
from mainspring.shard.explain.queued_tasks import held_by_capacity, held_by_rules
from mainspring.shard.state.blocked import BlockedTask

_MAX_QUEUES = 2_000
_MAX_SHAPES = 32
"""Limits of queues and parked shapes that are diagnosed, so that others don't wait. The rest is reported as parked or
not.
"""


class QueueReason(NamedTuple):
    """What the oldest task of a queue waits for."""

    reason: Reason | None
    """None: it is next."""
    why: str
    """In words; empty: it is next."""


_NEXT = QueueReason(None, "")


def of_queue(diagnosis: DiagnosisContext, line: QueueSummary) -> QueueReason:
    """What the tasks of a queue wait for: the reason of the oldest."""
    queues = diagnosis.memory.queues
    front = queues.front(line.priority, line.tenant, line.shape)
    if front is None:
        return _NEXT
    diagnosis.lines += 1
    parked = queues.parked.get(line.shape)
    otherwise = _NEXT if parked is None else QueueReason(Reason.NO_WORKER_CAPACITY, parked)
    if diagnosis.lines > _MAX_QUEUES:
        return otherwise
    context = diagnosis.context_of(front[2], line.shape)
    block = held_by_rules(context)
    if block is None and parked is not None:
        shapes = diagnosis.shapes_known()
        if line.shape not in shapes and len(shapes) >= _MAX_SHAPES:
            return otherwise
        block = held_by_capacity(context)
    return otherwise if block is None else QueueReason(block.reason, block.why)


def of_blocked(diagnosis: DiagnosisContext, blocked_task: BlockedTask) -> Reason | None:
    """What a blocked task waits for; None: nothing any more, it is about to return to its queue."""
    block = held_by_rules(diagnosis.context_of(*blocked_task))
    return None if block is None else block.reason
