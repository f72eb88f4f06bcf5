"""What the tasks of a line wait for: its oldest task's reason, found as a diagnosis finds it, for many lines at once.

`ms queue`, `ms why --queue` and the metrics go by this, and so agree with what `ms why` says of the oldest.
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
"""Of so many lines, and so many shapes that found no room, it is found out: more would hold everybody up. Of the others
it is said whether they found room."""


class WhyLine(NamedTuple):
    """What the oldest task of a line waits for."""

    reason: Reason | None
    """None: it is next."""
    why: str
    """In words; empty: it is next."""


_NEXT = WhyLine(None, "")


def of_line(survey: Survey, line: QueueLine) -> WhyLine:
    """What the tasks of a line wait for; the oldest of them, if not all wait for the same."""
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
    """What a task waits for that is set aside: rules hold it; None: no more, and it is about to come back."""
    hold = held_by_rules(survey.look_at(*aside))
    return None if hold is None else hold.reason
