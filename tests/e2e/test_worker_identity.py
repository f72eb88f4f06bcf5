"""Enrollment of a worker: five commands, real processes, real TLS."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mainspring.client.client import Client
from mainspring.protocol.rest.admin import JoinTokenRequest
from tests.e2e.cluster import Json, Server, ServerCluster, ended, submit, until


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    return subprocess.run(
        [sys.executable, "-m", "mainspring.cli.main", *words], capture_output=True, text=True, check=False, timeout=60
    )


def commands(*several: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
    """Run several commands in parallel."""
    with ThreadPoolExecutor(len(several)) as threads:
        return list(threads.map(lambda words: command(*words), several))


class SecuredCluster(ServerCluster):
    """A cluster whose servers use TLS and require worker certificates."""

    @property
    def ca(self) -> Path:
        """The CA."""
        return self.folder / "ca"

    def guarded(self, *extra: str) -> Server:
        """A server that requires worker certificates."""
        for words in (("init", str(self.ca)), ("cert", str(self.ca), "127.0.0.1")):
            done = command("ca", *words)
            assert done.returncode == 0, done.stderr
        pair = ("--tls-cert", str(self.ca / "127.0.0.1.crt"), "--tls-key", str(self.ca / "127.0.0.1.key"))
        return self.server(*pair, "--worker-ca", str(self.ca), "--require-worker-cert", *extra)

    def client(self, server: Server) -> Client:
        """A client of a server of this cluster."""
        return Client(server.address, ca_cert=self.ca / "ca.crt")

    def join(self, client: Client, *pools: str) -> tuple[str, ...]:
        """Options for a worker that enrolls."""
        made = client.create_join_token(JoinTokenRequest(pools=pools or ("default",)))
        (self.folder / "join").write_text(made.token or "")
        return ("--join-file", str(self.folder / "join"), *self.trusting())

    def trusting(self) -> tuple[str, ...]:
        """Options for a client that trusts this cluster's servers."""
        return ("--ca-cert", str(self.ca / "ca.crt"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster shared by the tests. Each test has its own workers, with a label that its tasks require."""
    with SecuredCluster(tmp_path_factory.mktemp("fort")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server(cluster: SecuredCluster) -> Server:
    """Its server."""
    return cluster.guarded()


def a_job(worker: str) -> Json:
    """A job with one task, for a worker with this label."""
    return {"name": worker, "tasks": [{"name": "only", "work": {"run": ["echo", "hello"]}, "labels": {"is": worker}}]}


def test_a_worker_enrolls_and_returns_without_its_join_token(cluster: SecuredCluster, server: Server) -> None:
    job, label = a_job("fort-1"), ("--label", "is=fort-1")
    with cluster.client(server) as client:
        worker = cluster.worker(server, name="fort-1", extra=(*cluster.join(client), *label))
        assert ended(client, submit(client, job).id).state == "SUCCEEDED"
        worker.kill()
        cluster.worker(server, name="fort-1", extra=(*cluster.trusting(), *label))
        assert ended(client, submit(client, job).id).state == "SUCCEEDED"
        listed = command("workers", "identities", "-q", "--server", server.address, *cluster.trusting())
        assert listed.stdout.split().count("fort-1") == 1, listed.stderr


def test_a_revoked_worker_is_disconnected_and_a_copy_of_its_files_is_refused(
    cluster: SecuredCluster, server: Server
) -> None:
    with cluster.client(server) as client:
        worker = cluster.worker(server, name="fort-2", extra=cluster.join(client))
        revoked = command("workers", "revoke", "fort-2", "--server", server.address, *cluster.trusting())
        assert revoked.returncode == 0, revoked.stderr
        until(lambda: "was revoked" in worker.log.read_text(), "it is refused", 30)
        worker.kill()
        again = command(
            "worker", "--name", "fort-2", "--state-dir", str(cluster.state_of("fort-2")), "--server", server.address,
            *cluster.trusting(), "--as-root",
        )  # fmt: skip
        assert again.returncode == 3
        assert "was revoked: enroll it with `mainspring join-token create`" in again.stderr
        cluster.worker(server, name="fort-2", extra=(*cluster.join(client), "--label", "is=fort-2"))
        assert ended(client, submit(client, a_job("fort-2")).id).state == "SUCCEEDED"


def test_a_failed_enrollment_has_a_reason(cluster: SecuredCluster, server: Server, tmp_path: Path) -> None:
    words = ("worker", "--name", "fort-3", "--server", server.address, "--as-root")
    with cluster.client(server) as client:
        options = cluster.join(client)
        for token in client.join_tokens():
            client.revoke_join_token(token.id)
    revoked, without = commands(
        [*words, "--state-dir", str(tmp_path / "revoked"), *options],
        [*words, "--state-dir", str(tmp_path / "without"), *cluster.trusting()],
    )
    for refused, why in ((revoked, "join token revoked"), (without, "workers need a certificate")):
        assert refused.returncode == 3, refused.stderr
        assert why in refused.stderr


def test_a_server_reports_what_issuing_certificates_needs(tmp_path: Path) -> None:
    start = ("server", "--port", "0", "--store", f"sqlite:///{tmp_path}/s.db")
    whys = {("--worker-ca", "ca"): "--tls-cert", ("--require-worker-cert",): "need --worker-ca"}
    whys[("--worker-ca-key", "ca.key")] = "need --worker-ca"
    for refused, why in zip(commands(*((*start, *words) for words in whys)), whys.values(), strict=True):
        assert refused.returncode == 2
        assert why in refused.stderr
