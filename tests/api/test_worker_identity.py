"""Workers with certificates over real TLS: authentication, and no effects of rejected workers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from mainspring.api.auth import authentication, session_validity
from mainspring.api.services import Role
from mainspring.api.worker_link import link as link_module
from mainspring.app.build import POOL
from mainspring.core.model.task import TaskState
from mainspring.protocol import certificates
from mainspring.protocol.certificates import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, Authority
from mainspring.protocol.rest.admin import CertificateView
from mainspring.protocol.rest.runs import Done
from mainspring.protocol.wire import (
    Answer,
    Beat,
    Checkpoint,
    Extend,
    Log,
    Offer,
    Outcome,
    Register,
    Result,
    Started,
    Verdict,
)
from tests.api.gatehouse import Gatehouse, Papers
from tests.api.office import problem, read
from tests.api.office import until as until_so
from tests.api.yard import Caller, Server, Yard, until
from tests.store.admin_builders import an_entry
from tests.store.conftest import look

HELLO = Register("w1", "s1", Offer(4_000, 4 << 30), {})
KEPT = (
    "runs", "tasks", "attempts", "transitions", "checkpoints", "late_results", "outbox", "worker_identities",
    "join_tokens", "rejected_events",
)  # fmt: skip
"""Rows that a rejected worker must not change, except for last heartbeats."""


@pytest.fixture
async def gatehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gatehouse]:
    """A store without servers. Servers re-check credentials immediately."""
    for module, name in (
        (session_validity, "ASK_AGAIN_SECONDS"),
        (link_module, "ASK_AGAIN_SECONDS"),
        (authentication, "KNOWN_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.05)
    async with Yard(tmp_path) as yard:
        yield Gatehouse(yard, tmp_path)


async def rows(yard: Yard) -> dict[str, list[Any]]:
    """Read all rows of work and identities."""
    return {table: sorted(map(repr, await look(yard.store, f"SELECT * FROM {table}"))) for table in KEPT}


async def queue_one(yard: Yard) -> None:
    """Queue a task."""
    (run,) = await yard.submit()
    await until_is(yard, f"task_{run.id[4:]}.0", TaskState.QUEUED)


async def until_is(yard: Yard, task_id: str, state: TaskState) -> None:
    """Wait until a task has a state in the store."""

    async def is_it() -> bool:
        task = await yard.store.find_task(task_id)
        return task is not None and task.state is state

    await until_so(is_it)


async def why_refused(
    server: Server, context: ssl.SSLContext | None = None, hello: Register = HELLO, **shown: Any
) -> str:
    """Return the rejection of a worker with these credentials and this Register."""
    try:
        async with server.socket(shown.get("headers"), context) as socket:
            worker = Caller(socket, hello.worker)
            await worker.say(hello)
            code, reason = await worker.closed()
    except InvalidStatus as denied:
        return f"{denied.response.status_code}: {(denied.response.body or b'').decode()}"
    except (OSError, InvalidHandshake, ConnectionClosed) as broken:  # TLS closes the connection, sooner or later
        return f"hung up: {broken}"
    assert not worker.heard, "it was let in"
    assert code == 1008
    return reason


async def test_a_worker_with_a_certificate_needs_no_token(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server(is_required=True)
    papers = await gatehouse.join(server, "w1")
    await gatehouse.yard.submit()
    async with server.caller("w1", trust=gatehouse.context(papers)) as worker:
        task = await worker.next_task()
        assert await worker.finish(task.attempt) is Verdict.APPLIED


async def test_browsers_and_token_clients_need_no_certificate(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server()
    async with server.http(await gatehouse.yard.token(Role.VIEWER)) as person:
        assert (await person.get("/api/v1/runs")).status_code == 200
    async with server.caller("w2", token=await gatehouse.yard.token(Role.WORKER)):
        pass


async def test_a_token_is_rejected_where_a_certificate_is_required(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server(is_required=True)
    for role in (Role.WORKER, Role.ADMIN):
        headers = {"Authorization": f"Bearer {await gatehouse.yard.token(role)}"}
        assert "need a certificate" in await why_refused(server, headers=headers)


def _revoked(gatehouse: Gatehouse, papers: Papers) -> Papers:
    return papers


def _expired(gatehouse: Gatehouse, papers: Papers) -> Papers:
    """A certificate signed two days ago, for one day."""
    now = gatehouse.yard.clock.wall() - timedelta(days=2)
    request = certificates.make_request(papers.key, papers.name)
    signed, _ = gatehouse.authority.sign_worker(request, papers.name, now=now, life=timedelta(days=1))
    return Papers(papers.name, signed, papers.key)


def _foreign(gatehouse: Gatehouse, papers: Papers) -> Papers:
    """The same name and key, signed by a foreign CA of the same name."""
    directory = gatehouse._directory / "foreign"
    now = gatehouse.yard.clock.wall()
    certificates.make_authority(directory, now=now)
    theirs = Authority(directory / AUTHORITY_CERTIFICATE, directory / AUTHORITY_KEY)
    signed, _ = theirs.sign_worker(
        certificates.make_request(papers.key, papers.name), papers.name, now=now, life=timedelta(days=1)
    )
    return Papers(papers.name, signed, papers.key)


def _with_another_key(gatehouse: Gatehouse, papers: Papers) -> Papers:
    """Signed by our CA for another key: its name is on record, its key is not."""
    key = certificates.key_text(certificates.make_key())
    signed, _ = gatehouse.authority.sign_worker(
        certificates.make_request(key, papers.name),
        papers.name,
        now=gatehouse.yard.clock.wall(),
        life=timedelta(days=1),
    )
    return Papers(papers.name, signed, key)


def _for_a_server(gatehouse: Gatehouse, papers: Papers) -> Papers:
    """A server certificate of the same CA."""
    key = certificates.make_key()
    signed = gatehouse.authority.sign_server(key, ["w1"], now=gatehouse.yard.clock.wall())
    return Papers(papers.name, signed, certificates.key_text(key))


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (_revoked, "was revoked: enroll it"),
        (_expired, "hung up"),
        (_foreign, "hung up"),
        (_with_another_key, "no registered worker"),
        (_for_a_server, "hung up"),
    ],
)
async def test_an_invalid_certificate_is_rejected_and_changes_nothing(
    gatehouse: Gatehouse, forge: Callable[[Gatehouse, Papers], Papers], why: str
) -> None:
    server = await gatehouse.server()
    papers = await gatehouse.join(server, "w1")
    if forge is _revoked:
        # The thief copied the key from the machine before, and uses it afterwards.
        await gatehouse.yard.store.revoke_identity("w1", an_entry())
    context = gatehouse.context(forge(gatehouse, papers))
    await queue_one(gatehouse.yard)
    before = await rows(gatehouse.yard)

    assert why in await why_refused(server, context)
    async with server.http(trust=context) as thief:
        try:
            answer = await thief.post("/api/v1/workers/renew", json={"request": "x"})
            problem(answer, 401)
        except httpx2.TransportError:
            assert why == "hung up"

    assert await rows(gatehouse.yard) == before


async def test_a_link_closes_soon_after_its_certificate_is_revoked(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server()
    context = gatehouse.context(await gatehouse.join(server, "w1"))
    async with (
        server.caller("w1", trust=context) as worker,
        server.http(await gatehouse.yard.token(Role.ADMIN)) as admin,
    ):
        assert read(await admin.post("/api/v1/workers/w1/revoke", json={"why": "stolen"}), Done).changed
        code, reason = await worker.closed()
    assert code == 1008
    assert "no longer valid" in reason
    assert "was revoked" in await why_refused(server, context)


async def test_a_certificate_is_valid_for_its_own_name_and_pools_only(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server()
    context = gatehouse.context(await gatehouse.join(server, "w1", "gpu", "spare"))
    await gatehouse.join(server, "w2")
    headers = {"Authorization": f"Bearer {await gatehouse.yard.token(Role.WORKER)}"}
    await queue_one(gatehouse.yard)
    before = await rows(gatehouse.yard)

    assert "may serve gpu, spare, not default" in await why_refused(server, context, HELLO)
    stranger = Register("w2", "s1", Offer(1, 1), {}, pool=POOL)
    assert "for worker w1, not for w2" in await why_refused(server, context, stranger)
    assert "belongs to a worker with a certificate" in await why_refused(server, None, stranger, headers=headers)

    assert await rows(gatehouse.yard) == before


async def test_reports_on_another_workers_attempt_change_nothing(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server()
    mine, yours = [gatehouse.context(await gatehouse.join(server, name)) for name in ("w1", "w2")]
    async with server.caller("w1", trust=mine) as worker, server.caller("w2", trust=yours, cores=1) as other:
        await gatehouse.yard.submit()
        attempts = (await server.leader()).shard.memory.attempts
        await until(lambda: bool(attempts))
        (held,) = attempts.values()
        owner, thief = (worker, other) if held.worker_id == "w1" else (other, worker)
        task = await owner.next_task()
        await until_is(gatehouse.yard, task.task, TaskState.RUNNING)
        before = await rows(gatehouse.yard)

        await thief.say(
            Started(task.attempt),
            Checkpoint(task.attempt, '{"at": 1}'),
            Extend(task.attempt, 3600.0),
            Log(task.attempt, 0, b"forged\n"),
            Result(task.attempt, Outcome.SUCCEEDED, '"forged"'),
        )
        assert (await thief.hear(Answer)).verdict is not Verdict.APPLIED
        assert await rows(gatehouse.yard) == before
        async with server.http(await gatehouse.yard.token(Role.VIEWER)) as reader:
            assert (await reader.get(f"/api/v1/tasks/{task.task}/log")).text == ""
        assert await owner.finish(task.attempt) is Verdict.APPLIED


async def test_a_result_of_a_gigabyte_is_not_even_received(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server()
    context = gatehouse.context(await gatehouse.join(server, "w1"))
    await gatehouse.yard.submit()
    async with server.caller("w1", trust=context) as worker:
        task = await worker.next_task()
        await until_is(gatehouse.yard, task.task, TaskState.RUNNING)
        before = await rows(gatehouse.yard)
        # The header of a binary frame of this size with a zero mask, and the start of its payload.
        head = bytes([0x82, 0x80 | 127]) + (1 << 30).to_bytes(8, "big") + bytes(4)
        worker.socket.transport.write(head + bytes(1_000))
        assert (await worker.closed())[0] == 1009
    assert await rows(gatehouse.yard) == before


async def test_a_result_of_a_superseded_attempt_is_recorded_as_late_only(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server()
    context = gatehouse.context(await gatehouse.join(server, "w1"))
    await gatehouse.yard.submit()
    async with (
        server.caller("w1", trust=context) as worker,
        server.http(await gatehouse.yard.token(Role.OPERATOR)) as person,
    ):
        past = await worker.next_task()
        await until_is(gatehouse.yard, past.task, TaskState.RUNNING)
        killed = await person.post(f"/api/v1/tasks/{past.task}/kill", json={"grace_seconds": 0, "again": True})
        assert killed.is_success, killed.text
        await worker.say(Result(past.attempt, Outcome.STOPPED))
        now = await worker.next_task()
        assert now.task == past.task
        await until_is(gatehouse.yard, now.task, TaskState.RUNNING)
        before = await rows(gatehouse.yard)

        await worker.hear(Answer)
        await worker.say(Result(past.attempt, Outcome.SUCCEEDED, '"from the past"'), Beat())
        assert (await worker.hear(Answer)).verdict is not Verdict.APPLIED
        after = await rows(gatehouse.yard)
        assert {**after, "late_results": []} == {**before, "late_results": []}
        assert await worker.finish(now.attempt) is Verdict.APPLIED


async def test_a_certificate_is_renewed_with_itself_for_the_same_key(gatehouse: Gatehouse) -> None:
    server = await gatehouse.server()
    papers = await gatehouse.join(server, "w1")
    first = certificates.read_certificate(papers.certificate)
    async with server.http(trust=gatehouse.context(papers)) as worker:
        other = certificates.key_text(certificates.make_key())
        refused = await worker.post("/api/v1/workers/renew", json={"request": certificates.make_request(other, "w1")})
        assert "not signed with the key" in problem(refused, 403)["detail"]
        wish = {"request": certificates.make_request(papers.key, "w1")}
        given = read(await worker.post("/api/v1/workers/renew", json=wish), CertificateView)
    next_one = certificates.read_certificate(given.certificate)
    assert (next_one.name, next_one.key) == (first.name, first.key)
    assert next_one.serial != first.serial
    kept = await gatehouse.yard.store.find_identity("w1")
    assert kept is not None
    assert (kept.serial, kept.expires_at) == (next_one.serial, next_one.expires_at)
    for pem in (papers.certificate, given.certificate):
        async with server.caller("w1", trust=gatehouse.context(Papers("w1", pem, papers.key))):
            pass
