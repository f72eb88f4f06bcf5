"""HTTP workers against real servers whose leader is killed: no run is lost or duplicated."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import msgspec

from mainspring.client.client import Client
from mainspring.protocol.errors import AttemptOver, ClaimExpired, Unavailable
from mainspring.protocol.rest.claims import ClaimRequest, CompleteRequest, HeartbeatRequest, StartRequest
from tests.e2e.cluster import ServerCluster, until
from tests.e2e.test_sharing import kill_leader, leader_first

RUNS = 120
WORKERS = 3
JOB = {"name": "http-drain", "tasks": [{"name": "step", "max_attempts": 5}]}


class HttpWorker:
    """A randomly unreliable HTTP worker."""

    def __init__(self, name: str, servers: list[str], over: Event) -> None:
        self.name = name
        self.applied: Counter[str] = Counter()
        """Number of completions, by task."""
        self._servers = servers
        self._over = over
        self._random = random.Random(name)

    def work(self) -> None:
        """Run until all is done. If a server does not respond, use another."""
        while not self._over.is_set():
            try:
                with Client(server=self._random.choice(self._servers), timeout_seconds=10) as client:
                    self._work(client)
            except Unavailable:
                continue

    def _work(self, client: Client) -> None:
        claim = ClaimRequest(worker_id=self.name, max_claims=5, claim_duration_seconds=2, wait_seconds=1)
        for run in client.claim_runs(claim):
            if self._random.random() < 0.1:
                continue  # it loses its claim
            try:
                self._finish(client, run.run_id, run.task_id)
            except (ClaimExpired, AttemptOver):
                continue  # it was too slow, or the response to its first attempt was lost

    def _finish(self, client: Client, run: str, task: str) -> None:
        client.start_claimed_run(run, StartRequest(worker_id=self.name))
        client.heartbeat_claimed_run(run, HeartbeatRequest(progress_percentage=50, checkpoint=msgspec.Raw(b"[1]")))
        result = CompleteRequest(result_summary=msgspec.Raw(b"1"))
        client.complete_claimed_run(run, result)
        self.applied[task] += 1
        if self._random.random() < 0.3:
            client.complete_claimed_run(run, result)  # sent twice, applied once


def test_each_run_executes_once_while_leaders_are_killed(tmp_path: Path, postgres_url: str) -> None:
    with ServerCluster(tmp_path, postgres_url) as cluster:
        servers = leader_first(*cluster.servers(2, "--set", "claim_heartbeat_timeout_seconds=5"))
        over = Event()
        workers = [HttpWorker(f"drainer-{n}", [one.address for one in servers], over) for n in range(WORKERS)]
        with servers[1].client() as client, ThreadPoolExecutor(WORKERS) as pool:
            job = client.submit_job(JOB)
            for _ in range(RUNS):
                client.submit(job.id)
            working = [pool.submit(one.work) for one in workers]
            try:
                until(lambda: sum(sum(one.applied.values()) for one in workers) > RUNS // 5, "some are done")
                kill_leader(servers[0])
                until(lambda: client.count_runs(states=["SUCCEEDED"], exact=True).value >= RUNS, "all are done")
            finally:
                over.set()
            for one in working:
                one.result()
            tasks = list(client.tasks(name="step"))
            attempts = [attempt for task in tasks for attempt in client.attempts(task.id)]

    ends = Counter(attempt.end for attempt in attempts)
    applied = sum((one.applied for one in workers), Counter[str]())
    assert [task.state for task in tasks] == ["SUCCEEDED"] * RUNS
    assert ends["succeeded"] == RUNS
    assert set(applied.values()) == {1}
