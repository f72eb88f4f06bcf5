"""Why no worker takes a task: the obstacle of each worker."""

from __future__ import annotations

import pytest

from mainspring.core.explain.unplaced import explain
from mainspring.core.model.resources import Resources
from mainspring.core.placement.feasibility import Obstacle, ObstacleKind
from mainspring.core.placement.task_shapes import Shape

H = ObstacleKind
SHAPE = Shape(
    resources=Resources(1_000),
    labels=(("disk", "ssd"), ("gpu", "")),
    zone="eu-1",
    affinity=("load",),
    anti_affinity=("log",),
)


def a_worker(*kinds: ObstacleKind) -> list[Obstacle]:
    """The obstacles of a worker."""
    return [Obstacle(kind, "a detail") for kind in kinds]


@pytest.mark.parametrize("kind", ObstacleKind)
def test_every_kind_of_obstacle_has_a_description(kind: ObstacleKind) -> None:
    said = explain(SHAPE, [a_worker(kind)])
    assert said.startswith(("no worker matches: 1 ", "no worker has capacity for 1 core, disk=ssd"))


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([], "the pool has no workers"),
        ([a_worker(H.NO_CAPACITY), a_worker(H.NO_CAPACITY, H.RESERVED)], f"no worker has capacity for {SHAPE}"),
        ([a_worker(H.NO_CAPACITY), a_worker(H.LABEL)], "no worker has capacity: 1 without disk=ssd and gpu, 1 full"),
        ([a_worker(H.NO_CAPACITY, H.ZONE)] * 2, "no worker matches: 2 not in zone eu-1"),
        (
            [a_worker(H.TOO_BIG), a_worker(H.ZONE_NOT_ALLOWED)],
            "no worker matches: 1 outside the zones of the pool, 1 too small",
        ),
        ([a_worker(H.AFFINITY, H.NO_CAPACITY)], "no worker matches: 1 not where load ran"),
    ],
)
def test_permanent_obstacles_come_first_and_each_worker_counts_once(workers: list[list[Obstacle]], said: str) -> None:
    assert explain(SHAPE, workers) == said


def test_fragmented_capacity_is_reported() -> None:
    """PLC-9: enough is free, but on no single worker."""
    workers = [a_worker(H.NO_CAPACITY), a_worker(H.NO_CAPACITY), a_worker(H.TOO_BIG)]
    said = f"fragmented: 1.5 cores free in total, but no worker has enough for {SHAPE}"
    assert explain(SHAPE, workers, Resources(1_500)) == said
    assert explain(SHAPE, workers, Resources(999)) == "no worker has capacity: 1 too small, 2 full"
