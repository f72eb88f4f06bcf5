"""Enrollment: uses of tokens, ownership of names, and the scope of join tokens and certificates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from starlette.types import Receive, Scope, Send

from mainspring.api.app import endpoints
from mainspring.api.auth.authentication import CACHE_SECONDS
from mainspring.api.auth.principal import Role
from mainspring.api.http.peer_certificates import STATE
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.protocol import certificates
from mainspring.protocol.certificates import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, Authority, WorkerCertificate
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused
from mainspring.protocol.rest.admin import AuditView, CertificateView, IdentityView, JoinTokenView
from mainspring.protocol.rest.runs import ActionResult, Page
from tests.api.api_harness import ApiHarness, pointers, problem, read
from tests.api.permission_matrix import MISSING, shake_hands, ways

ENROLL_HINT, RENEW = "/api/v1/workers/enroll", "/api/v1/workers/renew"


@pytest_asyncio.fixture
async def ca_harness(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    """A server that issues worker certificates."""
    certificates.make_authority(tmp_path / "ca", now=SystemClock().wall())
    certificate, key = tmp_path / "ca" / AUTHORITY_CERTIFICATE, tmp_path / "ca" / AUTHORITY_KEY
    harness = ApiHarness(
        tmp_path, enrollment=Enrollment(certificate=certificate, authority=Authority(certificate, key))
    )
    yield harness
    await harness.close()


def a_key() -> str:
    """Return a key in PEM."""
    return certificates.key_text(certificates.make_key())


def an_enroll_payload(name: str, key: str) -> dict[str, str]:
    """Return an enrollment request."""
    return {"name": name, "request": certificates.make_request(key, name)}


async def a_join_token(harness: ApiHarness, **fields: object) -> JoinTokenView:
    """Create a join token over the API."""
    made: JoinTokenView = read(await (await harness.admin()).post("/api/v1/join-tokens", json=fields), JoinTokenView)
    return made


async def join(harness: ApiHarness, name: str = "w1") -> WorkerCertificate:
    """Enroll and return the certificate."""
    machine = harness.caller((await a_join_token(harness)).token)
    given = read(await machine.post(ENROLL_HINT, json=an_enroll_payload(name, a_key())), CertificateView)
    return certificates.read_certificate(given.certificate)


def certified(harness: ApiHarness, certificate: WorkerCertificate) -> httpx2.AsyncClient:
    """Return a client with a certificate."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await harness.front.app({**scope, "state": {STATE: certificate}}, receive, send)

    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 50_000), raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8484")


async def test_a_worker_enrolls_once_per_token_use_and_is_recorded(ca_harness: ApiHarness) -> None:
    token = await a_join_token(ca_harness, name="rack-7", pools=["gpu", "spare"])
    machine = ca_harness.caller(token.token)

    given = read(await machine.post(ENROLL_HINT, json=an_enroll_payload("gpu-3", a_key())), CertificateView)
    again = await machine.post(ENROLL_HINT, json=an_enroll_payload("gpu-4", a_key()))

    assert "no uses left" in problem(again, 401)["detail"]
    made = certificates.read_certificate(given.certificate)
    assert (made.name, made.serial, given.pools) == ("gpu-3", given.serial, ["gpu", "spare"])
    assert timedelta(hours=24) <= made.expires_at - made.begins_at <= timedelta(hours=24) + 2 * certificates.SKEW
    admin = await ca_harness.admin()
    (known,) = read(await admin.get("/api/v1/worker-identities"), Page[IdentityView]).items
    assert (known.name, known.pools, known.join_token) == ("gpu-3", ["gpu", "spare"], token.id)
    (listed,) = read(await admin.get("/api/v1/join-tokens"), Page[JoinTokenView]).items
    assert (listed.uses_left, listed.token) == (0, None)
    reported = read(await admin.get("/api/v1/audit"), Page[AuditView]).items
    assert [(entry.action, entry.object, entry.actor) for entry in reported] == [
        ("enroll_worker", "gpu-3", "join:rack-7"),
        ("create_join_token", token.id, "token:a-test"),
    ]
    assert token.token is not None
    assert token.token not in repr(reported)


async def test_a_lost_enrollment_response_can_be_requested_again_with_the_same_key(ca_harness: ApiHarness) -> None:
    machine = ca_harness.caller((await a_join_token(ca_harness)).token)
    payload = an_enroll_payload("w1", a_key())

    first = read(await machine.post(ENROLL_HINT, json=payload), CertificateView)
    second = read(await machine.post(ENROLL_HINT, json=payload), CertificateView)

    assert first.serial != second.serial
    kept = await ca_harness.store.find_identity("w1")
    assert kept is not None
    assert kept.serial == second.serial


async def test_a_taken_name_is_rejected_without_using_the_token(ca_harness: ApiHarness) -> None:
    await join(ca_harness, "w1")
    before = await ca_harness.store.find_identity("w1")
    token = await a_join_token(ca_harness)

    problem(await ca_harness.caller(token.token).post(ENROLL_HINT, json=an_enroll_payload("w1", a_key())), 409)

    assert await ca_harness.store.find_identity("w1") == before
    left = await ca_harness.store.find_join_token(token.id)
    assert left is not None
    assert left.uses_left == 1


async def test_a_worker_that_enrolls_again_after_revocation_is_accepted_immediately(ca_harness: ApiHarness) -> None:
    """The server has just cached the name."""
    before = certified(ca_harness, await join(ca_harness, "w1"))
    problem(await before.post(RENEW, json={"request": ""}), 422)
    assert read(await (await ca_harness.admin()).post("/api/v1/workers/w1/revoke", json={}), ActionResult).changed

    after = certified(ca_harness, await join(ca_harness, "w1"))

    problem(await after.post(RENEW, json={"request": ""}), 422)
    problem(await before.post(RENEW, json={"request": ""}), 401)


async def test_a_join_token_expires_and_can_be_revoked(ca_harness: ApiHarness) -> None:
    short, ended = await a_join_token(ca_harness, expires_in_seconds=60), await a_join_token(ca_harness)
    admin = await ca_harness.admin()
    assert read(await admin.delete(f"/api/v1/join-tokens/{ended.id}"), ActionResult).changed
    assert not read(await admin.delete(f"/api/v1/join-tokens/{ended.id}"), ActionResult).changed
    ca_harness.clock.ahead = 61.0

    for token, why in ((short.token, "expired"), (ended.token, "revoked"), (f"msj_{'0' * 16}_{'0' * 64}", "")):
        answer = await ca_harness.caller(token).post(ENROLL_HINT, json=an_enroll_payload("w1", a_key()))
        assert why in problem(answer, 401)["detail"]
    assert await ca_harness.store.find_identity("w1") is None


async def test_a_join_token_is_valid_for_enrollment_only(ca_harness: ApiHarness) -> None:
    machine = ca_harness.caller((await a_join_token(ca_harness)).token)
    public = {endpoint.operation for endpoint in endpoints() if endpoint.role is None}
    for way in ways(ca_harness):
        if way.method == "WS":
            assert await shake_hands(ca_harness, way.path, machine.headers) == "403"
        elif way.endpoint is not None and way.endpoint.operation not in {*public, "enroll_worker"}:
            problem(await machine.request(way.method, way.url(MISSING), **way.body()), 403)  # type: ignore[arg-type]


async def test_a_worker_certificate_is_valid_for_worker_routes_only(ca_harness: ApiHarness) -> None:
    worker = certified(ca_harness, await join(ca_harness))
    for way in ways(ca_harness):
        if way.endpoint is not None and way.endpoint.role not in {None, Role.WORKER}:
            problem(await worker.request(way.method, way.url(MISSING), **way.body()), 403)  # type: ignore[arg-type]


async def test_an_expired_or_revoked_certificate_is_rejected_with_a_hint(ca_harness: ApiHarness) -> None:
    worker, other = (
        certified(ca_harness, await join(ca_harness, "w1")),
        certified(ca_harness, await join(ca_harness, "w2")),
    )
    admin = await ca_harness.admin()
    assert read(await admin.post("/api/v1/workers/w2/revoke", json={"why": "stolen"}), ActionResult).changed
    problem(await admin.post("/api/v1/workers/w3/revoke", json={}), 404)
    ca_harness.clock.ahead = CACHE_SECONDS
    assert (
        "was revoked: enroll it with `mainspring join-token create`"
        in problem(await other.post(RENEW, json={"request": ""}), 401)["detail"]
    )
    problem(await worker.post(RENEW, json={"request": ""}), 422)

    ca_harness.clock.ahead = timedelta(hours=25).total_seconds()

    assert (
        "has expired: enroll it with `mainspring join-token create`"
        in problem(await worker.post(RENEW, json={"request": ""}), 401)["detail"]
    )


def _by_rsa() -> str:
    key = rsa.generate_private_key(65_537, 2_048)
    return (
        x509.CertificateSigningRequestBuilder(x509.Name([]))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
        .decode()
    )


def _tampered() -> str:
    """A signing request with a wrong signature."""
    request = x509.load_pem_x509_csr(certificates.make_request(a_key(), "w1").encode())
    words = bytearray(request.public_bytes(Encoding.DER))
    words[words.index(b"w1")] ^= 1
    return x509.load_der_x509_csr(bytes(words)).public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize("request_of", [lambda: "", lambda: "x" * 9_000, _by_rsa, _tampered])
async def test_an_invalid_signing_request_does_not_use_the_token(ca_harness: ApiHarness, request_of: object) -> None:
    token = await a_join_token(ca_harness)
    assert callable(request_of)

    answer = await ca_harness.caller(token.token).post(ENROLL_HINT, json={"name": "w1", "request": request_of()})

    assert pointers(problem(answer, 422)) == ["/request"]
    left = await ca_harness.store.find_join_token(token.id)
    assert left is not None
    assert left.uses_left == 1


@pytest.mark.parametrize("name", ["", "a b", "http/w1", "../w1", "w" * 101, "w\n1"])
async def test_an_invalid_worker_name_is_rejected(ca_harness: ApiHarness, name: str) -> None:
    token = await a_join_token(ca_harness)
    payload = {**an_enroll_payload("w1", a_key()), "name": name}
    assert pointers(problem(await ca_harness.caller(token.token).post(ENROLL_HINT, json=payload), 422)) == ["/name"]


async def test_an_invalid_join_token_request_reports_all_faults(ca_harness: ApiHarness) -> None:
    payload = {"name": "", "pools": ["Not a pool"], "uses": 0, "expires_in_seconds": 1}
    body = problem(await (await ca_harness.admin()).post("/api/v1/join-tokens", json=payload), 422)
    assert set(pointers(body)) == {"/name", "/pools/0", "/uses", "/expires_in_seconds"}
    problem(await (await ca_harness.admin("acme")).post("/api/v1/join-tokens", json={}), 403)


async def test_a_server_without_a_ca_rejects_enrollment(harness: ApiHarness) -> None:
    machine = harness.caller((await a_join_token(harness)).token)
    assert (
        "--worker-ca" in problem(await machine.post(ENROLL_HINT, json=an_enroll_payload("w1", a_key())), 403)["detail"]
    )


def test_a_ca_is_created_once_with_a_private_key_file(tmp_path: Path) -> None:
    now = SystemClock().wall()
    certificates.make_authority(tmp_path / "one", now=now)
    certificates.make_authority(tmp_path / "two", now=now)

    assert (tmp_path / "one" / AUTHORITY_KEY).stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused):
        certificates.make_authority(tmp_path / "one", now=now)
    with pytest.raises(Refused, match="is not the key of"):
        Authority(tmp_path / "one" / AUTHORITY_CERTIFICATE, tmp_path / "two" / AUTHORITY_KEY)
    with pytest.raises(Refused, match="can't read the worker authority"):
        Authority(tmp_path / "one" / AUTHORITY_CERTIFICATE, tmp_path / "nowhere")
