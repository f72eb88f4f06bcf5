"""What the tasks of a queue wait for: the reason of its oldest task, as its diagnosis finds it, for many queues at
once.

`ms queue`, `ms why --queue` and the metrics use this, and so agree with `ms why` about the oldest.
"""

from __future__ import annotations

from typing import NamedTuple

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.fairness.fair_queues import QueueLine
from mainspring.shard.explain.diagnosis_context import Survey
from mainspring.shard.explain.queued_tasks import held_by_room, held_by_rules
from mainspring.shard.placement.blocked import Aside

_LINES_EXPLAINED = 2_000
_SHAPES_EXPLAINED = 32
"""Limits of queues and parked shapes that are diagnosed, so that others don't wait. The rest is reported as parked or
not.
"""


class WhyLine(NamedTuple):
    """What the oldest task of a queue waits for."""

    reason: Reason | None
    """None: it is next."""
    why: str
    """In words; empty: it is next."""


_NEXT = WhyLine(None, "")


def of_line(survey: Survey, line: QueueLine) -> WhyLine:
    """What the tasks of a queue wait for: the reason of the oldest."""
    queues = survey.memory.queues
    front = queues.front(line.priority, line.tenant, line.shape)
    if front is None:
        return _NEXT
    survey.lines += 1
    parked = queues.parked.get(line.shape)
    otherwise = _NEXT if parked is None else WhyLine(Reason.NO_WORKER_CAPACITY, parked)
    if survey.lines > _LINES_EXPLAINED:
        return otherwise
    look = survey.look_at(front[2], line.shape)
    hold = held_by_rules(look)
    if hold is None and parked is not None:
        shapes = survey.shapes_known()
        if line.shape not in shapes and len(shapes) >= _SHAPES_EXPLAINED:
            return otherwise
        hold = held_by_room(look)
    return otherwise if hold is None else WhyLine(hold.reason, hold.why)


def of_aside(survey: Survey, aside: Aside) -> Reason | None:
    """What a blocked task waits for; None: nothing any more, it is about to return to its queue."""
    hold = held_by_rules(survey.look_at(*aside))
    return None if hold is None else hold.reason
