"""The graph of a run: nodes by name, with counts and dynamic tasks."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.api.views import run_graphs
from mainspring.protocol.rest.overviews import GraphView
from mainspring.shard.events import RunsExpired
from tests.api.api_harness import NOOP, ApiHarness, problem, read, submit, until
from tests.host.host_harness import ScriptedWorker

DYNAMIC_KINDS: dict[str, object] = {
    "name": "growing",
    "tasks": [
        {"name": "plan", "grows": True},
        {"name": "each", "needs": [{"task": "plan"}], "for_each": "params.parts"},
        {"name": "report", "needs": [{"task": "each"}]},
    ],
}
ADDED = {"tasks": [{"name": "extra", "needs": ["plan"]}], "edges": [{"task": "report", "needs": ["extra"]}]}


async def test_a_graph_groups_fan_outs_and_includes_dynamic_tasks(harness: ApiHarness) -> None:
    """Also in history."""
    caller = await harness.admin("acme")
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(caller, DYNAMIC_KINDS, params={"parts": 3})
        path = f"/api/v1/runs/{run.id}"
        await hand.finish((await hand.next_task()).attempt, msgspec.json.encode(ADDED).decode())
        for _ in range(5):
            await hand.finish((await hand.next_task()).attempt)
        graph = read(await caller.get(f"{path}/graph"), GraphView)
        leader.inbox.put(RunsExpired(run_ids=(run.id,)))

        async def is_in_history() -> bool:
            return bool((await caller.get(path)).json()["in_history"])

        await until(is_in_history)
        afterwards = read(await caller.get(f"{path}/graph"), GraphView)

    nodes = {node.name: node for node in graph.nodes}
    assert list(nodes) == ["plan", "each", "extra", "report"]
    assert [(node.tasks, node.states, node.is_fan_out, node.added_by) for node in graph.nodes] == [
        (1, {"SUCCEEDED": 1}, False, None),
        (3, {"SUCCEEDED": 3}, True, None),
        (1, {"SUCCEEDED": 1}, False, "plan"),
        (1, {"SUCCEEDED": 1}, False, None),
    ]
    assert [edge.task for edge in nodes["report"].needs] == ["each", "extra"]
    assert afterwards == graph


async def test_the_graph_of_an_unstarted_run_is_that_of_its_job(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    run = await submit(caller, DYNAMIC_KINDS)

    graph = read(await caller.get(f"/api/v1/runs/{run.id}/graph"), GraphView)

    assert [(node.name, node.tasks, node.states) for node in graph.nodes] == [
        ("plan", 1, {}),
        ("each", 1, {}),
        ("report", 1, {}),
    ]
    problem(await (await harness.admin("globex")).get(f"/api/v1/runs/{run.id}/graph"), 404)


async def test_an_oversized_graph_is_rejected(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_graphs, "MAX_NODES", 2)
    caller = await harness.admin("acme")
    run = await submit(caller, {**NOOP, "tasks": [{"name": f"t{number}"} for number in range(3)]})

    assert "more than 2 nodes" in problem(await caller.get(f"/api/v1/runs/{run.id}/graph"), 422)["detail"]
