"""Deadline of a run for the API: from rows alone, so that it works without a leader.

A shard computes it by tasks (`shard/tasks/deadlines.py`); here tasks are grouped by name: a fan-out is one node.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.api.http.problems import not_found
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.views import run_graphs
from mainspring.api.views.view_of import view_of
from mainspring.core.graph.run_graph import GraphNode
from mainspring.core.lifecycle.deadlines import DeadlineForecast, forecast_deadline, remaining_seconds
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import TaskState
from mainspring.protocol.rest.overviews import DeadlineTaskView, DeadlineView
from mainspring.store.ports.front import ListedRun, TaskFilter
from mainspring.store.ports.store import Store

_MAX_RUNNING = 1_000


async def deadline_of(store: Store, time: StoreTimeCache, found: ListedRun) -> DeadlineView:
    """Return the deadline of a run. Raises NotFound if it has none, Refused if its graph is too large."""
    row, now = found.run, await time.now()
    if row.finish_by is None:
        raise not_found("deadline of run", row.id)
    nodes = await run_graphs.nodes_of(store, found)
    usual = await _usual_seconds(store, found, nodes)
    left = await _left(store, found, nodes, usual, now) if row.ended_at is None else {}
    places = {node.name: place for place, node in enumerate(nodes)}
    children: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        for edge in node.needs:
            children[places[edge.task]].append(place)
    no_outlook = DeadlineForecast(finish_by=row.finish_by, at=now, left_seconds=0.0)
    outlook = forecast_deadline(left, children.__getitem__, finish_by=row.finish_by, now=now) if left else no_outlook
    return view_of(
        DeadlineView,
        outlook,
        run_id=row.id,
        at_risk_at=row.at_risk_at,
        is_late=(row.ended_at or now) >= row.finish_by,
        path=_path(outlook, left, [node.name for node in nodes], usual),
    )


async def _usual_seconds(store: Store, found: ListedRun, nodes: list[GraphNode]) -> dict[str, float | None]:
    """Return the usual duration of each task in the pool of the run, or its expected one by definition."""
    rows = await store.durations(found.run.tenant, found.job_name)
    known = {row.task: row.p90_seconds for row in rows if row.shard == found.run.shard}
    return {node.name: known.get(node.name, node.expected_seconds) for node in nodes}


async def _left(
    store: Store, found: ListedRun, nodes: list[GraphNode], usual: dict[str, float | None], now: datetime
) -> dict[int, float | None]:
    """Return the remaining time of each open node: if all its open tasks run, the longest remaining one."""
    states = await store.task_states(found.run.id, found.run.task_count)
    wanted = TaskFilter(run_id=found.run.id, states=(TaskState.RUNNING,))
    elapsed: dict[str, float] = {}
    for task in await store.list_tasks(wanted, _MAX_RUNNING):
        ran = max(0.0, (now - (task.started_at or now)).total_seconds())
        elapsed[task.name] = min(ran, elapsed.get(task.name, ran))
    left: dict[int, float | None] = {}
    for place, node in enumerate(nodes):
        counts = states.get(node.name, {})
        is_open = any(count for state, count in counts.items() if state not in FINAL) or not counts
        is_running = all(state in FINAL or state == TaskState.RUNNING for state, count in counts.items() if count)
        if is_open:
            left[place] = remaining_seconds(usual[node.name], elapsed=elapsed.get(node.name) if is_running else None)
    return left


def _path(
    outlook: DeadlineForecast, left: dict[int, float | None], names: list[str], usual: dict[str, float | None]
) -> list[DeadlineTaskView]:
    """Return the critical path, with the latest start of each task."""
    found, ends_at = [], outlook.finish_by
    for place in reversed(outlook.path):
        ends_at -= timedelta(seconds=left[place] or 0.0)
        found.append(DeadlineTaskView(name=names[place], usual_seconds=usual[names[place]], latest_start_at=ends_at))
    return found[::-1]
