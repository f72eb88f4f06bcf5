"""Requests reach the leader on any server, and internal routes require the cluster secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from mainspring.api.cluster.forwarding import ASK, DIAGNOSE, POOL_STATUS, PROBE_FILE, WAITING_SUMS, WHAT_IF
from mainspring.api.cluster.peers import SECRET_HEADER
from mainspring.app.build import POOL
from mainspring.core.explain.diagnosis import Reason
from mainspring.core.explain.what_if import parse_hypothesis
from mainspring.core.model.run import RunState
from mainspring.protocol.errors import NotLeading, Unavailable
from mainspring.protocol.wire import FileProbed, Offer, ProbeFile, Register
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import CancelRun, CordonWorker, RunsExpired
from tests.api.api_server import SECRET, ApiServers, until


@pytest.fixture
async def api_servers(tmp_path: Path) -> AsyncIterator[ApiServers]:
    """A store without servers."""
    async with ApiServers(tmp_path) as api_servers:
        yield api_servers


async def test_an_action_is_executed_by_the_local_or_remote_leader(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    await first.leader()
    second = await api_servers.server("two")
    for server in (first, second):
        (run,) = await api_servers.submit()
        answered = await server.front.services.leaders.ask(POOL, CancelRun(run_id=run.id, by="test", why="enough"))
        assert answered.reply is ActionStatus.DONE
        found = await api_servers.store.run(run.id)
        assert found is not None
        assert found.state is RunState.CANCELLED
    assert first.front.services.leaders.leads() == [POOL]
    assert second.front.services.leaders.leads() == []
    assert await first.front.services.leaders.leader_address(POOL) is None
    assert await second.front.services.leaders.leader_address(POOL) == first.address


async def test_an_action_on_a_worker_is_forwarded(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    await first.leader()
    second = await api_servers.server("two")
    async with first.caller("w1"):
        answered = await second.front.services.leaders.ask(POOL, CordonWorker(worker="w1", by="test"))
    assert answered.reply is ActionStatus.DONE


async def test_a_file_probe_reaches_a_worker_of_any_leader(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    await first.leader()
    second = await api_servers.server("two")
    for server in (first, second):
        with pytest.raises(Unavailable, match="no worker is connected"):
            await server.front.services.leaders.probe_file(POOL, "/data/ready")
    async with first.caller("w1") as worker:
        for server in (first, second):
            asking = asyncio.create_task(server.front.services.leaders.probe_file(POOL, "/data/ready"))
            probe_file = await worker.hear(ProbeFile)
            assert probe_file.path == "/data/ready"
            await worker.say(FileProbed(probe_file.question, exists=True))
            assert await asking is True
    async with second.http() as http:
        body = msgspec.msgpack.encode({"shard": POOL, "path": "/data/ready"})
        assert (await http.post(PROBE_FILE, content=body)).status_code == 404
        assert (await http.post(PROBE_FILE, content=body, headers={SECRET_HEADER: SECRET})).status_code == 421


async def test_the_pool_status_is_read_from_any_leader(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    await first.leader()
    second = await api_servers.server("two")
    async with first.caller("w1"):
        for server in (first, second):
            pool_status = await server.front.services.leaders.pool_status(POOL)
            assert (pool_status.pool, pool_status.workers) == (POOL, 1)
    with pytest.raises(NotLeading):
        await second.front.services.leaders.pool_status("nobodys")
    async with second.http() as http:
        body = msgspec.msgpack.encode({"shard": POOL, "tenant": None})
        assert (await http.post(POOL_STATUS, content=body)).status_code == 404
        assert (await http.post(POOL_STATUS, content=body, headers={SECRET_HEADER: SECRET})).status_code == 421


async def test_a_diagnosis_is_read_from_any_leader(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    leader = await first.leader()
    second = await api_servers.server("two")
    (run,) = await api_servers.submit()
    await until(lambda: run.id in leader.shard.memory.runs)
    task = f"task_{run.id[4:]}.0"
    for server in (first, second):
        shards = server.front.services.leaders
        found = await shards.diagnose(POOL, run.id)
        assert found is not None
        assert (found.subject, found.reason, found.by) == (task, Reason.NO_MATCHING_WORKER, "leader")
        outcome = await shards.what_if(POOL, task, parse_hypothesis(["worker 8 16Gi"]))
        assert outcome is not None
        assert outcome.starts_now
        assert [(one.tasks, one.example) for one in await shards.summarize_waiting(POOL)] == [(1, task)]
        assert await shards.summarize_waiting(POOL, "nobody") == []
        assert await shards.diagnose(POOL, "task_1.0") is None
        assert await shards.what_if(POOL, "task_1.0", parse_hypothesis(["cpu 1"])) is None
    async with second.http() as http:
        for path in (DIAGNOSE, WHAT_IF, WAITING_SUMS):
            question: dict[str, object] = {
                "shard": POOL,
                "subject": task,
                "task": task,
                "hypothesis": {},
                "tenant": None,
            }
            body = msgspec.msgpack.encode(question)
            assert (await http.post(path, content=body)).status_code == 404
            assert (await http.post(path, content=body, headers={SECRET_HEADER: SECRET})).status_code == 421


async def test_without_a_leader_the_client_is_told_to_retry(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    with pytest.raises(NotLeading):
        await server.front.services.leaders.ask("nobodys", CancelRun(run_id="run_1", by="test"))


async def test_a_stopped_leader_fails_fast(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    leader = await server.leader()
    leader.stop()
    await until(lambda: server.host.leaders.get(POOL) is not leader)
    with pytest.raises(NotLeading):
        await leader.ask(CancelRun(run_id="run_1", by="test"))
    with pytest.raises(NotLeading):
        leader.open_link(Register("w1", "w1:1", Offer(1_000, 1), {}))


async def test_only_requests_are_forwarded(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    with pytest.raises(TypeError):
        await server.front.services.leaders.ask(POOL, RunsExpired(run_ids=()))


async def test_a_former_leader_rejects_requests_without_forwarding(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    await first.leader()
    second = await api_servers.server("two")
    body = msgspec.msgpack.encode({"shard": POOL, "action": CancelRun(run_id="run_1", by="test")})
    async with second.http() as http:
        answer = await http.post(ASK, content=body, headers={SECRET_HEADER: SECRET})
    assert answer.status_code == 421


async def test_internal_routes_answer_404_without_the_cluster_secret(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    body = msgspec.msgpack.encode({"shard": POOL, "action": CancelRun(run_id="run_1", by="test")})
    async with server.http() as http:
        for headers in ({}, {SECRET_HEADER: "guess"}):
            assert (await http.post(ASK, content=body, headers=headers)).status_code == 404
        answer = await http.post(ASK, content=body, headers={SECRET_HEADER: SECRET})
        assert answer.status_code == 200


async def test_a_server_is_registered_while_it_runs(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    second = await api_servers.server("two")
    async with first.http() as http:
        assert (await http.get("/api/v1/server")).json()["servers"] == ["one", "two"]
    second.stop()
