"""`mainspring doctor` against real servers with problems."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

from mainspring.doctor.health_check import Answer, Check, Report
from mainspring.protocol.rest.sharing import FreezeRequest
from tests.cli.terminal import Terminal
from tests.e2e.cluster import Server, ServerCluster, submit, until

pytestmark = pytest.mark.processes

WORK = {"name": "etl", "tasks": [{"name": "load", "work": {"run": ["true"]}, "labels": {"gpu": "a100"}}]}


def ask(server: Server, *options: str) -> tuple[int, Report]:
    """Return the exit code and the report."""
    result = Terminal().call("doctor", "--server", server.address, "-o", "json", *options)
    assert result.stdout, result.stderr
    return result.exit_code, msgspec.json.decode(result.stdout, type=Report)


def wrong(report: Report) -> dict[str, Check]:
    """Return the failed checks by their codes."""
    return {check.code: check for check in report.checks if check.answer is Answer.NO}


def test_problems_are_found_and_gone_after_the_suggested_fix(tmp_path: Path, home: Path) -> None:
    """A frozen pool without workers, an unplaceable task, and finally an unresponsive server."""
    with ServerCluster(tmp_path / "town") as cluster:
        server = cluster.server()
        _find_what_is_wrong(cluster, server)
        _see_from_here(cluster, server)


def _find_what_is_wrong(cluster: ServerCluster, server: Server) -> None:
    with server.client() as client, server.client("acme") as acme:
        client.freeze(FreezeRequest(kind="pool", subject="default", why="the racks are moved"))
        run = submit(acme, WORK)
        until(lambda: sum(client.queue().waiting.values()), "it waits")

        code, report = ask(server)
        found = wrong(report)
        assert code == 1
        assert report.problems == len(found)
        assert found["pool_freeze.frozen"].command == "mainspring unfreeze pool default"
        assert '"the racks are moved"' in found["pool_freeze.frozen"].finding
        assert found["pool_workers.none_ready"].command == f"mainspring worker --server {server.address}"

        told = Terminal().call("doctor", "--server", server.address)
        lines = [line.strip() for line in told.stdout.splitlines()]
        assert told.exit_code == 1
        assert any(
            line.startswith(f"✗ {found['pool_freeze.frozen'].question}") and '"the racks are moved"' in line
            for line in lines
        )
        assert "mainspring unfreeze pool default" in lines
        assert f"{len(found)} problems found" in lines[-1]

        client.unfreeze("pool", "default")
        cluster.worker(server, name="w1")
        until(lambda: set(wrong(ask(server)[1])) == {"queue_reasons.never_start"}, "one thing is left")
        _, of_tenant = ask(server, "-t", "acme")
        assert "gpu=a100" in wrong(of_tenant)["feasibility.no_worker"].finding

        acme.cancel_run(run.id)
        until(lambda: ask(server, "-t", "acme")[0] == 0, "nothing is wrong any more")


def _see_from_here(cluster: ServerCluster, server: Server) -> None:
    """A stopped process is reported with the signal that continues it; a killed one as gone."""
    server.signal(signal.SIGSTOP)

    code, stopped = ask(server, "--store", cluster.store_url)
    assert (code, stopped.is_reached, stopped.version) == (3, False, None)
    process = wrong(stopped)["process.stopped"]
    assert process.command == f"kill -CONT {server.pid}"

    server.kill()
    code, gone = ask(server, "--store", cluster.store_url)
    assert code == 3
    assert f"process {server.pid} " in wrong(gone)["process.exited"].finding
    assert "port.closed" in wrong(gone)


def test_a_dead_leader_is_reported_until_failover(tmp_path: Path, home: Path, postgres_url: str) -> None:
    with ServerCluster(tmp_path / "town", postgres_url) as cluster:
        first = cluster.server()
        second = cluster.server()
        with first.client() as client:
            (leader,) = {pool.leader for pool in client.pools()}
            was, other = (first, second) if client.server().name == leader else (second, first)

        was.kill()
        found = until(lambda: _lost(other, leader), "it is said that the leader is gone", 20)
        assert leader in found.finding

        until(lambda: ask(other)[0] == 0, "the other one has taken over")


def _lost(server: Server, leader: str) -> Check | None:
    failed = wrong(ask(server)[1]).items()
    found = next((check for code, check in failed if code.startswith("pool_leader.")), None)
    return found if found is not None and leader in found.finding else None


def test_an_unknown_pool_is_not_found(terminal: Terminal) -> None:
    result = terminal.call("doctor", "--pool", "nowhere")

    assert (result.exit_code, result.stdout) == (5, "")
    assert "nowhere" in result.stderr
