"""Why no worker takes a task, in one sentence: the obstacle of each worker, permanent ones first.

If you add a kind of obstacle (`core/placement/feasibility.py`), add its words here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mainspring.core.model.resources import ZERO_RESOURCES, Resources, format_amounts
from mainspring.core.placement.feasibility import Obstacle, ObstacleKind
from mainspring.core.placement.task_shapes import Shape, format_label
from mainspring.core.text.sentences import join_words

H = ObstacleKind
_CAPACITY = (H.RESERVED, H.NO_CAPACITY)


def explain(shape: Shape, workers: Sequence[Iterable[Obstacle]], free: Resources = ZERO_RESOURCES) -> str:
    """Return why none of these workers takes a task of this shape.

    `free` is the total of the workers that lack only capacity: if that is enough, it is fragmented (PLC-9).
    """
    if not workers:
        return "the pool has no workers"
    described = _describe(shape)
    order = list(described)
    firsts = Counter(min((one.kind for one in found), key=order.index, default=H.NO_CAPACITY) for found in workers)
    if H.NO_CAPACITY in firsts and shape.resources.fits(free):
        return f"fragmented: {join_words(format_amounts(free))} free in total, but no worker has enough for {shape}"
    if all(kind in _CAPACITY for kind in firsts):
        return f"no worker has capacity for {shape}"
    said = ", ".join(f"{firsts[kind]} {words}" for kind, words in described.items() if kind in firsts)
    if any(kind in firsts for kind in _CAPACITY):
        return f"no worker has capacity: {said}"
    return f"no worker matches: {said}"


def _describe(shape: Shape) -> dict[ObstacleKind, str]:
    """Describe the workers with each obstacle, the most permanent obstacle first."""
    return {
        H.ZONE_NOT_ALLOWED: "outside the zones of the pool",
        H.ZONE: f"not in zone {shape.zone}",
        H.LABEL: f"without {' and '.join(format_label(key, value) for key, value in shape.labels)}",
        H.TOO_BIG: "too small",
        H.REFUSED: "refused such a task",
        H.AFFINITY: f"not where {', '.join(shape.affinity)} ran",
        H.ANTI_AFFINITY: f"with {', '.join(shape.anti_affinity)} of the same run",
        H.NOT_READY: "silent",
        H.CORDONED: "cordoned, draining or leaving",
        H.UNCLAIMED: "without an open claim",
        H.RESERVED: "with capacity reserved for others",
        H.NO_CAPACITY: "full",
    }
