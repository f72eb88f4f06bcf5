"""Logs of attempts, from the link to the route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from mainspring.api.auth.principal import Role
from mainspring.api.cluster.peers import SECRET_HEADER
from mainspring.protocol.wire import Assignment, Log, LogStored
from tests.api.api_server import DEADLINE_SECONDS, SECRET, ApiServers, LinkClient, Server


@pytest.fixture
async def api_servers(tmp_path: Path) -> AsyncIterator[ApiServers]:
    """A store without servers."""
    async with ApiServers(tmp_path) as api_servers:
        yield api_servers


async def started(api_servers: ApiServers, server: Server, worker: LinkClient) -> Assignment:
    """Start a task on this worker."""
    await server.leader()
    await api_servers.submit()
    return await worker.next_task()


async def test_a_log_is_stored_acknowledged_and_shown(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker, server.http() as http:
        task = await started(api_servers, server, worker)
        await worker.say(Log(task.attempt, 0, b"hello "), Log(task.attempt, 6, b"world\n"))
        assert (await worker.hear(LogStored)).offset == 12
        answer = await http.get(f"/api/v1/tasks/{task.task}/log")
        assert answer.content == b"hello world\n"
        assert answer.headers["x-log-size"] == "12"
        assert answer.headers["x-log-complete"] == "false"
        assert answer.headers["x-log-attempt"] == "1"
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        await worker.say(Log(task.attempt, 12, b"", last=True))
        await worker.hear(LogStored)
        await worker.finish(task.attempt)
        answer = await http.get(f"/api/v1/tasks/{task.task}/log", params={"attempt": 1, "offset": 6, "limit": 3})
        assert answer.content == b"wor"
        assert answer.headers["x-log-complete"] == "true"
        tail = await http.get(f"/api/v1/tasks/{task.task}/log", params={"offset": -6})
        assert (tail.content, tail.headers["x-log-offset"]) == (b"world\n", "6")


async def test_a_range_of_a_log_is_returned(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker, server.http() as http:
        task = await started(api_servers, server, worker)
        path = f"/api/v1/tasks/{task.task}/log"
        nothing = await http.get(path, headers={"Range": "bytes=0-"})
        await worker.say(Log(task.attempt, 0, b"hello world\n"))
        await worker.hear(LogStored)
        growing = await http.get(path, headers={"Range": "bytes=6-"})
        await worker.say(Log(task.attempt, 12, b"", last=True))
        await worker.hear(LogStored)
        middle = await http.get(path, headers={"Range": "bytes=4-6"})
        end = await http.get(path, headers={"Range": "bytes=-6"})
        beyond = await http.get(path, headers={"Range": "bytes=12-20"})
        odd = await http.get(path, headers={"Range": "lines=1-2"})
    assert (nothing.status_code, nothing.headers["content-range"]) == (416, "bytes */0")
    assert (growing.status_code, growing.content, growing.headers["content-range"]) == (206, b"world\n", "bytes 6-11/*")
    assert (middle.content, middle.headers["content-range"]) == (b"o w", "bytes 4-6/12")
    assert (end.content, end.headers["content-range"]) == (b"world\n", "bytes 6-11/12")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */12")
    assert beyond.headers["content-type"] == "application/problem+json"
    assert (odd.status_code, odd.content) == (200, b"hello world\n")


async def test_a_repeated_piece_is_not_stored_twice(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker, server.http() as http:
        task = await started(api_servers, server, worker)
        for _ in range(2):
            await worker.say(Log(task.attempt, 0, b"hello"))
            assert (await worker.hear(LogStored)).offset == 5
        assert (await http.get(f"/api/v1/tasks/{task.task}/log")).content == b"hello"


async def test_a_worker_can_not_write_logs_of_other_workers(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller("w1") as worker, server.caller("w2", cores=0) as other, server.http() as http:
        task = await started(api_servers, server, worker)
        await other.say(Log(task.attempt, 0, b"lies"), Log("../../x", 0, b"lies"))
        assert {(await other.hear(LogStored)).attempt for _ in range(2)} == {task.attempt, "../../x"}
        assert (await http.get(f"/api/v1/tasks/{task.task}/log")).content == b""
        await worker.finish(task.attempt)
        await other.say(Log(task.attempt, 0, b"late lies"))
        await other.hear(LogStored)
        await worker.say(Log(task.attempt, 0, b"late truth"))
        await worker.hear(LogStored)
        assert (await http.get(f"/api/v1/tasks/{task.task}/log")).content == b"late truth"


async def test_a_follower_gets_pieces_until_the_end(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker, server.http() as http:
        task = await started(api_servers, server, worker)
        await worker.say(Log(task.attempt, 0, b"one\n"))
        await worker.hear(LogStored)
        async with http.stream("GET", f"/api/v1/tasks/{task.task}/log", params={"follow": "true"}) as answer:
            pieces = answer.aiter_raw()
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert await anext(pieces) == b"one\n"
                await worker.say(Log(task.attempt, 4, b"two\n"))
                assert await anext(pieces) == b"two\n"
                await worker.say(Log(task.attempt, 8, b"three\n", last=True))
                assert [piece async for piece in pieces] == [b"three\n"]


async def test_a_stopping_server_releases_followers(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker, server.http() as http:
        task = await started(api_servers, server, worker)
        async with http.stream("GET", f"/api/v1/tasks/{task.task}/log", params={"follow": "true"}) as answer:
            server.stop()
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert [piece async for piece in answer.aiter_raw()] == []


async def test_logs_require_access_to_the_task(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker:
        task = await started(api_servers, server, worker)
        await worker.say(Log(task.attempt, 0, b"secret"))
        await worker.hear(LogStored)
    mine, yours = (
        await api_servers.token(Role.VIEWER, tenant="acme"),
        await api_servers.token(Role.VIEWER, tenant="globex"),
    )
    assert (await get(server, f"/api/v1/tasks/{task.task}/log", mine)).content == b"secret"
    theirs = await get(server, f"/api/v1/tasks/{task.task}/log", yours)
    nobodys = await get(server, "/api/v1/tasks/task_unknown.0/log", yours)
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.text.replace(task.task, "") == nobodys.text.replace("task_unknown.0", "")
    assert (await get(server, f"/api/v1/tasks/{task.task}/log?attempt=7", mine)).status_code == 404


async def get(server: Server, path: str, token: str) -> httpx2.Response:
    async with server.http(token) as http:
        return await http.get(path)


async def test_a_log_on_two_servers_is_read_completely(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    leader = await first.leader()
    second = await api_servers.server("two")
    async with first.caller() as worker:
        task = await started(api_servers, first, worker)
        await worker.say(Log(task.attempt, 0, b"begun here, "))
        await worker.hear(LogStored)
    await second.front.services.logs._in_thread(
        lambda: second.front.services.logs._files.append(Log(task.attempt, 12, b"ended there", last=True))
    )
    assert leader.shard.memory.attempts
    for server in (first, second):
        async with server.http() as http:
            answer = await http.get(f"/api/v1/tasks/{task.task}/log")
            assert answer.content == b"begun here, ended there"
            tail = await http.get(f"/api/v1/tasks/{task.task}/log", params={"offset": -5})
            assert (tail.content, tail.headers["x-log-complete"]) == (b"there", "true")


async def test_logs_of_other_servers_require_the_cluster_secret(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    path = "/internal/v1/logs/att_000000000000-0000000000000000?offset=0&limit=1"
    async with server.http() as http:
        assert (await http.get(path)).status_code == 404
        assert (await http.get(path, headers={SECRET_HEADER: "guess"})).status_code == 404
        assert (await http.get(path, headers={SECRET_HEADER: SECRET})).status_code == 200
