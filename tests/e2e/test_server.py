"""`mainspring server` as a process: start, requests and stop on both stores, and refused options."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
import trustme

from mainspring.app.build import create_token
from tests.e2e.cluster import Server, ServerCluster, until
from tests.e2e.test_sharing import leader_first
from tests.postgres import PostgresServer
from tests.store.proxy import proxied


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> ServerCluster:
    """A cluster on each store, without a schema."""
    if request.param == "sqlite":
        return ServerCluster(tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return ServerCluster(tmp_path, server.url(server.create_database()))


def get(url: str, **options: object) -> httpx2.Response:
    with httpx2.Client(trust_env=False, timeout=30.0, verify=options.pop("verify", True)) as client:  # type: ignore[arg-type]
        return client.get(url, **options)  # type: ignore[arg-type]


def refusals(folder: Path, *commands: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
    """Run several servers that are expected to fail at start, in parallel."""

    def run(options: Sequence[str]) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "mainspring.cli.main", "server", *options]
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)

    with ThreadPoolExecutor(len(commands)) as threads:
        return list(threads.map(run, commands))


def test_a_server_responds_and_stops_on_a_signal(cluster: ServerCluster) -> None:
    with cluster:
        server = cluster.server("--log-format", "json")
        assert get(f"{server.address}/healthz").json() == {"status": "ok"}
        until(lambda: get(f"{server.address}/readyz").status_code == 200, "the server leads")
        assert get(f"{server.address}/api/v1/server").json()["leads"] == ["default"]
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
        lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
        assert [line["event"] for line in lines][-3:] == ["server.stopping", "lead.released", "server.stopped"]


def test_open_streams_do_not_delay_shutdown(tmp_path: Path) -> None:
    with ServerCluster(tmp_path) as cluster:
        server = cluster.server()
        with (
            httpx2.Client(trust_env=False) as client,
            client.stream("GET", f"{server.address}/api/v1/events") as answer,
        ):
            lines = answer.iter_lines()
            assert next(lines) == "event: heartbeat"
            server.signal(signal.SIGINT)
            assert server.ended() == 0
            assert "event: transition" not in list(lines)
        assert "Traceback" not in server.log.read_text()


def test_a_second_server_takes_over_from_a_stopped_one(tmp_path: Path, postgres_url: str) -> None:
    with ServerCluster(tmp_path, postgres_url) as cluster:
        first, second = leader_first(*cluster.servers(2))
        until(lambda: len(get(f"{second.address}/api/v1/server").json()["servers"]) == 2, "they know of each other")
        first.signal(signal.SIGTERM)
        until(lambda: get(f"{second.address}/api/v1/server").json()["leads"], "the second leads")
        assert first.ended() == 0
        assert len(get(f"{second.address}/api/v1/server").json()["servers"]) == 1


def test_a_port_or_store_in_use_is_reported(tmp_path: Path) -> None:
    with ServerCluster(tmp_path) as cluster:
        server = cluster.server()
        port = server.address.rpartition(":")[2]
        taken, shared = refusals(tmp_path, ["--port", port], ["--port", "0", "--store", cluster.store_url])
        assert taken.returncode == 4
        assert f"error: port {port} is in use" in taken.stderr
        assert "hint:" in taken.stderr
        assert shared.returncode == 4
        assert f"is in use by process {server.pid}" in shared.stderr
        assert "Traceback" not in taken.stderr + shared.stderr


def test_a_server_refuses_public_access_without_tls(tmp_path: Path) -> None:
    is_open = ["--port", "0", "--host", "0.0.0.0"]  # noqa: S104 - that is what is refused
    for refused in refusals(tmp_path, is_open, ["--port", "0", "--tls-cert", "cert.pem"]):
        assert refused.returncode == 2
        assert "--tls-key" in refused.stderr
    assert not (tmp_path / ".mainspring").exists()


def test_with_tls_a_server_can_require_a_token(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with ServerCluster(tmp_path) as cluster:
        token = create_token(cluster.store_url, "first", ["admin"])
        server = cluster.server(
            "--require-token", "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")
        )
        assert server.address.startswith("https://")
        url = f"{server.address}/api/v1/server"
        assert get(url, verify=trusting).status_code == 401
        assert get(url, verify=trusting, headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_invalid_options_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    named = {
        "certificate": ["--tls-cert", "none.pem", "--tls-key", "none.pem"],
        "sqlite:///": ["--store", "mysql://127.0.0.1/x"],
        "directory of the store": ["--store", "sqlite:///file/store.db"],
        "--data-dir": ["--store", "sqlite:///own/store.db", "--data-dir", "file/logs"],
    }
    answers = refusals(tmp_path, *(["--port", "0", *options] for options in named.values()))
    for word, refused in zip(named, answers, strict=True):
        assert refused.returncode == 4
        assert word in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_second_signal_stops_it_at_once(tmp_path: Path) -> None:
    with ServerCluster(tmp_path) as cluster:
        server = cluster.server()
        with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2]))) as slow:
            slow.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
            assert get(f"{server.address}/healthz").status_code == 200
            server.signal(signal.SIGTERM)
            until(lambda: "server.stopping" in server.log.read_text(), "it begins to stop")
            server.signal(signal.SIGTERM)
            assert server.ended() == 128 + signal.SIGTERM


async def test_a_server_survives_a_temporary_store_outage(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "proxy").mkdir()
    async with proxied(postgres_url, tmp_path / "proxy") as (url, proxy):
        with ServerCluster(tmp_path, url) as cluster:
            server = await asyncio.to_thread(cluster.server)
            await becomes(server, 200)
            proxy.swallow = True
            await becomes(server, 503)
            assert (await asyncio.to_thread(get, f"{server.address}/healthz")).status_code == 200
            proxy.swallow = False
            await proxy.close()
            await becomes(server, 200)
            server.signal(signal.SIGTERM)
            assert await asyncio.to_thread(server.ended) == 0


async def becomes(server: Server, status: int) -> None:
    url = f"{server.address}/readyz"
    await asyncio.to_thread(until, lambda: get(url).status_code == status, f"readyz answers {status}")
