"""HTTP workers with any server, while another one leads, changes or stops (WRK-2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainspring.api import server as server_module
from mainspring.app.build import POOL
from mainspring.core.model.task import TaskState
from mainspring.host.loop import Leader
from tests.api.api_server import ApiServers, until

CLAIM = "/api/v1/scheduler/claim-runs"


@pytest.fixture
async def api_servers(tmp_path: Path) -> AsyncIterator[ApiServers]:
    """A store without servers."""
    async with ApiServers(tmp_path) as api_servers:
        yield api_servers


async def claim(http: httpx2.AsyncClient, wait: float = 8.0) -> dict[str, Any]:
    """Claim one run."""
    answer = await http.post(CLAIM, json={"worker_id": "hands", "wait_seconds": wait})
    (run,) = answer.json()["claimed_runs"]
    assert isinstance(run, dict)
    return run


async def say(http: httpx2.AsyncClient, run: dict[str, Any], call: str, **body: object) -> httpx2.Response:
    """Call a route of a claimed run."""
    return await http.post(f"/api/v1/pipeline-runs/{run['run_id']}/{call}", json=body)


def waits(leader: Leader, claims: int) -> bool:
    """Return whether this many claims are open."""
    return len(leader.shard.memory.claims.open) == claims


async def test_any_server_accepts_calls_of_workers(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    leader = await first.leader()
    second = await api_servers.server("two")
    async with first.http() as here, second.http() as elsewhere:
        waiting = asyncio.create_task(claim(elsewhere))
        await until(lambda: waits(leader, 1))
        await api_servers.submit()
        run = await waiting
        begun = await say(here, run, "start", worker_id="hands")
        beat = await say(elsewhere, run, "heartbeat", checkpoint=[1], log="elsewhere\n")
        large = await say(elsewhere, run, "complete", result_summary="x" * 1_000_000)
        again = await say(here, run, "complete")
        log = await first.front.services.logs.read(run["run_id"], 0, 100)

    task = await api_servers.store.find_task(run["task_id"])
    assert [one.status_code for one in (begun, beat, large, again)] == [200] * 4
    assert task is not None
    assert task.state is TaskState.SUCCEEDED
    assert len(task.output or "") == 1_000_002
    assert log.data == b"elsewhere\n"


async def test_claims_survive_a_change_of_leader(api_servers: ApiServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean handover: started and claimed runs continue, and a waiting claim is retried.

    The handover waits neither for the claim nor for the timeout after which a stopping server drops connections.
    """
    with monkeypatch.context() as patch:
        patch.setattr(server_module, "_SHUTDOWN_SECONDS", 3_600)
        first = await api_servers.server("one")
    leader = await first.leader()
    await api_servers.submit(runs=2)
    second = await api_servers.server("two")
    async with second.http() as http:
        begun, waiting = await claim(http), await claim(http)
        await say(http, begun, "start", worker_id="hands")
        asking = asyncio.create_task(http.post(CLAIM, json={"worker_id": "hands", "wait_seconds": 8}))
        await until(lambda: waits(leader, 1))

        first.stop()
        answer = await asking
        assert answer.status_code == 503
        assert answer.json()["code"] == "not_leading"
        await second.leader()
        await until(lambda: second.host.leader(POOL).is_ready)
        answers = [
            await say(http, begun, "heartbeat"),
            await say(http, waiting, "start", worker_id="hands"),
            await say(http, waiting, "start", worker_id="hands"),
            await say(http, begun, "complete", result_summary=1),
            await say(http, waiting, "fail", error_type="INVALID_CONFIGURATION"),
            await say(http, begun, "complete", result_summary=2),
        ]

    tasks = [await api_servers.store.find_task(run["task_id"]) for run in (begun, waiting)]
    assert [one.status_code for one in answers] == [200] * 6
    assert [(task.state, task.output) for task in tasks if task] == [
        (TaskState.SUCCEEDED, "1"),
        (TaskState.FAILED, None),
    ]


async def test_a_client_that_disconnects_from_another_server_leaves_no_claim(api_servers: ApiServers) -> None:
    """The leader is notified through the other server."""
    first = await api_servers.server("one")
    leader = await first.leader()
    second = await api_servers.server("two")
    for server in (second, first):
        async with server.http() as http:
            asking = asyncio.create_task(claim(http))
            await until(lambda: waits(leader, 1))
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: waits(leader, 0))
    (run,) = await api_servers.submit()

    async with first.http() as http:
        claimed = await claim(http)

    assert (claimed["run"], claimed["attempt"]) == (run.id, 1)


async def test_a_stopping_server_releases_waiting_claims(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    leader = await first.leader()
    async with first.http() as http:
        asking = asyncio.create_task(http.post(CLAIM, json={"worker_id": "hands", "wait_seconds": 30}))
        await until(lambda: waits(leader, 1))
        first.stop()
        answer = await asking

    assert answer.json() == {"claimed_runs": []}
