"""What only shows when the pipelines of a folder are seen together: who waits for whom (TRG-8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mainspring.core.text.suggestions import did_you_mean
from mainspring.definitions.files.field_values import suggestion
from mainspring.definitions.files.sources import Flaw, Place, where
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.protocol.errors import Fault


def after_cycles(pipelines: Sequence[Pipeline]) -> list[tuple[Pipeline, Flaw]]:
    """Every pipeline that waits for itself, over others: none of them would ever run."""
    waits = {pipeline.id: _waits_for(pipeline) for pipeline in pipelines}
    entangled = _entangled(waits)
    found = []
    for pipeline in pipelines:
        way = _way_back(pipeline.id, waits) if pipeline.id in entangled else []
        if way:
            steps = ", ".join(f"{one} waits for {other}" for one, other in zip(way, [*way[1:], way[0]], strict=True))
            found.append((pipeline, Flaw(place=_place(pipeline), why=f"`after` goes round in a circle: {steps}")))
    return found


def unknown_afters(pipelines: Sequence[Pipeline], ids: set[str]) -> list[Fault]:
    """Where a pipeline waits for one that is not there. A server may have it all the same.

    `ids` are those of all that is there, also where the file can't be used.
    """
    found = []
    for pipeline in pipelines:
        for other in sorted(_waits_for(pipeline) - ids):
            note = suggestion(did_you_mean(other, ids - {pipeline.id}))
            why = f"it waits for `{other}`, and there is no such pipeline here, {note}".removesuffix(", ")
            found.append(Fault(where=where(pipeline.file, _place(pipeline)), why=why))
    return found


def _waits_for(pipeline: Pipeline) -> frozenset[str]:
    return frozenset(schedule.after.job for schedule in pipeline.schedules if schedule.after is not None)


def _place(pipeline: Pipeline) -> Place:
    places = pipeline.schedule_places
    return places.get(("after",)) or places.get((), Place(0, 0))


def _entangled(waits: Mapping[str, Iterable[str]]) -> set[str]:
    """Those that lead into a circle: the others are left out, one after the other, from the ends on."""
    waiting_for: dict[str, list[str]] = {}
    open_ends = {name: sum(other in waits for other in others) for name, others in waits.items()}
    for name, others in waits.items():
        for other in others:
            waiting_for.setdefault(other, []).append(name)
    free = [name for name, count in open_ends.items() if not count]
    left = set(waits)
    while free:
        name = free.pop()
        left.discard(name)
        for other in waiting_for.get(name, ()):
            open_ends[other] -= 1
            if not open_ends[other]:
                free.append(other)
    return left


def _way_back(start: str, waits: Mapping[str, Iterable[str]]) -> list[str]:
    """The shortest way from a pipeline to itself; empty if there is none."""
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
