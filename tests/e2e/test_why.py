"""`why` with real servers, workers and processes (issue 'Why', 'Must show' 1 and 2)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.client.client import Client
from mainspring.host.host import LEASE
from mainspring.protocol.rest.diagnosis import DiagnosisView
from tests.e2e.cluster import Server, ServerCluster, ended, in_state, tasks_of, until
from tests.e2e.test_sharing import job, leader_first, start, waiting_for


def why(server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command, and return its output."""
    command = [sys.executable, "-m", "mainspring.cli.main", "why", *words, "--server", server.address]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def verdict_on(client: Client, task: str, reason: str) -> DiagnosisView:
    """The leader's diagnosis of a task, once it waits for this reason, with suggested actions."""

    def ask() -> DiagnosisView | None:
        found = client.diagnosis("tasks", task)
        return found if found.reason == reason and found.by == "leader" and found.suggestions else None

    return until(ask, f"{task} waits for {reason}, and something can be done")


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str) -> Iterator[ServerCluster]:
    """A cluster on PostgreSQL."""
    with ServerCluster(tmp_path, postgres_url) as one:
        yield one


def test_unschedulable_tasks_never_start_and_queued_tasks_get_advice(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with ServerCluster(tmp_path) as cluster:
        server = cluster.server()
        cluster.worker(server, name="one", cpu=1)
        with server.client() as client:
            client.submit_job(job("thumbs", {"shell": "exit 0"}, labels={"gpu": "a100"}))
            thumbs = client.submit("thumbs").id
            (gpu,) = in_state(client, thumbs, "QUEUED", 1)
            until(lambda: _is_never(client.diagnosis("tasks", gpu.id)), "no other worker is expected")

            running = start(client, job("busy", waiting_for(gate)))
            in_state(client, running, "RUNNING", 1)
            waiting = start(client, job("next", {"shell": "exit 0"}))
            (task,) = in_state(client, waiting, "QUEUED", 1)
            found = verdict_on(client, task.id, "NO_WORKER_CAPACITY")
            more = client.what_if(task.id, ["one more worker of 8 cores"])
            text = why(server, "thumbs/thumbs")
            checks = [why(server, name, "--check").returncode for name in ("thumbs", "busy")]
            sums = {one.reason: one.tasks for one in client.queue_reasons().reasons}
            cluster.worker(server, name="two", cpu=8)
            assert ended(client, waiting).state == "SUCCEEDED"
            over = client.diagnosis("runs", waiting)
            gate.touch()
            client.cancel_run(thumbs)

    assert text.stdout.startswith("NO_MATCHING_WORKER  default/thumbs/thumbs, QUEUED for ")
    assert "  expected    will never start: no worker offers gpu=a100" in text.stdout
    assert (text.returncode, text.stderr) == (0, "")
    assert checks == [1, 0]
    assert [gate.name for gate in found.gates if gate.passed == "holding"]
    assert more.starts_now
    assert sums == {"NO_MATCHING_WORKER": 1, "NO_WORKER_CAPACITY": 1}
    assert (over.reason, over.state) == (None, "SUCCEEDED")


def test_while_the_leader_is_suspended_another_server_reports_the_age_and_no_advice(cluster: ServerCluster) -> None:
    """SIGSTOP: first the diagnosis comes from rows, and after the failover from the next leader."""
    first, second = leader_first(*cluster.servers(2))
    cluster.worker(first, second, name="one", cpu=1)
    with first.client() as client:
        client.submit_job(job("thumbs", {"shell": "exit 0"}, labels={"gpu": "a100"}))
        run = client.submit("thumbs").id
        in_state(client, run, "QUEUED", 1)
        (task,) = tasks_of(client, run)
        before = verdict_on(client, task.id, "NO_MATCHING_WORKER")

    first.signal(signal.SIGSTOP)
    asked: list[DiagnosisView] = []
    with Client(second.address, retry_timeout_seconds=0.0) as client:

        def ask() -> bool:
            asked.append(client.diagnosis("tasks", task.id))
            return asked[-1].by == "leader"

        until(ask, "another server leads")
        after = verdict_on(client, task.id, "NO_MATCHING_WORKER")
    first.signal(signal.SIGCONT)

    unled = [one for one in asked if one.by == "rows"]
    assert unled
    # The lease of a suspended leader expires after 5 s.
    assert unled[0].reason == "SCHEDULER_LAG"
    assert " is silent " in unled[0].verdict
    assert 0 < unled[0].age_seconds < LEASE.total_seconds()
    for one in unled:
        assert one.reason in {"SCHEDULER_LAG", "UNKNOWN"}
        assert (one.suggestions, one.blockers) == ([], [])
        assert "gpu" not in one.verdict
    assert after.batch is not None
    assert before.batch is not None
    assert after.batch >= before.batch
    assert after.at > before.at


def _is_never(found: DiagnosisView) -> bool:
    return found.expected is not None and found.expected.kind == "never"
