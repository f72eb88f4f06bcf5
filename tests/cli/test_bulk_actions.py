"""Bulk actions by filter, priorities, kills, graphs and history."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from mainspring.cli.render.run_graph import draw_graph
from mainspring.protocol.rest.overviews import EdgeView, GraphView, NodeView
from tests.cli.terminal import Terminal, job
from tests.e2e.cluster import until

ENDLESS = "id: only, shell: 'exec sleep 60'"


def started(terminal: Terminal, name: str) -> str:
    """Submit a run that does not end by itself."""
    return terminal.out("submit", "-", "-q", stdin=job(name, ENDLESS)).strip()


def test_runs_matching_a_filter_are_cancelled_together(terminal: Terminal) -> None:
    runs = {started(terminal, "flock") for _ in range(2)}

    assert {line["id"] for line in terminal.json("runs", "--filter", "job:floc*")} == runs
    listed = terminal.json("cancel", "--filter", "job:flock", "--dry-run")
    assert {(line["run_id"], "changed" in line) for line in listed} == {(run, False) for run in runs}
    assert terminal.call("cancel", "--filter", "job:flock").exit_code == 2
    done = terminal.json("cancel", "-f", "job:flock", "--yes", "--why", "enough")
    assert {(line["run_id"], line["changed"]) for line in done} == {(run, True) for run in runs}
    for run in runs:
        assert terminal.call("watch", run).exit_code == 1
    assert terminal.out("retry", "-f", "job:flock state:succeeded", "-q") == ""
    assert terminal.out("jobs", "-f", "job:floc*", "-q") == "flock\n"


@pytest.mark.parametrize(
    "words",
    [
        ("cancel",),
        ("cancel", "run_1", "--filter", "job:a"),
        ("cancel", "run_1", "--dry-run"),
        ("retry", "--filter", "job:a", "--all"),
    ],
)
def test_targets_are_given_by_id_or_by_filter_but_not_both(terminal: Terminal, words: tuple[str, ...]) -> None:
    assert terminal.call(*words).exit_code == 2


def test_an_invalid_filter_is_rejected_with_a_suggestion(terminal: Terminal) -> None:
    result = terminal.call("tasks", "--filter", "stat:failed")

    assert result.exit_code == 2
    assert "state" in result.stderr


def test_events_follow_streams_transitions(terminal: Terminal) -> None:
    words = ["events", "follow", "--filter", "job:followed state:succeeded", "--count", "1", "-o", "jsonl"]
    runs = [terminal.finished(job("followed", "id: only, run: 'true'"))]
    with subprocess.Popen([sys.executable, "-m", "mainspring.cli.main", *words], stdout=subprocess.PIPE) as following:

        def has_ended_with_another_run() -> bool:
            """Submit runs until one is seen: there is no signal that the command is listening."""
            runs.append(terminal.out("submit", "followed", "-q").strip())
            return following.poll() is not None

        try:
            until(has_ended_with_another_run, "it has seen one")
        finally:
            following.kill()
        assert following.stdout is not None
        transition = msgspec.json.decode(following.stdout.read())

    assert (transition["run_id"] in runs, transition["end"]) == (True, "SUCCEEDED")


def test_a_run_is_promoted_its_task_killed_and_the_run_rerun(terminal: Terminal) -> None:
    run = started(terminal, "urgent")
    until(lambda: terminal.json("tasks", run, "--state", "RUNNING"), "it runs")

    assert terminal.json("promote", run, "--priority", "P0")[0]["changed"]
    assert terminal.json("show", run)["priority"] == "P0"
    assert terminal.json("kill", f"{run}/only", "--grace", "1s", "--why", "it hangs")[0]["changed"]
    assert terminal.call("watch", run).exit_code == 1
    assert terminal.call("kill", f"{run}/only", "--grace", "soon").exit_code == 2
    (again,) = terminal.json("rerun", run)
    assert again["id"] != run
    assert terminal.json("cancel", again["id"])[0]["changed"]


def test_a_job_has_a_graph_daily_statistics_and_versions(terminal: Terminal) -> None:
    tasks = ("id: extract, run: 'true'", "id: load, needs: [extract], run: 'true'")
    run = terminal.finished(job("told", *tasks))
    terminal.finished(job("told", *tasks, "id: report, needs: [load], run: 'true'"))

    assert terminal.out("graph", run).splitlines() == ["extract  SUCCEEDED", "↓ load   SUCCEEDED"]
    assert [node["name"] for node in terminal.json("graph", run)["nodes"]] == ["extract", "load"]
    table = terminal.out("history", "told", "--days", "2")
    assert table.split()[:4] == ["DAY", "RUNS", "SUCCEEDED", "FAILED"]
    assert "2 runs, 100% succeeded" in table
    assert terminal.json("history", "told")["total"]["runs"] == 2
    assert terminal.out("jobs", "versions", "told", "-q") == "told@2\ntold@1\n"
    assert terminal.call("jobs", "delete", "told", "--if-version", "1").exit_code == 4
    assert terminal.json("jobs", "delete", "told")[0]["changed"]
    assert terminal.call("history", "nobody").exit_code == 5


def test_a_graph_is_drawn_as_a_tree_with_other_dependencies_beside_it() -> None:
    def node(name: str, *needs: EdgeView, states: dict[str, int] | None = None) -> NodeView:
        counts = states or {"PENDING": 1}
        return NodeView(
            name=name, needs=list(needs), tasks=sum(counts.values()), states=counts, is_fan_out=len(counts) > 1
        )

    def after(task: str, when: str | None = None) -> EdgeView:
        return EdgeView(task=task, when=when)

    graph = GraphView(
        run_id="run_1",
        nodes=[
            node("extract", states={"SUCCEEDED": 1}),
            node("clean", after("extract")),
            node("load", after("clean"), states={"RUNNING": 4, "SUCCEEDED": 8}),
            node("publish", after("load", "output.rows > 0")),
            node("report", after("clean"), after("extract", "output.rows > 0")),
            msgspec.structs.replace(node("other"), when="params.full"),
        ],
    )

    assert draw_graph(graph) == [
        "extract       SUCCEEDED",
        "↓ clean       PENDING",
        "├─ load ×12   4 RUNNING  8 SUCCEEDED",
        "│  ↓ publish  PENDING                 if output.rows > 0",
        "└─ report     PENDING                 also after extract if output.rows > 0",
        "other         PENDING                 if params.full",
    ]
    assert draw_graph(GraphView(run_id="run_1", nodes=[])) == []


def test_a_deep_graph_stays_narrow() -> None:
    nodes = [NodeView(name="n0", needs=[], tasks=1, states={"PENDING": 1})]
    for level in range(1, 200):
        for name in (f"n{level}", f"m{level}"):
            needs = [EdgeView(task=f"n{level - 1}")]
            nodes.append(NodeView(name=name, needs=needs, tasks=1, states={"PENDING": 1}))

    lines = draw_graph(GraphView(run_id="run_1", nodes=nodes))
    assert len(lines) == len(nodes)
    assert max(map(len, lines)) <= 80
