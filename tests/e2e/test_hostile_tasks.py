"""Attacks by tasks: each isolation level blocks them, or docs/guides/isolation.md documents that it does not.

Real tasks on real workers, one for each level. During each attack another task on the same worker has to succeed, and
afterwards the worker still takes tasks. When run as root, the workers of the upper levels have a task user.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from mainspring.client.client import Client
from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.lifecycle.failures import Failure, classify
from mainspring.protocol.rest.runs import RunView, TaskView
from mainspring.worker.sandbox.cgroups import find_cgroups
from tests.e2e.cluster import Json, Process, Server, ServerCluster, ended, in_state, submit, tasks_of, until
from tests.folder.unprivileged import shared_folder

LEVELS = ["none", "process", "sandbox"]
IS_ROOT = os.geteuid() == 0
HAS_USER = {"none": False, "process": IS_ROOT, "sandbox": IS_ROOT}
"""Whether tasks run as a different user than their worker."""
MOST_PROCESSES = 64
BOMB = 150


class NeighborTask(NamedTuple):
    """A task that runs beside an attack."""

    files: Path
    task: str


class IsolationCluster:
    """A cluster with a worker for each isolation level."""

    def __init__(self, cluster: ServerCluster) -> None:
        self.cluster = cluster
        self.server: Server = cluster.server()
        self.workers: dict[str, Process] = {level: self._worker(level) for level in LEVELS}
        self.client: Client = self.server.client()
        trial = find_cgroups("mainspring-hostile-trial")
        if trial is not None:
            trial.end()
        self.has_cgroups = trial is not None

    def attack(self, level: str, text: str, *, memory_bytes: int = 0, **work: object) -> RunView:
        """Start a task at a level."""
        task = {"name": "attack", "work": {"shell": text, **work}, "max_attempts": 1}
        return submit(self.client, self.job(level, {**task, "resources": {"memory_bytes": memory_bytes}}))

    def job(self, level: str, task: Json) -> Json:
        """A job of one task, for the worker of a level."""
        return {"name": f"hostile-{level}", "tasks": [{**task, "labels": {"at": level}}]}

    def log(self, run: RunView) -> str:
        """The output of a run's task."""
        return b"".join(self.client.follow_log(self.task(run).id)).decode(errors="replace")

    def task(self, run: RunView) -> TaskView:
        """The task of a run."""
        (task,) = tasks_of(self.client, run.id)
        return task

    def files_of(self, level: str, run: RunView) -> Path:
        """The directory of a run's active attempt."""
        (task,) = in_state(self.client, run.id, "RUNNING", 1)
        attempt = self.client.attempts(task.id)[-1].id
        return self.cluster.state_of(level) / "attempts" / attempt

    def error(self, run: RunView) -> Failure:
        """The error of a run's task."""
        return classify(bytes(self.task(run).error).decode())

    @contextlib.contextmanager
    def neighbor(self, level: str) -> Iterator[NeighborTask]:
        """A concurrent task, which has to succeed."""
        text = "echo canary > file; touch ready; while [ ! -e go ]; do sleep 0.05; done"
        run = self.attack(level, text)
        files = self.files_of(level, run)
        until((files / "work" / "ready").exists, "the neighbour runs")
        try:
            yield NeighborTask(files, self.task(run).id)
        finally:
            (files / "work" / "go").touch()
            assert ended(self.client, run.id).state == "SUCCEEDED"
        after = self.attack(level, "echo fine")
        assert ended(self.client, after.id).state == "SUCCEEDED"

    def _worker(self, level: str) -> Process:
        options = ["--task-processes", str(MOST_PROCESSES), "--isolation", level, "--label", f"at={level}"]
        if HAS_USER[level]:
            options += ["--task-user", "nobody"]
        return self.cluster.worker(self.server, name=level, extra=options)


@pytest.fixture(scope="module")
def isolation() -> Iterator[IsolationCluster]:
    """Workers of all levels, in a directory that every user can access."""
    with shared_folder() as folder, ServerCluster(folder) as cluster:
        isolation = IsolationCluster(cluster)
        with isolation.client:
            yield isolation


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    """Each level."""
    return str(request.param)


def marked(isolation: IsolationCluster, level: str, words: str) -> list[psutil.Process]:
    """Descendants of a level's supervisor with these words in their command line."""
    found = []
    for supervisor in isolation.cluster.supervisors(level):
        for process in supervisor.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if words in " ".join(process.cmdline()):
                    found.append(process)
    return found


def test_a_fork_bomb(isolation: IsolationCluster, level: str) -> None:
    """Blocked with cgroups or a task user; in any case no process is left when the task has ended."""
    with isolation.neighbor(level):
        run = isolation.attack(level, f"for i in $(seq {BOMB}); do sleep 61 & done; echo bombed")
        end = ended(isolation.client, run.id)
        assert not marked(isolation, level, "sleep 61")
        is_blocked = level != "none" and (isolation.has_cgroups or HAS_USER[level])
        assert end.state == ("FAILED" if is_blocked else "SUCCEEDED")
        if is_blocked and isolation.has_cgroups:
            assert "process limit reached" in isolation.error(run).message


def test_a_memory_hog(isolation: IsolationCluster, level: str) -> None:
    """Must show 1 and 2: killed at its limit with a specific error; unlimited at level `none`."""
    hog = "python3 -c 'print(len(bytearray(200 << 20)))'"
    with isolation.neighbor(level):
        run = isolation.attack(level, hog, memory_bytes=64 << 20)
        end = ended(isolation.client, run.id)
    assert end.state == ("SUCCEEDED" if level == "none" else "FAILED"), isolation.log(run)
    if level != "none" and isolation.has_cgroups:
        error = isolation.error(run)
        assert (error.type, error.kind) == ("OutOfMemory", FailureClass.RESOURCE)


def test_out_of_memory_is_retried_with_more_memory(isolation: IsolationCluster) -> None:
    """Must show 2: 96 MB in 64 MB is killed, in 128 MB it succeeds."""
    hog = "python3 -c 'print(len(bytearray(96 << 20)))'"
    task = {
        "name": "hungry", "work": {"shell": hog}, "resources": {"memory_bytes": 64 << 20}, "retry_delay_seconds": 0.1,
    }  # fmt: skip
    run = submit(isolation.client, isolation.job("process", task))
    assert ended(isolation.client, run.id).state == "SUCCEEDED"
    attempts = isolation.client.attempts(isolation.task(run).id)
    assert len(attempts) == 2
    first = classify(bytes(attempts[0].error).decode())
    assert first.type == ("OutOfMemory" if isolation.has_cgroups else "Exit")
    assert isolation.log(run).strip() == str(96 << 20)


def test_a_log_flood(isolation: IsolationCluster, level: str) -> None:
    """At every level, output beyond the cap is dropped and counted."""
    with isolation.neighbor(level):
        run = isolation.attack(level, "yes 'a useless line of output' | head -c 60000000; echo end")
        assert ended(isolation.client, run.id).state == "SUCCEEDED"
    log = isolation.log(run)
    assert len(log) < 17 * 1024 * 1024
    assert "the log is full" in log[-200:]


def test_a_process_that_leaves_its_session_and_clears_its_environment(isolation: IsolationCluster, level: str) -> None:
    """Ended with its task, with cgroups or a sandbox; otherwise when no other task runs on the worker."""
    with isolation.neighbor(level):
        escape = "env -i setsid sh -c '(setsid sleep 62 &)' & sleep 0.3; echo left"
        run = isolation.attack(level, escape)
        assert ended(isolation.client, run.id).state == "SUCCEEDED"
        is_blocked = level == "sandbox" or (level == "process" and isolation.has_cgroups)
        assert bool(marked(isolation, level, "sleep 62")) is not is_blocked
    until(lambda: not marked(isolation, level, "sleep 62"), "it is gone when nothing else runs")


def test_a_process_that_ignores_signals(isolation: IsolationCluster, level: str) -> None:
    """At every level it is killed with its children after the grace period."""
    loop = "while :; do sleep 63; done"
    stubborn = f"trap '' TERM INT HUP; (trap '' TERM; {loop}) & touch ready; {loop}"
    with isolation.neighbor(level):
        run = isolation.attack(level, stubborn, grace_seconds=0.3)
        files = isolation.files_of(level, run)
        until((files / "work" / "ready").exists, "it runs")
        isolation.client.cancel_run(run.id)
        assert ended(isolation.client, run.id).state == "CANCELLED"
        assert not marked(isolation, level, "sleep 63")


def test_the_memory_and_the_environment_of_agent_and_guard(isolation: IsolationCluster, level: str) -> None:
    """Inaccessible from level `process` on, unless tasks are root; invisible in a sandbox."""
    (supervisor,) = isolation.cluster.supervisors(level)
    text = "".join(
        f"for file in environ maps fd/0; do head -c1 /proc/{pid}/$file >/dev/null 2>&1 && echo open {name} $file; done;"
        for name, pid in (("guard", supervisor.pid), ("agent", isolation.workers[level].pid))
    )
    with isolation.neighbor(level):
        run = isolation.attack(level, text + "true")
        ended(isolation.client, run.id)
    assert ("open" in isolation.log(run)) is (level == "none")


def test_the_database_of_the_server(isolation: IsolationCluster, level: str) -> None:
    """Inaccessible to another user and in a sandbox; accessible to the server's own user."""
    database = isolation.cluster.folder / "store" / "mainspring.db"
    assert database.exists()
    with isolation.neighbor(level):
        run = isolation.attack(level, f"head -c 15 {database}; (echo x >> {database}.mine) && echo wrote")
        ended(isolation.client, run.id)
    is_open = level == "none" or (level == "process" and not HAS_USER[level])
    assert ("SQLite format" in isolation.log(run)) is is_open
    assert ("wrote" in isolation.log(run)) is is_open


def test_the_state_of_the_worker_and_the_files_of_a_neighbour(isolation: IsolationCluster, level: str) -> None:
    """The worker's files are inaccessible to another user; tasks of one user see each other's, except in a sandbox."""
    state = isolation.cluster.state_of(level)
    with isolation.neighbor(level) as other:
        run = isolation.attack(level, f"cat {state}/supervisor.json; cat {other.files}/work/file {other.files}/token")
        ended(isolation.client, run.id)
    log = isolation.log(run)
    is_open = level == "none" or (level == "process" and not HAS_USER[level])
    assert ("task_processes" in log) is is_open
    assert ("canary" in log) is (level != "sandbox")


def test_the_api_with_its_token_about_another_attempt(isolation: IsolationCluster, level: str) -> None:
    """At every level, a token is valid for its own attempt only."""
    asked = f"""
    for task in $MAINSPRING_TASK_ID $OTHER; do
        curl -s -o /dev/null -w '%{{http_code}}\n' -H "Authorization: Bearer $(cat $MAINSPRING_TOKEN_FILE)" \\
            {isolation.server.address}/api/v1/tasks/$task
    done
    """
    with isolation.neighbor(level) as other:
        run = isolation.attack(level, asked, network=True, env={"OTHER": other.task})
        ended(isolation.client, run.id)
    assert isolation.log(run).split() == ["200", "404"]


def test_services_on_the_loopback(isolation: IsolationCluster, level: str) -> None:
    """Reachable from every level except a sandbox, unless its task requests network access."""
    with socket.socket() as service, isolation.neighbor(level):
        service.bind(("127.0.0.1", 0))
        service.listen()
        call = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {service.getsockname()[1]}), 3)'"
        run = isolation.attack(level, f"{call} 2>/dev/null && echo reached")
        ended(isolation.client, run.id)
        declared = isolation.attack(level, f"{call} && echo reached", network=True)
        ended(isolation.client, declared.id)
    assert ("reached" in isolation.log(run)) is (level != "sandbox")
    assert "reached" in isolation.log(declared)


def test_every_worker_reports_its_isolation_levels(isolation: IsolationCluster) -> None:
    """In its labels; a task that requests a higher level than the worker's default gets it."""
    offered = {worker.id: worker.labels for worker in isolation.client.workers() if worker.id in LEVELS}
    for level in LEVELS:
        assert offered[level]["isolation/process"] in ("cgroup-v2", "cgroup-v1", "rlimits")
        assert offered[level]["isolation/sandbox"] == "bubblewrap"
    task = {"name": "anti_affinity", "work": {"shell": "ls -d /proc/[0-9]* | wc -l", "isolation": "sandbox"}}
    run = submit(isolation.client, isolation.job("none", task))
    assert ended(isolation.client, run.id).state == "SUCCEEDED"
    assert int(isolation.log(run)) < 10


def test_root_is_refused_unless_allowed() -> None:
    """Never as root unless allowed (WRK-4). An unprivileged user is refused options that need root."""
    command = [sys.executable, "-m", "mainspring.cli.main", "worker", "--server", "http://127.0.0.1:1"]
    words = [] if IS_ROOT else ["--task-user", "nobody"]
    said = subprocess.run([*command, *words], capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == (2 if IS_ROOT else 4)
    assert ("--as-root" if IS_ROOT else "nobody requires root") in said.stderr
