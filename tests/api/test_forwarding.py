"""Requests reach the leader on any server, and internal routes require the cluster secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from mainspring.api.cluster.forwarding import ASK, DIAGNOSE, LOOK, STANDING, SUMS, SUPPOSE
from mainspring.api.cluster.peers import SECRET_HEADER
from mainspring.app.build import POOL
from mainspring.core.explain.diagnosis import Reason
from mainspring.core.explain.what_if import parse_supposal
from mainspring.core.model.run import RunState
from mainspring.protocol.errors import NotLeading, Unavailable
from mainspring.protocol.wire import Look, Offer, Register, Seen
from mainspring.shard.effects import Reply
from mainspring.shard.events import CancelRun, CordonWorker, RunsAged
from tests.api.yard import SECRET, Yard, until


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    """A store without servers."""
    async with Yard(tmp_path) as yard:
        yield yard


async def test_an_action_is_executed_by_the_local_or_remote_leader(yard: Yard) -> None:
    first = await yard.server("one")
    await first.leader()
    second = await yard.server("two")
    for server in (first, second):
        (run,) = await yard.submit()
        answered = await server.front.services.shards.ask(POOL, CancelRun(run_id=run.id, by="test", why="enough"))
        assert answered.reply is Reply.DONE
        found = await yard.store.run(run.id)
        assert found is not None
        assert found.state is RunState.CANCELLED
    assert first.front.services.shards.leads() == [POOL]
    assert second.front.services.shards.leads() == []
    assert await first.front.services.shards.leader_address(POOL) is None
    assert await second.front.services.shards.leader_address(POOL) == first.address


async def test_an_action_on_a_worker_is_forwarded(yard: Yard) -> None:
    first = await yard.server("one")
    await first.leader()
    second = await yard.server("two")
    async with first.caller("w1"):
        answered = await second.front.services.shards.ask(POOL, CordonWorker(worker="w1", by="test"))
    assert answered.reply is Reply.DONE


async def test_a_file_probe_reaches_a_worker_of_any_leader(yard: Yard) -> None:
    first = await yard.server("one")
    await first.leader()
    second = await yard.server("two")
    for server in (first, second):
        with pytest.raises(Unavailable, match="no worker is connected"):
            await server.front.reach.look(POOL, "/data/ready")
    async with first.caller("w1") as worker:
        for server in (first, second):
            asking = asyncio.create_task(server.front.reach.look(POOL, "/data/ready"))
            look = await worker.hear(Look)
            assert look.path == "/data/ready"
            await worker.say(Seen(look.question, exists=True))
            assert await asking is True
    async with second.http() as http:
        body = msgspec.msgpack.encode({"shard": POOL, "path": "/data/ready"})
        assert (await http.post(LOOK, content=body)).status_code == 404
        assert (await http.post(LOOK, content=body, headers={SECRET_HEADER: SECRET})).status_code == 421


async def test_the_pool_status_is_read_from_any_leader(yard: Yard) -> None:
    first = await yard.server("one")
    await first.leader()
    second = await yard.server("two")
    async with first.caller("w1"):
        for server in (first, second):
            standing = await server.front.services.shards.standing(POOL)
            assert (standing.pool, standing.workers) == (POOL, 1)
    with pytest.raises(NotLeading):
        await second.front.services.shards.standing("nobodys")
    async with second.http() as http:
        body = msgspec.msgpack.encode({"shard": POOL, "tenant": None})
        assert (await http.post(STANDING, content=body)).status_code == 404
        assert (await http.post(STANDING, content=body, headers={SECRET_HEADER: SECRET})).status_code == 421


async def test_a_diagnosis_is_read_from_any_leader(yard: Yard) -> None:
    first = await yard.server("one")
    leader = await first.leader()
    second = await yard.server("two")
    (run,) = await yard.submit()
    await until(lambda: run.id in leader.shard.memory.runs)
    task = f"task_{run.id[4:]}.0"
    for server in (first, second):
        shards = server.front.services.shards
        found = await shards.diagnose(POOL, run.id)
        assert found is not None
        assert (found.subject, found.reason, found.by) == (task, Reason.NO_MATCHING_WORKER, "leader")
        outcome = await shards.suppose(POOL, task, parse_supposal(["worker 8 16Gi"]))
        assert outcome is not None
        assert outcome.starts_now
        assert [(one.tasks, one.example) for one in await shards.waiting_sums(POOL)] == [(1, task)]
        assert await shards.waiting_sums(POOL, "nobody") == []
        assert await shards.diagnose(POOL, "task_1.0") is None
        assert await shards.suppose(POOL, "task_1.0", parse_supposal(["cpu 1"])) is None
    async with second.http() as http:
        for path in (DIAGNOSE, SUPPOSE, SUMS):
            question: dict[str, object] = {"shard": POOL, "subject": task, "task": task, "supposal": {}, "tenant": None}
            body = msgspec.msgpack.encode(question)
            assert (await http.post(path, content=body)).status_code == 404
            assert (await http.post(path, content=body, headers={SECRET_HEADER: SECRET})).status_code == 421


async def test_without_a_leader_the_client_is_told_to_retry(yard: Yard) -> None:
    server = await yard.server()
    with pytest.raises(NotLeading):
        await server.front.services.shards.ask("nobodys", CancelRun(run_id="run_1", by="test"))


async def test_a_stopped_leader_fails_fast(yard: Yard) -> None:
    server = await yard.server()
    leader = await server.leader()
    leader.stop()
    await until(lambda: server.host.leaders.get(POOL) is not leader)
    with pytest.raises(NotLeading):
        await leader.ask(CancelRun(run_id="run_1", by="test"))
    with pytest.raises(NotLeading):
        leader.open_link(Register("w1", "w1:1", Offer(1_000, 1), {}))


async def test_only_requests_are_forwarded(yard: Yard) -> None:
    server = await yard.server()
    with pytest.raises(TypeError):
        await server.front.services.shards.ask(POOL, RunsAged(run_ids=()))


async def test_a_former_leader_rejects_requests_without_forwarding(yard: Yard) -> None:
    first = await yard.server("one")
    await first.leader()
    second = await yard.server("two")
    body = msgspec.msgpack.encode({"shard": POOL, "act": CancelRun(run_id="run_1", by="test")})
    async with second.http() as http:
        answer = await http.post(ASK, content=body, headers={SECRET_HEADER: SECRET})
    assert answer.status_code == 421


async def test_internal_routes_answer_404_without_the_cluster_secret(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    body = msgspec.msgpack.encode({"shard": POOL, "act": CancelRun(run_id="run_1", by="test")})
    async with server.http() as http:
        for headers in ({}, {SECRET_HEADER: "guess"}):
            assert (await http.post(ASK, content=body, headers=headers)).status_code == 404
        answer = await http.post(ASK, content=body, headers={SECRET_HEADER: SECRET})
        assert answer.status_code == 200


async def test_a_server_is_registered_while_it_runs(yard: Yard) -> None:
    first = await yard.server("one")
    second = await yard.server("two")
    async with first.http() as http:
        assert (await http.get("/api/v1/server")).json()["servers"] == ["one", "two"]
    second.stop()
