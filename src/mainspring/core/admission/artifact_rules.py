"""Validation of fetched artifacts: only from upstream tasks, which have ended before (WRK-11)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.artifacts import fault_in_fetch, task_of
from mainspring.core.model.job import TaskSpec
from mainspring.core.text.suggestions import did_you_mean
from mainspring.core.work.work import read_work

_NAMES_TO_COMPARE = 1_000


def check_fetches(tasks: Sequence[tuple[int, TaskSpec]], graph: Sequence[Sequence[int]], faults: Faults) -> None:
    """Check that each task fetches only from upstream tasks. `graph` has the indexes of each task's parents."""
    for place, (number, task) in enumerate(tasks):
        fetches = _fetches_of(task.work)
        if not fetches:
            continue
        upstream = {tasks[one][1].name for one in _upstream(place, graph)}
        for index, text in enumerate(fetches):
            if fault_in_fetch(text) is None and task_of(text) not in upstream:
                faults.add(f"tasks[{number}].work.fetch[{index}]", _format_unknown_task(task_of(text), upstream))


def _fetches_of(work: msgspec.Raw) -> tuple[str, ...]:
    """Return the fetch patterns of a work. Most need no decoding."""
    text = bytes(work)
    if b"fetch" not in text and b"\\" not in text:
        return ()
    try:
        found = read_work(text)
    except (msgspec.DecodeError, ValueError):
        return ()  # The rules of works report the fault.
    return found.fetch if found is not None else ()


def _upstream(place: int, graph: Sequence[Sequence[int]]) -> set[int]:
    """Return all direct and indirect upstream tasks. Cycles are tolerated."""
    found: set[int] = set()
    waiting = list(graph[place])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += graph[one]
    return found


def _format_unknown_task(name: str, upstream: Collection[str]) -> str:
    hint = did_you_mean(name, upstream) if len(upstream) <= _NAMES_TO_COMPARE else ""
    return f"fetches from {name[:80]!r}, which is not upstream of the task{hint}"
