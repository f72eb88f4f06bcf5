"""A worker's identity on disk: enrollment, renewal and expiry."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.api.auth.principal import Role
from mainspring.protocol import certificates
from mainspring.protocol.errors import Conflict, Refused, Unauthenticated
from mainspring.worker.agent.identity import Identity
from mainspring.worker.agent.launch import read_credential
from tests.api.api_harness import AdvancedClock
from tests.api.api_server import ApiServers
from tests.api.enrollment_harness import EnrollmentHarness


@pytest.fixture
async def enrollment_harness(tmp_path: Path) -> AsyncIterator[EnrollmentHarness]:
    """A server for enrollment."""
    async with ApiServers(tmp_path) as api_servers:
        yield EnrollmentHarness(api_servers, tmp_path)


class Machine:
    """A machine with a worker directory."""

    def __init__(self, enrollment_harness: EnrollmentHarness, directory: Path, server: str, name: str = "w1") -> None:
        self.clock = AdvancedClock()
        self.directory = directory
        directory.mkdir(exist_ok=True)
        trusted = directory / "servers.crt"
        enrollment_harness.hosts.cert_pem.write_to_path(trusted)
        self.identity = Identity(directory, name, [server], self.clock, token="msp_unused", ca_cert=trusted)

    def serial(self) -> str:
        """Return the serial of the current certificate."""
        return certificates.read_certificate((self.directory / "identity" / "worker.pem").read_text()).serial


async def test_a_worker_enrolls_once_and_reuses_its_certificate_after_a_restart(
    enrollment_harness: EnrollmentHarness, tmp_path: Path
) -> None:
    server = await enrollment_harness.server()
    token = await enrollment_harness.join_token()
    machine = Machine(enrollment_harness, tmp_path / "m", server.address)
    assert machine.identity.headers() == {"Authorization": "Bearer msp_unused"}

    await machine.identity.join(token)
    first = machine.serial()
    await Machine(enrollment_harness, tmp_path / "m", server.address).identity.join(token)

    assert machine.serial() == first
    assert machine.identity.headers() == {}, "its token goes nowhere any more"
    kept = [path for path in (tmp_path / "m" / "identity").iterdir() if "PRIVATE KEY" in path.read_text()]
    assert [(path.name, path.stat().st_mode & 0o777) for path in kept] == [("worker.pem", 0o600)]
    assert (tmp_path / "m" / "identity").stat().st_mode & 0o777 == 0o700


async def test_another_join_token_gives_another_identity(enrollment_harness: EnrollmentHarness, tmp_path: Path) -> None:
    server = await enrollment_harness.server()
    machine = Machine(enrollment_harness, tmp_path / "m", server.address)
    await machine.identity.join(await enrollment_harness.join_token())
    async with server.http(await enrollment_harness.api_servers.token(Role.ADMIN)) as admin:
        assert (await admin.post("/api/v1/workers/w1/revoke", json={})).is_success
    revoked = machine.serial()

    await machine.identity.join(await enrollment_harness.join_token())

    assert machine.serial() != revoked
    kept = await enrollment_harness.api_servers.store.find_identity("w1")
    assert kept is not None
    assert kept.revoked_at is None


async def test_a_name_of_another_machine_is_rejected(enrollment_harness: EnrollmentHarness, tmp_path: Path) -> None:
    server = await enrollment_harness.server()
    await Machine(enrollment_harness, tmp_path / "one", server.address).identity.join(
        await enrollment_harness.join_token()
    )
    with pytest.raises(Conflict):
        await Machine(enrollment_harness, tmp_path / "two", server.address).identity.join(
            await enrollment_harness.join_token()
        )
    assert not (tmp_path / "two" / "identity" / "worker.pem").exists()


async def test_a_certificate_is_renewed_from_half_of_its_lifetime(
    enrollment_harness: EnrollmentHarness, tmp_path: Path
) -> None:
    server = await enrollment_harness.server()
    machine = Machine(enrollment_harness, tmp_path / "m", server.address)
    await machine.identity.join(await enrollment_harness.join_token())
    first, renewed = machine.serial(), asyncio.Event()

    async def note() -> None:
        renewed.set()

    machine.clock.ahead = timedelta(hours=13).total_seconds()
    renewing = asyncio.create_task(machine.identity.keep_renewed(note))
    async with asyncio.timeout(10):
        await renewed.wait()
    renewing.cancel()

    assert machine.serial() != first
    kept = await enrollment_harness.api_servers.store.find_identity("w1")
    assert kept is not None
    assert kept.serial == machine.serial()
    async with server.caller("w1", trust=machine.identity.context()):
        pass


async def test_an_expired_worker_is_told_how_to_enroll_again(
    enrollment_harness: EnrollmentHarness, tmp_path: Path
) -> None:
    server = await enrollment_harness.server()
    machine = Machine(enrollment_harness, tmp_path / "m", server.address)
    await machine.identity.join(await enrollment_harness.join_token())
    machine.clock.ahead = timedelta(hours=25).total_seconds()
    with pytest.raises(Unauthenticated, match=r"expired at .* UTC: join again: `mainspring join-token create`"):
        machine.identity.context()


async def test_an_untrusted_server_gets_no_join_token(enrollment_harness: EnrollmentHarness, tmp_path: Path) -> None:
    """The server at the address presents an untrusted certificate."""
    server = await enrollment_harness.server()
    seen = len(await enrollment_harness.api_servers.store.list_identities("", 10))
    stranger = Identity(tmp_path, "w1", [server.address], AdvancedClock(), token="", ca_cert=None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await stranger.join(await enrollment_harness.join_token())
    assert len(await enrollment_harness.api_servers.store.list_identities("", 10)) == seen
    assert stranger.context().verify_mode is ssl.CERT_REQUIRED


async def test_a_certificate_is_presented_over_https_only(
    enrollment_harness: EnrollmentHarness, tmp_path: Path
) -> None:
    machine = Machine(enrollment_harness, tmp_path / "m", "http://127.0.0.1:8484")
    with pytest.raises(Refused, match="is not https"):
        await machine.identity.join(await enrollment_harness.join_token())
    (tmp_path / "m" / "identity" / "worker.pem").write_text("")
    with pytest.raises(Refused, match="is not https"):
        machine.identity.check_addresses()


def test_a_join_token_is_read_from_a_file_or_given_directly(tmp_path: Path) -> None:
    (tmp_path / "join").write_text("msj_1_2\n")
    assert read_credential("", tmp_path / "join") == "msj_1_2"
    assert read_credential("said", None) == "said"
    with pytest.raises(Refused):
        read_credential("", tmp_path / "nowhere")
