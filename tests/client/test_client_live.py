"""The client and a real server with a real worker."""

from __future__ import annotations

import pytest

from mainspring.client.client import Client
from mainspring.protocol import errors
from mainspring.protocol.rest.runs import TokenRequest

TALKS = {
    "name": "talks",
    "tasks": [{"name": "only", "work": {"shell": "for n in 1 2 3; do echo $n; sleep 0.1; done"}}],
}


def test_a_run_is_followed_by_its_events_and_its_log(client: Client) -> None:
    job = client.submit_job(TALKS)
    with client.events() as events:
        run = client.submit(f"{job.name}@{job.version}")
        seen: list[str] = []
        for event in filter(None, events):
            if event.run_id == run.id:
                seen.append(event.end)
            if seen and seen[-1] == "RUNNING":
                break
    (task,) = client.tasks_of(run.id)

    assert seen == ["PENDING", "QUEUED", "ASSIGNED", "RUNNING"]
    assert b"".join(client.follow_log(task.id)) == b"1\n2\n3\n"
    assert client.wait(run.id, timeout_seconds=30).state == "SUCCEEDED"
    assert [step.end for step in client.transitions(task.id)] == [*seen, "SUCCEEDED"]
    assert [(attempt.number, attempt.worker) for attempt in client.attempts(task.id)] == [(1, "w1")]
    assert client.log(task.id, offset=-4, limit=2).data == b"2\n"


def test_a_job_that_is_submitted_again_is_the_same_version(client: Client) -> None:
    assert client.submit_job(TALKS) == client.submit_job(TALKS)
    assert client.job("talks@1").version == 1


def test_submit_many_accepts_each_or_all(client: Client) -> None:
    client.submit_job(TALKS)
    requests = [client.request("talks"), client.request("nobody-knows"), client.request("talks")]

    lines = list(client.submit_many(requests))
    assert [line.id is not None for line in lines] == [True, False, True]
    with pytest.raises(errors.Refused):
        list(client.submit_many(requests, mode="all"))
    assert len(list(client.submit_many([requests[0], requests[2]], mode="all"))) == 2


def test_unknown_ids_are_not_found(client: Client) -> None:
    for ask in (client.run, client.task, client.worker, client.job, client.cancel_run, client.drain):
        with pytest.raises(errors.NotFound):
            ask("nothing")


def test_a_token_has_a_tenant_and_a_role(client: Client) -> None:
    made = client.create_token(TokenRequest(name="ci", roles=["viewer"], tenant="acme"))

    with Client(client.url, token=made.token) as viewer:
        assert list(viewer.runs()) == []
        with pytest.raises(errors.Forbidden):
            viewer.submit_job(TALKS)
    with Client(client.url, token="msp_nobody") as stranger, pytest.raises(errors.Unauthenticated):
        stranger.server()
    assert client.revoke_token(made.id).changed


def test_the_server_view_lists_its_shards(client: Client) -> None:
    assert "default" in client.server().leads
