"""The graph of a run, including tasks added by outputs."""

from __future__ import annotations

from mainspring.core.graph.expansion import read
from mainspring.core.graph.run_graph import build_graph
from mainspring.core.model.job import Edge, JobSpec, TaskSpec


def test_nodes_are_in_topological_order() -> None:
    spec = JobSpec(
        name="etl",
        tasks=(
            TaskSpec(name="report", needs=(Edge("load", when="output.rows > 0"), Edge("plan"))),
            TaskSpec(name="load", needs=(Edge("plan"),), for_each="outputs.plan.files", when="params.full"),
            TaskSpec(name="plan", grows=True),
        ),
    )
    added = {"plan": read('{"tasks":[{"name":"extra"}],"edges":[{"task":"report","needs":["extra"]}]}')}

    nodes = {node.name: node for node in build_graph(spec, added)}

    assert list(nodes) == ["plan", "load", "extra", "report"]
    assert nodes["report"].needs == (Edge("load", when="output.rows > 0"), Edge("plan"), Edge("extra"))
    assert (nodes["load"].when, nodes["load"].is_fan_out, nodes["load"].added_by) == ("params.full", True, None)
    assert (nodes["extra"].needs, nodes["extra"].added_by) == ((Edge("plan"),), "plan")
