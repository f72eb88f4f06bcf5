"""Checks across the pipelines of a folder: cycles and unknown names in `after` (TRG-8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from mainspring.definitions.files.field_values import suggestion
from mainspring.definitions.files.sources import FileIssue, Position, where
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.protocol.errors import Fault


def after_cycles(pipelines: Sequence[Pipeline]) -> list[tuple[Pipeline, FileIssue]]:
    """Return every pipeline that waits for itself, directly or not: it would never run."""
    waits = {pipeline.id: _waits_for(pipeline) for pipeline in pipelines}
    entangled = _nodes_in_cycles(waits)
    found = []
    for pipeline in pipelines:
        way = _shortest_cycle(pipeline.id, waits) if pipeline.id in entangled else []
        if way:
            steps = ", ".join(f"{one} waits for {other}" for one, other in zip(way, [*way[1:], way[0]], strict=True))
            found.append((pipeline, FileIssue(place=_place(pipeline), why=f"`after` forms a cycle: {steps}")))
    return found


def unknown_afters(pipelines: Sequence[Pipeline], ids: set[str]) -> list[Fault]:
    """Return a warning for each pipeline that waits for an unknown one. The server may know it.

    `ids` are those of all pipelines in the folder, including invalid files.
    """
    found = []
    for pipeline in pipelines:
        for other in sorted(_waits_for(pipeline) - ids):
            note = suggestion(other, ids - {pipeline.id})
            why = f"waits for `{other}`, which is not in this folder, {note}".removesuffix(", ")
            found.append(Fault(where=where(pipeline.file, _place(pipeline)), why=why))
    return found


def _waits_for(pipeline: Pipeline) -> frozenset[str]:
    return frozenset(schedule.after.job for schedule in pipeline.schedules if schedule.after is not None)


def _place(pipeline: Pipeline) -> Position:
    places = pipeline.schedule_places
    return places.get(("after",)) or places.get((), Position(0, 0))


def _nodes_in_cycles(waits: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the pipelines on or in front of a cycle, by removing the others."""
    sorter = TopologicalSorter(waits)
    with suppress(CycleError):
        sorter.prepare()
    left = set(waits)
    while free := sorter.get_ready():
        left.difference_update(free)
        sorter.done(*free)
    return left


def _shortest_cycle(start: str, waits: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the shortest cycle through a pipeline; empty if there is none."""
    came_from: dict[str, str] = {}
    ahead = [start]
    for name in ahead:
        for other in sorted(waits.get(name, ())):
            if other == start:
                way = [name]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if other not in came_from:
                came_from[other] = name
                ahead.append(other)
    return []
