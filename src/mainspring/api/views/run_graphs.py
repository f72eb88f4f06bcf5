"""The graph of a run: its job's definition, dynamic tasks, and task counts by state."""

from __future__ import annotations

import msgspec

from mainspring.api.views.view_of import view_of
from mainspring.core.graph import expansion
from mainspring.core.graph.expansion import Expansion
from mainspring.core.graph.run_graph import GraphNode, build_graph
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.task import TaskState
from mainspring.protocol.errors import JobMissing, Refused
from mainspring.protocol.rest.overviews import EdgeView, GraphView, NodeView
from mainspring.store.ports.front import ListedRun, TaskFilter
from mainspring.store.ports.store import Store

MAX_NODES = 10_000


async def graph_of(store: Store, found: ListedRun) -> GraphView:
    """Return the graph of a run. Raises Refused if it is too large."""
    nodes = await nodes_of(store, found)
    states = await store.task_states(found.run.id, found.run.task_count)
    return GraphView(run_id=found.run.id, nodes=[_view(node, states.get(node.name, {})) for node in nodes])


async def nodes_of(store: Store, found: ListedRun) -> list[GraphNode]:
    """Return the nodes of a run's graph in topological order. Raises Refused if there are too many."""
    rows = await store.jobs([found.run.job_id])
    if not rows:
        raise JobMissing.of([found.run.job_id])
    spec = msgspec.json.decode(rows[0].definition, type=JobSpec)
    return build_graph(spec, await _added(store, found, spec))


async def _added(store: Store, found: ListedRun, spec: JobSpec) -> dict[str, Expansion]:
    """Return the dynamic tasks of a run, by the task that created them."""
    added: dict[str, Expansion] = {}
    count = len(spec.tasks)
    parent_tasks = [task for task in spec.tasks if task.grows]
    while True:
        if count > MAX_NODES:
            raise Refused(f"the graph of {found.run.id} has more than {MAX_NODES} nodes: list its tasks instead")
        if not parent_tasks:
            return added
        parent_task = parent_tasks.pop()
        output = await _output(store, found, parent_task)
        if output is not None:
            added[parent_task.name] = adds = expansion.read(output)
            parent_tasks += [task for task in adds.tasks if task.grows]
            count += len(adds.tasks)


async def _output(store: Store, found: ListedRun, parent_task: TaskSpec) -> str | None:
    """Return the output of a successful task."""
    wanted = TaskFilter(run_id=found.run.id, name=parent_task.name, states=(TaskState.SUCCEEDED,))
    if not found.in_history:
        tasks = await store.list_tasks(wanted, 1)
    else:
        tasks = [task for task in await store.tasks(found.run.id) if task.name == parent_task.name]
    return tasks[0].output if tasks and tasks[0].state is TaskState.SUCCEEDED else None


def _view(node: GraphNode, states: dict[str, int]) -> NodeView:
    needs = [view_of(EdgeView, edge) for edge in node.needs]
    return view_of(NodeView, node, needs=needs, tasks=sum(states.values()) or 1, states=states)
