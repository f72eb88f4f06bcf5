"""`mainspring smoke` against real servers with real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mainspring.protocol.rest.runs import TokenRequest
from mainspring.protocol.rest.sharing import FreezeRequest
from mainspring.smoke.trial import SmokeReport
from tests.cli.terminal import Terminal
from tests.e2e.cluster import Server, ServerCluster, until

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the workers w1 and w2; w2 offers more than its machine has."""
    with ServerCluster(tmp_path_factory.mktemp("town")) as cluster:
        server = cluster.server()
        cluster.worker(server, name="w1", cpu=1, extra=("--zone", "eu-1", "--label", "disk=fast"))
        cluster.worker(server, name="w2", cpu=4_000, extra=("--zone", "us-1", "--gpus", "1"))
        yield server


@pytest.fixture
def frozen_server(server: Server) -> Iterator[Server]:
    """The server, with everything frozen."""
    with server.client() as client:
        client.freeze(FreezeRequest(kind="all", why="a drill"))
        yield server
        client.unfreeze("all")


def smoke(server: Server, *options: str) -> tuple[int, SmokeReport]:
    """Return the exit code and the report."""
    result = Terminal().call("smoke", "--server", server.address, "-o", "json", *options)
    assert result.stdout, result.stderr
    return result.exit_code, msgspec.json.decode(result.stdout, type=SmokeReport)


def left_behind(server: Server) -> list[str]:
    """Return the runs, jobs and groups that were not cleaned up."""
    with server.client("smoke") as client:
        runs = [run.id for run in client.runs() if run.state not in {"SUCCEEDED", "CANCELLED"}]
        return [*runs, *(job.name for job in client.jobs()), *(group.name for group in client.groups())]


def test_every_placement_is_checked_and_nothing_is_left_behind(server: Server, home: Path) -> None:
    """This includes a worker that offers more than its machine has."""
    code, report = smoke(server, "--tasks", "24")
    strict, again = smoke(server, "--tasks", "3", "--strict")
    until(lambda: left_behind(server) == [], "everything is cleaned up")

    assert (code, report.violations, report.is_timed_out) == (0, [], False)
    assert (report.tasks, report.passed, report.tenant, report.pool) == (24, 24, "smoke", "default")
    kinds = {line.kind: line.workers for line in report.kinds}
    assert (kinds["label"], kinds["gpu"], kinds["large"], kinds["never"]) == (1, 1, 1, 0)
    assert set(report.skipped) == {"p0"}
    assert any("w2" in note and "4000" in note for note in report.notes)
    assert (strict, [(one.kind, one.worker) for one in again.violations]) == (1, [("machine", "w2")])


def test_tasks_that_do_not_start_in_time_are_explained_and_cancelled(frozen_server: Server, home: Path) -> None:
    code, report = smoke(frozen_server, "--tasks", "2", "--timeout", "2s")

    assert (code, report.is_timed_out, report.passed) == (124, True, 0)
    assert all("a drill" in one.why for one in report.violations), report.violations
    until(lambda: left_behind(frozen_server) == [], "everything is cleaned up")


def test_ctrl_c_cleans_up(frozen_server: Server, home: Path) -> None:
    words = [sys.executable, "-m", "mainspring.cli.main", "smoke", "--server", frozen_server.address, "--tasks", "4"]
    process = subprocess.Popen(words, env=os.environ, stdout=subprocess.PIPE, start_new_session=True)
    try:
        with frozen_server.client("smoke") as client:
            until(lambda: sum(run.task_count for run in client.runs(states=["RUNNING"])) == 4, "all tasks exist")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
    until(lambda: left_behind(frozen_server) == [], "everything is cleaned up")


def test_nothing_is_submitted_without_permission_to_cancel(frozen_server: Server, home: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    with frozen_server.client() as client:
        token.write_text(client.create_token(TokenRequest(name="bot", roles=["submitter"], tenant="acme")).token or "")
    for options in (["-t", "acme"], []):
        refused = Terminal().call("smoke", "--server", frozen_server.address, "--token-file", token, *options)
        assert refused.exit_code == 3, refused.stderr
        assert f"the role operator for tenant {options[1] if options else 'smoke'}" in refused.stderr
    with frozen_server.client("acme") as acme:
        assert list(acme.jobs()) == []


def test_nothing_is_submitted_without_a_schedulable_worker(frozen_server: Server, home: Path) -> None:
    with frozen_server.client() as client:
        for worker in ("w1", "w2"):
            client.cordon(worker)
        try:
            idle = Terminal().call("smoke", "--server", frozen_server.address)
        finally:
            for worker in ("w1", "w2"):
                client.uncordon(worker)

    assert idle.exit_code == 4
    assert "pool default" in idle.stderr
    assert left_behind(frozen_server) == []
