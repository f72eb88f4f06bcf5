"""The graph of a run for display: by name, in topological order, including tasks added by outputs (DAG-5)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.core.graph.expansion import Expansion
from mainspring.core.graph.graph import topological_order
from mainspring.core.model.job import Edge, JobSpec, TaskSpec


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A task, or all tasks of a fan-out."""

    name: str
    needs: tuple[Edge, ...]
    when: str | None = None
    """Its own condition."""
    is_fan_out: bool = False
    added_by: str | None = None
    """Task whose output added it."""
    expected_seconds: float | None = None
    """Duration according to its definition."""


def build_graph(spec: JobSpec, added: Mapping[str, Expansion]) -> list[GraphNode]:
    """Return the nodes of a run's graph in topological order; `added` has the expansions by task name."""
    nodes = {task.name: _node(task, None) for task in spec.tasks}
    for parent_task, expansion in added.items():
        nodes |= {task.name: _node(task, parent_task) for task in expansion.tasks}
    for expansion in added.values():
        for further in expansion.edges:
            node = nodes[further.task]
            nodes[further.task] = msgspec.structs.replace(node, needs=(*node.needs, *further.all_needs()))
    places = {name: place for place, name in enumerate(nodes)}
    ordered = list(nodes.values())
    needs = [[places[edge.task] for edge in node.needs] for node in ordered]
    return [ordered[place] for place in topological_order(needs)]


def _node(task: TaskSpec, parent_task: str | None) -> GraphNode:
    """A task without needs that an output added depends on the task with that output."""
    needs = task.needs or ((Edge(parent_task),) if parent_task is not None else ())
    is_fan_out = task.for_each is not None
    return GraphNode(
        name=task.name, needs=needs, when=task.when, is_fan_out=is_fan_out, added_by=parent_task,
        expected_seconds=task.expected_seconds,
    )  # fmt: skip
