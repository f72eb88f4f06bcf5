"""The worker link over real sockets: registration, work and closing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mainspring.api.auth import access, authentication
from mainspring.api.auth.principal import Role
from mainspring.api.auth.tokens import id_of, read_attempt_token
from mainspring.api.worker_link import link as link_module
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.protocol.wire import (
    Assign,
    Heartbeat,
    Offer,
    Outcome,
    Redirect,
    Register,
    Result,
    RunEnds,
    RunEndsRequest,
    Started,
    Verdict,
)
from tests.api.api_server import SECRET, ApiServers, LinkClient, until

HELLO = Register("w1", "s1", Offer(4_000, 4 << 30), {})


@pytest.fixture
async def api_servers(tmp_path: Path) -> AsyncIterator[ApiServers]:
    """A store without servers."""
    async with ApiServers(tmp_path) as api_servers:
        yield api_servers


async def test_a_worker_registers_runs_a_task_and_reports_it(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    (run,) = await api_servers.submit()
    async with server.caller() as worker:
        task = await worker.next_task()
        assert task.run == run.id
        assert await worker.finish(task.attempt) is Verdict.APPLIED
    found = await api_servers.store.run(run.id)
    assert found is not None
    assert found.ended_at is not None


async def test_an_assignment_has_the_attempt_token_unless_its_work_is_empty(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    await api_servers.submit()
    async with server.caller() as worker:
        task = await worker.next_task()
        now = await api_servers.store.time()
        later = now + timedelta(days=366)
        assert read_attempt_token(SECRET, task.token, now) == task.attempt
        assert read_attempt_token(SECRET, task.token, later) == task.attempt, "its limit may be moved"
        await worker.finish(task.attempt)
        await api_servers.submit(JobSpec(name="nothing", tasks=(TaskSpec(name="only"),)))
        assert (await worker.next_task()).token == ""


async def test_a_worker_can_ask_for_ages_of_ended_runs(api_servers: ApiServers) -> None:
    """Runs without history are omitted."""
    server = await api_servers.server()
    await server.leader()
    over, going_on = await api_servers.submit() + await api_servers.submit()
    async with server.caller() as worker:
        first = await worker.next_task()
        await worker.finish(first.attempt)
        await worker.say(RunEndsRequest((over.id, going_on.id, "run_never", "a\0b")))
        answer = await worker.hear(RunEnds)

    ended, other = (over, going_on) if first.run == over.id else (going_on, over)
    assert set(answer.runs) == {over.id, going_on.id}
    assert answer.runs[other.id] is None
    assert (answer.runs[ended.id] or 0.0) >= 0.0
    assert answer.runs[ended.id] is not None


async def test_a_server_that_does_not_lead_redirects_to_the_leader(api_servers: ApiServers) -> None:
    first = await api_servers.server("one")
    await first.leader()
    second = await api_servers.server("two")
    async with second.socket() as socket:
        worker = LinkClient(socket, "w1")
        await worker.say(HELLO)
        assert (await worker.hear(Redirect)).address == first.address
        assert (await worker.closed())[0] == 1000


async def test_a_pool_without_a_leader_has_no_address(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    async with server.socket() as socket:
        worker = LinkClient(socket, "w1")
        await worker.say(Register("w1", "s1", Offer(1, 1), {}, pool="unknown"))
        assert (await worker.hear(Redirect)).address == ""


async def test_workers_see_only_their_own_assignments(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    leader = await server.leader()
    async with server.caller("w1", cores=1) as one, server.caller("w2", cores=1) as other:
        runs = await api_servers.submit(runs=2)
        mine, yours = await one.next_task(), await other.next_task()
        assert {mine.run, yours.run} == {run.id for run in runs}
        for worker, task in ((one, mine), (other, yours)):
            assert leader.shard.memory.attempts[task.attempt].worker_id == worker.name
            assert not [message for message in worker.received if isinstance(message, Assign)]
        assert await other.finish(mine.attempt) is not Verdict.APPLIED
        assert await one.finish(mine.attempt) is Verdict.APPLIED


FIRST_FRAMES: list[tuple[bytes | str, str]] = [
    ("hello", "text"),
    (b"", "invalid frame"),
    (b"\xc1\xff", "invalid frame"),
    (msgspec.msgpack.encode([]), "one Register"),
    (msgspec.msgpack.encode([Heartbeat()]), "one Register"),
    (msgspec.msgpack.encode([HELLO, HELLO]), "one Register"),
    (msgspec.msgpack.encode([["Surprise", 1]]), "invalid frame"),
    (msgspec.msgpack.encode([Register("", "s1", Offer(1, 1), {})]), "not a valid name"),
    (msgspec.msgpack.encode([Register("../w", "s1", Offer(1, 1), {})]), "not a valid name"),
    (msgspec.msgpack.encode([Register("w" * 201, "s1", Offer(1, 1), {})]), "length"),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(-1, 1), {})]), ">= 0"),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(10**12, 1), {})]), "<="),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(1, 1), {"a": "\0"})]), "control character"),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(1, 1), {str(n): "" for n in range(101)})]), "length"),
]


async def test_an_invalid_first_frame_closes_the_link(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    for first, why in FIRST_FRAMES:
        async with server.socket() as socket:
            await socket.send(first)
            code, reason = await LinkClient(socket, "").closed()
        assert code == 1008, first
        assert why in reason


async def test_a_silent_link_is_closed(api_servers: ApiServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "REGISTER_TIMEOUT_SECONDS", 0.05)
    server = await api_servers.server()
    async with server.socket() as socket:
        assert (await LinkClient(socket, "").closed())[0] == 1008


async def test_a_result_without_credit_closes_the_link(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    leader = await server.leader()
    async with server.caller() as worker:
        await until(lambda: leader.links._links["w1"].credit > 0)
        leader.links._links["w1"].credit = 1
        await worker.say(*(Result(f"att_{n}", Outcome.SUCCEEDED) for n in range(2)))
        code, reason = await worker.closed()
    assert code == 1008
    assert "credit" in reason


async def test_an_unexpected_message_closes_the_link(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    for said in (HELLO, Result("att_\0", Outcome.FAILED), Started("a" * 201)):
        async with server.caller() as worker:
            await worker.say(Heartbeat(), said)
            assert (await worker.closed())[0] == 1008


async def test_an_oversized_frame_closes_the_link(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker:
        with suppress(ConnectionClosed):
            await worker.socket.send(b"\x00" * (16 * 1024 * 1024 + 1))
        assert (await worker.closed())[0] == 1009


async def test_a_newer_session_closes_the_older_one(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller(session="s1") as older, server.caller(session="s2"):
        assert (await older.closed())[0] == 1012


async def test_a_link_closes_when_the_term_ends(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    leader = await server.leader()
    async with server.caller() as worker:
        leader.stop()
        assert (await worker.closed())[0] == 1012


async def test_a_stopping_server_closes_its_links(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    await server.leader()
    async with server.caller() as worker:
        server.stop()
        assert (await worker.closed())[0] == 1012


async def test_a_link_requires_a_worker_or_admin_of_all_tenants(api_servers: ApiServers) -> None:
    server = await api_servers.server(open_locally=False)
    await server.leader()
    refused = {
        "nobody": None,
        "viewer": await api_servers.token(Role.VIEWER),
        "one tenant's": await api_servers.token(Role.WORKER, tenant="acme"),
        "unknown": "msp_0000000000000000_" + 64 * "0",
    }
    for token in refused.values():
        headers = {"Authorization": f"Bearer {token}"} if token else None
        with pytest.raises(InvalidStatus) as caught:
            async with server.socket(headers):
                pass
        assert caught.value.response.status_code in {401, 403}
    for role in (Role.WORKER, Role.ADMIN):
        async with server.caller(token=await api_servers.token(role)):
            pass


async def test_browsers_get_no_link(api_servers: ApiServers) -> None:
    server = await api_servers.server()
    with pytest.raises(InvalidStatus) as caught:
        async with server.socket({"Origin": server.address}):
            pass
    assert caught.value.response.status_code == 403


async def test_a_connected_workers_name_is_reserved_for_its_token(api_servers: ApiServers) -> None:
    server = await api_servers.server(open_locally=False)
    await server.leader()
    mine, yours = await api_servers.token(Role.WORKER, name="mine"), await api_servers.token(Role.WORKER, name="yours")
    async with server.caller(token=mine) as worker:
        async with server.socket({"Authorization": f"Bearer {yours}"}) as socket:
            thief = LinkClient(socket, "w1")
            await thief.say(HELLO)
            assert (await thief.closed())[0] == 1008
        await api_servers.submit()
        task = await worker.next_task()
        assert await worker.finish(task.attempt) is Verdict.APPLIED
    async with server.caller(token=yours, session="s2"):
        pass


async def test_sessions_end_with_their_token(api_servers: ApiServers, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (access, "VALIDITY_CHECK_SECONDS"),
        (link_module, "VALIDITY_CHECK_SECONDS"),
        (authentication, "CACHE_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.05)
    server = await api_servers.server(open_locally=False)
    await server.leader()
    token = await api_servers.token(Role.WORKER)
    async with server.caller(token=token) as worker:
        await api_servers.store.revoke_token(id_of(token) or "")
        code, reason = await worker.closed()
    assert code == 1008
    assert "token" in reason
