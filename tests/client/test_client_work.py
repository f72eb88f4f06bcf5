"""Jobs, runs and tasks with the client on a real server, beyond submitting and waiting."""

from __future__ import annotations

import pytest

from mainspring.client.client import Client
from mainspring.client.responses import etag_of
from mainspring.protocol import errors
from mainspring.protocol.rest.runs import BulkActionRequest
from tests.e2e.cluster import in_state, submit, until

QUICK = {"shell": "true"}
LONG = {"shell": "exec sleep 60"}


def job(name: str, **extra: object) -> dict[str, object]:
    """A job with one task that does nothing."""
    return {"name": name, "tasks": [{"name": "only", "work": QUICK}], **extra}


def endless(name: str) -> dict[str, object]:
    """A job with one task that runs until it is stopped."""
    return {"name": name, "tasks": [{"name": "only", "work": LONG}]}


def test_a_job_has_versions_and_is_deleted_with_if_match(client: Client) -> None:
    client.submit_job(job("many"))
    client.submit_job(job("many", labels={"team": "ml"}))

    assert [one.version for one in client.job_versions("many")] == [2, 1]
    assert [one.name for one in client.jobs(q="label.team=ml job:many")] == ["many"]
    with pytest.raises(errors.VersionMismatch):
        client.delete_job("many", if_match=1)
    assert client.delete_job("many", "not needed", if_match=2).changed
    assert list(client.jobs(q="job:many")) == []


def test_a_job_trend_has_a_row_per_day(client: Client) -> None:
    run = submit(client, job("daily"))
    client.wait(run.id, timeout_seconds=60)

    trend = client.job_trend("daily", days=3)
    assert len(trend.days) == 3
    assert (trend.total.runs, trend.total.states) == (1, {"SUCCEEDED": 1})


def test_runs_and_tasks_are_listed_and_counted_by_filter(client: Client) -> None:
    run = submit(client, job("found"))
    client.wait(run.id, timeout_seconds=60)

    assert [one.id for one in client.runs(q="job:fou* state:succeeded")] == [run.id]
    assert client.count_runs(q="job:found", exact=True).value == 1
    assert [task.name for task in client.tasks(q=f"run:{run.id}")] == ["only"]
    assert client.count_tasks(run=run.id).value == 1


def test_graph_nodes_are_in_topological_order(client: Client) -> None:
    tasks = [
        {"name": "load", "work": QUICK, "needs": [{"task": "extract"}]},
        {"name": "extract", "work": QUICK},
    ]
    run = client.wait(submit(client, {"name": "drawn", "tasks": tasks}).id, timeout_seconds=60)

    graph = client.graph(run.id)
    assert [node.name for node in graph.nodes] == ["extract", "load"]
    assert [edge.task for edge in graph.nodes[1].needs] == ["extract"]
    assert graph.nodes[0].states == {"SUCCEEDED": 1}


def test_a_running_task_is_killed_or_retried(client: Client) -> None:
    run = submit(client, endless("killed"))
    (task,) = in_state(client, run.id, "RUNNING", 1)

    assert client.kill(task.id, "it hangs", again=True).changed
    until(lambda: client.task(task.id).attempt > task.attempt, "there is another attempt")
    in_state(client, run.id, "RUNNING", 1)
    assert client.kill(task.id, "it still hangs").changed
    assert client.wait(run.id, timeout_seconds=60).state == "CANCELLED"


def test_a_checkpoint_is_replaced_only_if_its_etag_matches(client: Client) -> None:
    run = submit(client, endless("saves"))
    (task,) = in_state(client, run.id, "RUNNING", 1)

    with pytest.raises(errors.NotFound):
        client.checkpoint(task.id)
    assert client.save_checkpoint(task.id, {"row": 1}, expected="").changed
    seen = client.checkpoint(task.id)
    assert bytes(seen.document) == b'{"row":1}'
    assert client.save_checkpoint(task.id, {"row": 2}, expected=etag_of(seen)).changed
    with pytest.raises(errors.VersionMismatch):
        client.save_checkpoint(task.id, {"row": 3}, expected=etag_of(seen))
    with pytest.raises(errors.VersionMismatch):
        client.save_checkpoint(task.id, {"row": 3}, expected="")
    assert client.cancel_run(run.id).changed


def test_bulk_actions_apply_to_runs_that_match_a_filter(client: Client) -> None:
    runs = {submit(client, endless("herd")).id for _ in range(2)}
    found = BulkActionRequest(action="cancel", q="job:herd", dry_run=True)

    assert {line.run_id for line in client.act_on_runs(found)} == runs
    assert client.set_priority(min(runs), "P1", "first").changed
    assert client.run(min(runs)).priority == "P1"
    done = list(client.act_on_runs(BulkActionRequest(action="cancel", q="job:herd", why="enough")))
    assert {(line.run_id, line.changed) for line in done} == {(run, True) for run in runs}
    assert {client.wait(run, timeout_seconds=60).state for run in runs} == {"CANCELLED"}
    with pytest.raises(errors.Refused):
        list(client.act_on_runs(BulkActionRequest(action="cancel", q="")))


def test_wait_uses_long_polling_and_times_out(client: Client) -> None:
    run = submit(client, endless("waited"))

    with pytest.raises(TimeoutError, match=run.id):
        client.wait(run.id, timeout_seconds=1.2)
    client.cancel_run(run.id)
    assert client.wait(run.id).state == "CANCELLED"
