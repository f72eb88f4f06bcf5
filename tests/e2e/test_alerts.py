"""`mainspring server --alerts`: from the outbox of a real server to its channels."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import cast

import msgspec
import pytest

from mainspring.app.build import POOL, open_store
from mainspring.core.model.alerts import Alert, AlertKind, Severity, alert_row
from mainspring.core.model.batch import Batch
from mainspring.core.model.notices import Notice
from mainspring.protocol.clock import SystemClock
from tests.e2e.cluster import ServerCluster
from tests.notify.servers import http_server, smtp_server

CHANNELS = """
channels:
  - name: ops
    kind: webhook
    url: http://127.0.0.1:{port}/hook
    allow_private: true
    secret: env:OPS_SECRET
  - name: mail
    kind: email
    smtp: 127.0.0.1:{smtp_port}
    tls: none
    from: mainspring@test.example
    to: [ops@test.example]
  - name: chat
    kind: apprise
    url: env:CHAT_URL
"""


async def leave_alert(url: str) -> None:
    """A server of this store raised an alert, and has stopped."""
    store = await open_store(url, SystemClock())
    try:
        await store.ensure_shard(POOL)
        term = await store.campaign(POOL, "gone", 77, timedelta(seconds=1))
        assert term is not None
        alert = Alert(
            kind=AlertKind.QUARANTINED,
            key="quarantined:task_1",
            severity=Severity.HIGH,
            tenant="acme",
            summary="load is held",
            details={"run": "run_1"},
            at=term.granted_at,
        )
        await store.commit(term, term.batch_no + 1, Batch(outbox=[alert_row(alert, "task_1")]))
        await store.release(term)
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> ServerCluster:
    """A cluster on each store."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return ServerCluster(tmp_path, url)


async def test_an_alert_in_the_store_reaches_the_channels_of_the_next_server(
    tmp_path: Path, cluster: ServerCluster
) -> None:
    """With that server's address, and without secrets in its log."""
    with cluster:
        await leave_alert(cluster.store_url)
        async with http_server() as http, smtp_server() as smtp:
            http.status = "200 OK"
            (tmp_path / "alerts.yaml").write_text(CHANNELS.format(port=http.port, smtp_port=smtp.port))
            secrets = {"OPS_SECRET": "a-long-secret", "CHAT_URL": f"json://127.0.0.1:{http.port}/a-long-secret"}
            server = await asyncio.to_thread(
                cluster.server, "--alerts", str(tmp_path / "alerts.yaml"), environment=secrets
            )
            requests = {request.line: request for request in (await http.next(), await http.next())}
            mail = await smtp.next()

        notice = msgspec.json.decode(requests["POST /hook HTTP/1.1"].body, type=Notice)
        assert (notice.kind, notice.tenant, notice.summary) == (AlertKind.QUARANTINED, "acme", "load is held")
        assert notice.link == f"{server.address}/api/v1/runs/run_1"
        assert b"[HIGH] load is held" in requests["POST /a-long-secret HTTP/1.1"].body
        assert b"Subject: [HIGH] load is held" in cast("bytes", mail.content)
        log = server.log.read_text()
        assert "load is held" in log
        assert "a-long-secret" not in log


def test_a_server_does_not_start_with_invalid_channels(tmp_path: Path) -> None:
    """It reports the position of the errors, and changes nothing."""
    (tmp_path / "alerts.yaml").write_text(CHANNELS.format(port=99_999, smtp_port=25))
    refused = subprocess.run(
        [sys.executable, "-m", "mainspring.cli.main", "server", "--port", "0", "--alerts", "alerts.yaml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert refused.returncode == 2
    assert "alerts.yaml:5:5: channels[0].url: must be https://.. or http://.." in refused.stderr
    assert "alerts.yaml:7:5: channels[0].secret: environment variable OPS_SECRET" in refused.stderr
    assert "alerts.yaml:16:5: channels[2].url: environment variable CHAT_URL" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / ".mainspring").exists()
