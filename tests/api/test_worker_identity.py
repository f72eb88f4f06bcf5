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

from mainspring.api.auth import access, authentication
from mainspring.api.auth.principal import Role
from mainspring.api.worker_link import link as link_module
from mainspring.app.build import POOL
from mainspring.core.model.task import TaskState
from mainspring.protocol import certificates
from mainspring.protocol.certificates import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, Authority
from mainspring.protocol.rest.admin import CertificateView
from mainspring.protocol.rest.runs import ActionResult
from mainspring.protocol.wire import (
    Answer,
    Checkpoint,
    Extend,
    Heartbeat,
    Log,
    Offer,
    Outcome,
    Register,
    Result,
    Started,
    Verdict,
)
from tests.api.api_harness import problem, read
from tests.api.api_harness import until as until_so
from tests.api.api_server import ApiServers, LinkClient, Server, until
from tests.api.enrollment_harness import EnrollmentHarness, WorkerCredentials
from tests.store.admin_builders import an_entry
from tests.store.conftest import look

HELLO = Register("w1", "s1", Offer(4_000, 4 << 30), {})
KEPT = (
    "runs", "tasks", "attempts", "transitions", "checkpoints", "late_results", "outbox", "worker_identities",
    "join_tokens", "rejected_events",
)  # fmt: skip
"""Rows that a rejected worker must not change, except for last heartbeats."""


@pytest.fixture
async def enrollment_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EnrollmentHarness]:
    """A store without servers. Servers re-check credentials immediately."""
    for module, name in (
        (access, "VALIDITY_CHECK_SECONDS"),
        (link_module, "VALIDITY_CHECK_SECONDS"),
        (authentication, "CACHE_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.05)
    async with ApiServers(tmp_path) as api_servers:
        yield EnrollmentHarness(api_servers, tmp_path)


async def rows(api_servers: ApiServers) -> dict[str, list[Any]]:
    """Read all rows of work and identities."""
    return {table: sorted(map(repr, await look(api_servers.store, f"SELECT * FROM {table}"))) for table in KEPT}


async def queue_one(api_servers: ApiServers) -> None:
    """Queue a task."""
    (run,) = await api_servers.submit()
    await until_is(api_servers, f"task_{run.id[4:]}.0", TaskState.QUEUED)


async def until_is(api_servers: ApiServers, task_id: str, state: TaskState) -> None:
    """Wait until a task has a state in the store."""

    async def is_it() -> bool:
        task = await api_servers.store.find_task(task_id)
        return task is not None and task.state is state

    await until_so(is_it)


async def why_refused(
    server: Server, context: ssl.SSLContext | None = None, hello: Register = HELLO, **shown: Any
) -> str:
    """Return the rejection of a worker with these credentials and this Register."""
    try:
        async with server.socket(shown.get("headers"), context) as socket:
            worker = LinkClient(socket, hello.worker)
            await worker.say(hello)
            code, reason = await worker.closed()
    except InvalidStatus as denied:
        return f"{denied.response.status_code}: {(denied.response.body or b'').decode()}"
    except (OSError, InvalidHandshake, ConnectionClosed) as broken:  # TLS closes the connection, sooner or later
        return f"hung up: {broken}"
    assert not worker.received, "it was let in"
    assert code == 1008
    return reason


async def test_a_worker_with_a_certificate_needs_no_token(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server(is_required=True)
    credentials = await enrollment_harness.join(server, "w1")
    await enrollment_harness.api_servers.submit()
    async with server.caller("w1", trust=enrollment_harness.context(credentials)) as worker:
        task = await worker.next_task()
        assert await worker.finish(task.attempt) is Verdict.APPLIED


async def test_browsers_and_token_clients_need_no_certificate(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server()
    async with server.http(await enrollment_harness.api_servers.token(Role.VIEWER)) as person:
        assert (await person.get("/api/v1/runs")).status_code == 200
    async with server.caller("w2", token=await enrollment_harness.api_servers.token(Role.WORKER)):
        pass


async def test_a_token_is_rejected_where_a_certificate_is_required(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server(is_required=True)
    for role in (Role.WORKER, Role.ADMIN):
        headers = {"Authorization": f"Bearer {await enrollment_harness.api_servers.token(role)}"}
        assert "need a certificate" in await why_refused(server, headers=headers)


def _revoked(enrollment_harness: EnrollmentHarness, credentials: WorkerCredentials) -> WorkerCredentials:
    return credentials


def _expired(enrollment_harness: EnrollmentHarness, credentials: WorkerCredentials) -> WorkerCredentials:
    """A certificate signed two days ago, for one day."""
    now = enrollment_harness.api_servers.clock.wall() - timedelta(days=2)
    request = certificates.make_request(credentials.key, credentials.name)
    signed, _ = enrollment_harness.authority.sign_worker(request, credentials.name, now=now, life=timedelta(days=1))
    return WorkerCredentials(credentials.name, signed, credentials.key)


def _foreign(enrollment_harness: EnrollmentHarness, credentials: WorkerCredentials) -> WorkerCredentials:
    """The same name and key, signed by a foreign CA of the same name."""
    directory = enrollment_harness._directory / "foreign"
    now = enrollment_harness.api_servers.clock.wall()
    certificates.make_authority(directory, now=now)
    theirs = Authority(directory / AUTHORITY_CERTIFICATE, directory / AUTHORITY_KEY)
    signed, _ = theirs.sign_worker(
        certificates.make_request(credentials.key, credentials.name), credentials.name, now=now, life=timedelta(days=1)
    )
    return WorkerCredentials(credentials.name, signed, credentials.key)


def _with_another_key(enrollment_harness: EnrollmentHarness, credentials: WorkerCredentials) -> WorkerCredentials:
    """Signed by our CA for another key: its name is on record, its key is not."""
    key = certificates.key_text(certificates.make_key())
    signed, _ = enrollment_harness.authority.sign_worker(
        certificates.make_request(key, credentials.name),
        credentials.name,
        now=enrollment_harness.api_servers.clock.wall(),
        life=timedelta(days=1),
    )
    return WorkerCredentials(credentials.name, signed, key)


def _for_a_server(enrollment_harness: EnrollmentHarness, credentials: WorkerCredentials) -> WorkerCredentials:
    """A server certificate of the same CA."""
    key = certificates.make_key()
    signed = enrollment_harness.authority.sign_server(key, ["w1"], now=enrollment_harness.api_servers.clock.wall())
    return WorkerCredentials(credentials.name, signed, certificates.key_text(key))


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
    enrollment_harness: EnrollmentHarness,
    forge: Callable[[EnrollmentHarness, WorkerCredentials], WorkerCredentials],
    why: str,
) -> None:
    server = await enrollment_harness.server()
    credentials = await enrollment_harness.join(server, "w1")
    if forge is _revoked:
        # The thief copied the key from the machine before, and uses it afterwards.
        await enrollment_harness.api_servers.store.revoke_identity("w1", an_entry())
    context = enrollment_harness.context(forge(enrollment_harness, credentials))
    await queue_one(enrollment_harness.api_servers)
    before = await rows(enrollment_harness.api_servers)

    assert why in await why_refused(server, context)
    async with server.http(trust=context) as thief:
        try:
            answer = await thief.post("/api/v1/workers/renew", json={"request": "x"})
            problem(answer, 401)
        except httpx2.TransportError:
            assert why == "hung up"

    assert await rows(enrollment_harness.api_servers) == before


async def test_a_link_closes_soon_after_its_certificate_is_revoked(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server()
    context = enrollment_harness.context(await enrollment_harness.join(server, "w1"))
    async with (
        server.caller("w1", trust=context) as worker,
        server.http(await enrollment_harness.api_servers.token(Role.ADMIN)) as admin,
    ):
        assert read(await admin.post("/api/v1/workers/w1/revoke", json={"why": "stolen"}), ActionResult).changed
        code, reason = await worker.closed()
    assert code == 1008
    assert "no longer valid" in reason
    assert "was revoked" in await why_refused(server, context)


async def test_a_certificate_is_valid_for_its_own_name_and_pools_only(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server()
    context = enrollment_harness.context(await enrollment_harness.join(server, "w1", "gpu", "spare"))
    await enrollment_harness.join(server, "w2")
    headers = {"Authorization": f"Bearer {await enrollment_harness.api_servers.token(Role.WORKER)}"}
    await queue_one(enrollment_harness.api_servers)
    before = await rows(enrollment_harness.api_servers)

    assert "may serve gpu, spare, not default" in await why_refused(server, context, HELLO)
    stranger = Register("w2", "s1", Offer(1, 1), {}, pool=POOL)
    assert "for worker w1, not for w2" in await why_refused(server, context, stranger)
    assert "belongs to a worker with a certificate" in await why_refused(server, None, stranger, headers=headers)

    assert await rows(enrollment_harness.api_servers) == before


async def test_reports_on_another_workers_attempt_change_nothing(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server()
    mine, yours = [enrollment_harness.context(await enrollment_harness.join(server, name)) for name in ("w1", "w2")]
    async with server.caller("w1", trust=mine) as worker, server.caller("w2", trust=yours, cores=1) as other:
        await enrollment_harness.api_servers.submit()
        attempts = (await server.leader()).shard.memory.attempts
        await until(lambda: bool(attempts))
        (held,) = attempts.values()
        owner, thief = (worker, other) if held.worker_id == "w1" else (other, worker)
        task = await owner.next_task()
        await until_is(enrollment_harness.api_servers, task.task, TaskState.RUNNING)
        before = await rows(enrollment_harness.api_servers)

        await thief.say(
            Started(task.attempt),
            Checkpoint(task.attempt, '{"at": 1}'),
            Extend(task.attempt, 3600.0),
            Log(task.attempt, 0, b"forged\n"),
            Result(task.attempt, Outcome.SUCCEEDED, '"forged"'),
        )
        assert (await thief.hear(Answer)).verdict is not Verdict.APPLIED
        assert await rows(enrollment_harness.api_servers) == before
        async with server.http(await enrollment_harness.api_servers.token(Role.VIEWER)) as reader:
            assert (await reader.get(f"/api/v1/tasks/{task.task}/log")).text == ""
        assert await owner.finish(task.attempt) is Verdict.APPLIED


async def test_a_result_of_a_gigabyte_is_not_even_received(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server()
    context = enrollment_harness.context(await enrollment_harness.join(server, "w1"))
    await enrollment_harness.api_servers.submit()
    async with server.caller("w1", trust=context) as worker:
        task = await worker.next_task()
        await until_is(enrollment_harness.api_servers, task.task, TaskState.RUNNING)
        before = await rows(enrollment_harness.api_servers)
        # The header of a binary frame of this size with a zero mask, and the start of its payload.
        head = bytes([0x82, 0x80 | 127]) + (1 << 30).to_bytes(8, "big") + bytes(4)
        worker.socket.transport.write(head + bytes(1_000))
        assert (await worker.closed())[0] == 1009
    assert await rows(enrollment_harness.api_servers) == before


async def test_a_result_of_a_superseded_attempt_is_recorded_as_late_only(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server()
    context = enrollment_harness.context(await enrollment_harness.join(server, "w1"))
    await enrollment_harness.api_servers.submit()
    async with (
        server.caller("w1", trust=context) as worker,
        server.http(await enrollment_harness.api_servers.token(Role.OPERATOR)) as person,
    ):
        past = await worker.next_task()
        await until_is(enrollment_harness.api_servers, past.task, TaskState.RUNNING)
        killed = await person.post(f"/api/v1/tasks/{past.task}/kill", json={"grace_seconds": 0, "again": True})
        assert killed.is_success, killed.text
        await worker.say(Result(past.attempt, Outcome.STOPPED))
        now = await worker.next_task()
        assert now.task == past.task
        await until_is(enrollment_harness.api_servers, now.task, TaskState.RUNNING)
        before = await rows(enrollment_harness.api_servers)

        await worker.hear(Answer)
        await worker.say(Result(past.attempt, Outcome.SUCCEEDED, '"from the past"'), Heartbeat())
        assert (await worker.hear(Answer)).verdict is not Verdict.APPLIED
        after = await rows(enrollment_harness.api_servers)
        assert {**after, "late_results": []} == {**before, "late_results": []}
        assert await worker.finish(now.attempt) is Verdict.APPLIED


async def test_a_certificate_is_renewed_with_itself_for_the_same_key(enrollment_harness: EnrollmentHarness) -> None:
    server = await enrollment_harness.server()
    credentials = await enrollment_harness.join(server, "w1")
    first = certificates.read_certificate(credentials.certificate)
    async with server.http(trust=enrollment_harness.context(credentials)) as worker:
        other = certificates.key_text(certificates.make_key())
        refused = await worker.post("/api/v1/workers/renew", json={"request": certificates.make_request(other, "w1")})
        assert "not signed with the key" in problem(refused, 403)["detail"]
        payload = {"request": certificates.make_request(credentials.key, "w1")}
        given = read(await worker.post("/api/v1/workers/renew", json=payload), CertificateView)
    next_one = certificates.read_certificate(given.certificate)
    assert (next_one.name, next_one.key) == (first.name, first.key)
    assert next_one.serial != first.serial
    kept = await enrollment_harness.api_servers.store.find_identity("w1")
    assert kept is not None
    assert (kept.serial, kept.expires_at) == (next_one.serial, next_one.expires_at)
    for pem in (credentials.certificate, given.certificate):
        async with server.caller("w1", trust=enrollment_harness.context(WorkerCredentials("w1", pem, credentials.key))):
            pass
