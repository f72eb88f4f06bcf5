"""Why no worker takes a task, in one sentence."""

from __future__ import annotations

import pytest

from mainspring.core.explain.unplaced import explain
from mainspring.core.model.resources import Resources
from mainspring.core.placement.feasibility import Hindrance, Obstacle
from mainspring.core.placement.task_shapes import Shape

H = Hindrance
SHAPE = Shape(
    resources=Resources(1_000), labels=(("disk", "ssd"), ("gpu", "")), zone="eu-1", near=("load",), apart=("log",)
)


def a_worker(*kinds: Hindrance) -> list[Obstacle]:
    """A worker that these keep from taking it."""
    return [Obstacle(kind, "a detail") for kind in kinds]


@pytest.mark.parametrize("kind", Hindrance)
def test_every_kind_of_obstacle_has_words(kind: Hindrance) -> None:
    said = explain(SHAPE, [a_worker(kind)])
    assert said.startswith(("no worker will do: 1 ", "no worker has room for 1 core, disk=ssd"))


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([], "there is no worker in the pool"),
        ([a_worker(H.NO_ROOM), a_worker(H.NO_ROOM, H.KEPT)], f"no worker has room for {SHAPE}"),
        ([a_worker(H.NO_ROOM), a_worker(H.LABEL)], "no worker has room: 1 without disk=ssd and gpu, 1 full"),
        ([a_worker(H.NO_ROOM, H.ZONE)] * 2, "no worker will do: 2 not in zone eu-1"),
        ([a_worker(H.TOO_BIG), a_worker(H.OUTSIDE)], "no worker will do: 1 outside the zones of the pool, 1 too small"),
        ([a_worker(H.NEAR, H.NO_ROOM)], "no worker will do: 1 not where load ran"),
    ],
)
def test_the_lasting_things_are_said_first_and_each_worker_counts_once(
    workers: list[list[Obstacle]], said: str
) -> None:
    assert explain(SHAPE, workers) == said


def test_room_in_pieces_is_said_to_be_so() -> None:
    """PLC-9: enough is free, but on no single worker."""
    workers = [a_worker(H.NO_ROOM), a_worker(H.NO_ROOM), a_worker(H.TOO_BIG)]
    said = f"fragmented: 1.5 cores are free, but on no single worker enough for {SHAPE}"
    assert explain(SHAPE, workers, Resources(1_500)) == said
    assert explain(SHAPE, workers, Resources(999)) == "no worker has room: 1 too small, 2 full"
