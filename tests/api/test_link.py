"""The worker link over real sockets: registration, work, and what closes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mainspring.api.auth import authentication, session_validity
from mainspring.api.auth.tokens import id_of, read_attempt_token
from mainspring.api.services import Role
from mainspring.api.worker_link import link as link_module
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.protocol.wire import (
    AskEnds,
    Assign,
    Beat,
    Elsewhere,
    Ends,
    Offer,
    Outcome,
    Register,
    Result,
    Started,
    Verdict,
)
from tests.api.yard import SECRET, Caller, Yard, until

HELLO = Register("w1", "s1", Offer(4_000, 4 << 30), {})


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    """A store without a server."""
    async with Yard(tmp_path) as yard:
        yield yard


async def test_a_worker_registers_gets_work_and_reports_it(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    (run,) = await yard.submit()
    async with server.caller() as worker:
        task = await worker.next_task()
        assert task.run == run.id
        assert await worker.finish(task.attempt) is Verdict.APPLIED
    found = await yard.store.run(run.id)
    assert found is not None
    assert found.ended_at is not None


async def test_an_assignment_brings_its_attempts_token_unless_there_is_nothing_to_do(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    await yard.submit()
    async with server.caller() as worker:
        task = await worker.next_task()
        now = await yard.store.time()
        later = now + timedelta(days=366)
        assert read_attempt_token(SECRET, task.token, now) == task.attempt
        assert read_attempt_token(SECRET, task.token, later) == task.attempt, "its limit may be moved"
        await worker.finish(task.attempt)
        await yard.submit(JobSpec(name="nothing", tasks=(TaskSpec(name="only"),)))
        assert (await worker.next_task()).token == ""


async def test_a_worker_is_told_since_when_runs_are_over(yard: Yard) -> None:
    """What the server does not know is left out: its history is gone."""
    server = await yard.server()
    await server.leader()
    over, going_on = await yard.submit() + await yard.submit()
    async with server.caller() as worker:
        first = await worker.next_task()
        await worker.finish(first.attempt)
        await worker.say(AskEnds((over.id, going_on.id, "run_never", "a\0b")))
        answer = await worker.hear(Ends)

    ended, other = (over, going_on) if first.run == over.id else (going_on, over)
    assert set(answer.runs) == {over.id, going_on.id}
    assert answer.runs[other.id] is None
    assert (answer.runs[ended.id] or 0.0) >= 0.0
    assert answer.runs[ended.id] is not None


async def test_a_server_that_does_not_lead_says_where_the_leader_is(yard: Yard) -> None:
    first = await yard.server("one")
    await first.leader()
    second = await yard.server("two")
    async with second.socket() as socket:
        worker = Caller(socket, "w1")
        await worker.say(HELLO)
        assert (await worker.hear(Elsewhere)).address == first.address
        assert (await worker.closed())[0] == 1000


async def test_a_pool_that_nobody_leads_is_nowhere(yard: Yard) -> None:
    server = await yard.server()
    async with server.socket() as socket:
        worker = Caller(socket, "w1")
        await worker.say(Register("w1", "s1", Offer(1, 1), {}, pool="unknown"))
        assert (await worker.hear(Elsewhere)).address == ""


async def test_workers_see_only_what_is_assigned_to_them(yard: Yard) -> None:
    server = await yard.server()
    leader = await server.leader()
    async with server.caller("w1", cores=1) as one, server.caller("w2", cores=1) as other:
        runs = await yard.submit(runs=2)
        mine, yours = await one.next_task(), await other.next_task()
        assert {mine.run, yours.run} == {run.id for run in runs}
        for worker, task in ((one, mine), (other, yours)):
            assert leader.shard.memory.attempts[task.attempt].worker_id == worker.name
            assert not [message for message in worker.heard if isinstance(message, Assign)]
        assert await other.finish(mine.attempt) is not Verdict.APPLIED
        assert await one.finish(mine.attempt) is Verdict.APPLIED


FIRST_FRAMES: list[tuple[bytes | str, str]] = [
    ("hello", "text"),
    (b"", "can't be read"),
    (b"\xc1\xff", "can't be read"),
    (msgspec.msgpack.encode([]), "one Register"),
    (msgspec.msgpack.encode([Beat()]), "one Register"),
    (msgspec.msgpack.encode([HELLO, HELLO]), "one Register"),
    (msgspec.msgpack.encode([["Surprise", 1]]), "can't be read"),
    (msgspec.msgpack.encode([Register("", "s1", Offer(1, 1), {})]), "no name"),
    (msgspec.msgpack.encode([Register("../w", "s1", Offer(1, 1), {})]), "no name"),
    (msgspec.msgpack.encode([Register("w" * 201, "s1", Offer(1, 1), {})]), "length"),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(-1, 1), {})]), ">= 0"),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(10**12, 1), {})]), "<="),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(1, 1), {"a": "\0"})]), "control character"),
    (msgspec.msgpack.encode([Register("w1", "s1", Offer(1, 1), {str(n): "" for n in range(101)})]), "length"),
]


async def test_a_first_frame_that_makes_no_sense_closes_the_link(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    for first, why in FIRST_FRAMES:
        async with server.socket() as socket:
            await socket.send(first)
            code, reason = await Caller(socket, "").closed()
        assert code == 1008, first
        assert why in reason


async def test_a_link_on_which_nothing_is_said_is_closed(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "HELLO_SECONDS", 0.05)
    server = await yard.server()
    async with server.socket() as socket:
        assert (await Caller(socket, "").closed())[0] == 1008


async def test_a_result_without_credit_closes_the_link(yard: Yard) -> None:
    server = await yard.server()
    leader = await server.leader()
    async with server.caller() as worker:
        await until(lambda: leader.links._links["w1"].credit > 0)
        leader.links._links["w1"].credit = 1
        await worker.say(*(Result(f"att_{n}", Outcome.SUCCEEDED) for n in range(2)))
        code, reason = await worker.closed()
    assert code == 1008
    assert "credit" in reason


async def test_a_word_out_of_place_closes_the_link(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    for said in (HELLO, Result("att_\0", Outcome.FAILED), Started("a" * 201)):
        async with server.caller() as worker:
            await worker.say(Beat(), said)
            assert (await worker.closed())[0] == 1008


async def test_a_frame_that_is_too_large_closes_the_link(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    async with server.caller() as worker:
        with suppress(ConnectionClosed):
            await worker.socket.send(b"\x00" * (16 * 1024 * 1024 + 1))
        assert (await worker.closed())[0] == 1009


async def test_a_newer_session_closes_the_older_one(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    async with server.caller(session="s1") as older, server.caller(session="s2"):
        assert (await older.closed())[0] == 1012


async def test_when_the_term_ends_the_worker_is_let_go(yard: Yard) -> None:
    server = await yard.server()
    leader = await server.leader()
    async with server.caller() as worker:
        leader.stop()
        assert (await worker.closed())[0] == 1012


async def test_a_server_that_ends_closes_its_links(yard: Yard) -> None:
    server = await yard.server()
    await server.leader()
    async with server.caller() as worker:
        server.stop()
        assert (await worker.closed())[0] == 1012


async def test_a_link_is_for_workers_and_admins_of_every_tenant(yard: Yard) -> None:
    server = await yard.server(open_locally=False)
    await server.leader()
    refused = {
        "nobody": None,
        "viewer": await yard.token(Role.VIEWER),
        "one tenant's": await yard.token(Role.WORKER, tenant="acme"),
        "unknown": "msp_0000000000000000_" + 64 * "0",
    }
    for token in refused.values():
        headers = {"Authorization": f"Bearer {token}"} if token else None
        with pytest.raises(InvalidStatus) as caught:
            async with server.socket(headers):
                pass
        assert caught.value.response.status_code in {401, 403}
    for role in (Role.WORKER, Role.ADMIN):
        async with server.caller(token=await yard.token(role)):
            pass


async def test_a_page_in_a_browser_gets_no_link(yard: Yard) -> None:
    server = await yard.server()
    with pytest.raises(InvalidStatus) as caught:
        async with server.socket({"Origin": server.address}):
            pass
    assert caught.value.response.status_code == 403


async def test_a_connected_workers_name_is_not_for_another_token(yard: Yard) -> None:
    server = await yard.server(open_locally=False)
    await server.leader()
    mine, yours = await yard.token(Role.WORKER, name="mine"), await yard.token(Role.WORKER, name="yours")
    async with server.caller(token=mine) as worker:
        async with server.socket({"Authorization": f"Bearer {yours}"}) as socket:
            thief = Caller(socket, "w1")
            await thief.say(HELLO)
            assert (await thief.closed())[0] == 1008
        await yard.submit()
        task = await worker.next_task()
        assert await worker.finish(task.attempt) is Verdict.APPLIED
    async with server.caller(token=yours, session="s2"):
        pass


async def test_what_was_opened_with_a_token_ends_with_it(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (session_validity, "ASK_AGAIN_SECONDS"),
        (link_module, "ASK_AGAIN_SECONDS"),
        (authentication, "KNOWN_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.05)
    server = await yard.server(open_locally=False)
    await server.leader()
    token = await yard.token(Role.WORKER)
    async with server.caller(token=token) as worker:
        await yard.store.revoke_token(id_of(token) or "")
        code, reason = await worker.closed()
    assert code == 1008
    assert "token" in reason
