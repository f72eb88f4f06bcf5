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
from tests.e2e.town import Json, Process, Server, Town, ended, in_state, submit, tasks_of, until
from tests.folder.rights import shared_folder

LEVELS = ["none", "process", "sandbox"]
IS_ROOT = os.geteuid() == 0
HAS_USER = {"none": False, "process": IS_ROOT, "sandbox": IS_ROOT}
"""Whether tasks run as a different user than their worker."""
MOST_PROCESSES = 64
BOMB = 150


class Neighbour(NamedTuple):
    """A task that runs beside an attack."""

    files: Path
    task: str


class Arena:
    """A cluster with a worker for each isolation level."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.server: Server = town.server()
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
        return self.town.state_of(level) / "attempts" / attempt

    def error(self, run: RunView) -> Failure:
        """The error of a run's task."""
        return classify(bytes(self.task(run).error).decode())

    @contextlib.contextmanager
    def neighbour(self, level: str) -> Iterator[Neighbour]:
        """A concurrent task, which has to succeed."""
        text = "echo canary > file; touch ready; while [ ! -e go ]; do sleep 0.05; done"
        run = self.attack(level, text)
        files = self.files_of(level, run)
        until((files / "work" / "ready").exists, "the neighbour runs")
        try:
            yield Neighbour(files, self.task(run).id)
        finally:
            (files / "work" / "go").touch()
            assert ended(self.client, run.id).state == "SUCCEEDED"
        after = self.attack(level, "echo fine")
        assert ended(self.client, after.id).state == "SUCCEEDED"

    def _worker(self, level: str) -> Process:
        options = ["--task-processes", str(MOST_PROCESSES), "--isolation", level, "--label", f"at={level}"]
        if HAS_USER[level]:
            options += ["--task-user", "nobody"]
        return self.town.worker(self.server, name=level, extra=options)


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    """Workers of all levels, in a directory that every user can access."""
    with shared_folder() as folder, Town(folder) as town:
        arena = Arena(town)
        with arena.client:
            yield arena


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    """Each level."""
    return str(request.param)


def marked(arena: Arena, level: str, words: str) -> list[psutil.Process]:
    """Descendants of a level's supervisor with these words in their command line."""
    found = []
    for guard in arena.town.guards(level):
        for process in guard.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if words in " ".join(process.cmdline()):
                    found.append(process)
    return found


def test_a_fork_bomb(arena: Arena, level: str) -> None:
    """Blocked with cgroups or a task user; in any case no process is left when the task has ended."""
    with arena.neighbour(level):
        run = arena.attack(level, f"for i in $(seq {BOMB}); do sleep 61 & done; echo bombed")
        end = ended(arena.client, run.id)
        assert not marked(arena, level, "sleep 61")
        is_held_off = level != "none" and (arena.has_cgroups or HAS_USER[level])
        assert end.state == ("FAILED" if is_held_off else "SUCCEEDED")
        if is_held_off and arena.has_cgroups:
            assert "as many processes as it may have" in arena.error(run).message


def test_a_memory_hog(arena: Arena, level: str) -> None:
    """Must show 1 and 2: killed at its limit with a specific error; unlimited at level `none`."""
    hog = "python3 -c 'print(len(bytearray(200 << 20)))'"
    with arena.neighbour(level):
        run = arena.attack(level, hog, memory_bytes=64 << 20)
        end = ended(arena.client, run.id)
    assert end.state == ("SUCCEEDED" if level == "none" else "FAILED"), arena.log(run)
    if level != "none" and arena.has_cgroups:
        error = arena.error(run)
        assert (error.type, error.kind) == ("OutOfMemory", FailureClass.RESOURCE)


def test_out_of_memory_is_retried_with_more_memory(arena: Arena) -> None:
    """Must show 2: 96 MB in 64 MB is killed, in 128 MB it succeeds."""
    hog = "python3 -c 'print(len(bytearray(96 << 20)))'"
    task = {
        "name": "hungry", "work": {"shell": hog}, "resources": {"memory_bytes": 64 << 20}, "retry_delay_seconds": 0.1,
    }  # fmt: skip
    run = submit(arena.client, arena.job("process", task))
    assert ended(arena.client, run.id).state == "SUCCEEDED"
    attempts = arena.client.attempts(arena.task(run).id)
    assert len(attempts) == 2
    first = classify(bytes(attempts[0].error).decode())
    assert first.type == ("OutOfMemory" if arena.has_cgroups else "Exit")
    assert arena.log(run).strip() == str(96 << 20)


def test_a_log_flood(arena: Arena, level: str) -> None:
    """At every level, output beyond the cap is dropped and counted."""
    with arena.neighbour(level):
        run = arena.attack(level, "yes 'a useless line of output' | head -c 60000000; echo end")
        assert ended(arena.client, run.id).state == "SUCCEEDED"
    log = arena.log(run)
    assert len(log) < 17 * 1024 * 1024
    assert "the log is full" in log[-200:]


def test_a_process_that_leaves_its_session_and_clears_its_environment(arena: Arena, level: str) -> None:
    """Ended with its task, with cgroups or a sandbox; otherwise when no other task runs on the worker."""
    with arena.neighbour(level):
        escape = "env -i setsid sh -c '(setsid sleep 62 &)' & sleep 0.3; echo left"
        run = arena.attack(level, escape)
        assert ended(arena.client, run.id).state == "SUCCEEDED"
        is_held_off = level == "sandbox" or (level == "process" and arena.has_cgroups)
        assert bool(marked(arena, level, "sleep 62")) is not is_held_off
    until(lambda: not marked(arena, level, "sleep 62"), "it is gone when nothing else runs")


def test_a_process_that_ignores_signals(arena: Arena, level: str) -> None:
    """At every level it is killed with its children after the grace period."""
    loop = "while :; do sleep 63; done"
    stubborn = f"trap '' TERM INT HUP; (trap '' TERM; {loop}) & touch ready; {loop}"
    with arena.neighbour(level):
        run = arena.attack(level, stubborn, grace_seconds=0.3)
        files = arena.files_of(level, run)
        until((files / "work" / "ready").exists, "it runs")
        arena.client.cancel_run(run.id)
        assert ended(arena.client, run.id).state == "CANCELLED"
        assert not marked(arena, level, "sleep 63")


def test_the_memory_and_the_environment_of_agent_and_guard(arena: Arena, level: str) -> None:
    """Inaccessible from level `process` on, unless tasks are root; invisible in a sandbox."""
    (guard,) = arena.town.guards(level)
    text = "".join(
        f"for file in environ maps fd/0; do head -c1 /proc/{pid}/$file >/dev/null 2>&1 && echo open {name} $file; done;"
        for name, pid in (("guard", guard.pid), ("agent", arena.workers[level].pid))
    )
    with arena.neighbour(level):
        run = arena.attack(level, text + "true")
        ended(arena.client, run.id)
    assert ("open" in arena.log(run)) is (level == "none")


def test_the_database_of_the_server(arena: Arena, level: str) -> None:
    """Inaccessible to another user and in a sandbox; accessible to the server's own user."""
    database = arena.town.folder / "store" / "mainspring.db"
    assert database.exists()
    with arena.neighbour(level):
        run = arena.attack(level, f"head -c 15 {database}; (echo x >> {database}.mine) && echo wrote")
        ended(arena.client, run.id)
    is_open = level == "none" or (level == "process" and not HAS_USER[level])
    assert ("SQLite format" in arena.log(run)) is is_open
    assert ("wrote" in arena.log(run)) is is_open


def test_the_state_of_the_worker_and_the_files_of_a_neighbour(arena: Arena, level: str) -> None:
    """The worker's files are inaccessible to another user; tasks of one user see each other's, except in a sandbox."""
    state = arena.town.state_of(level)
    with arena.neighbour(level) as other:
        run = arena.attack(level, f"cat {state}/guard.json; cat {other.files}/work/file {other.files}/token")
        ended(arena.client, run.id)
    log = arena.log(run)
    is_open = level == "none" or (level == "process" and not HAS_USER[level])
    assert ("task_processes" in log) is is_open
    assert ("canary" in log) is (level != "sandbox")


def test_the_api_with_its_token_about_another_attempt(arena: Arena, level: str) -> None:
    """At every level, a token is valid for its own attempt only."""
    asked = f"""
    for task in $MAINSPRING_TASK_ID $OTHER; do
        curl -s -o /dev/null -w '%{{http_code}}\n' -H "Authorization: Bearer $(cat $MAINSPRING_TOKEN_FILE)" \\
            {arena.server.address}/api/v1/tasks/$task
    done
    """
    with arena.neighbour(level) as other:
        run = arena.attack(level, asked, network=True, env={"OTHER": other.task})
        ended(arena.client, run.id)
    assert arena.log(run).split() == ["200", "404"]


def test_services_on_the_loopback(arena: Arena, level: str) -> None:
    """Reachable from every level except a sandbox, unless its task requests network access."""
    with socket.socket() as service, arena.neighbour(level):
        service.bind(("127.0.0.1", 0))
        service.listen()
        call = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {service.getsockname()[1]}), 3)'"
        run = arena.attack(level, f"{call} 2>/dev/null && echo reached")
        ended(arena.client, run.id)
        declared = arena.attack(level, f"{call} && echo reached", network=True)
        ended(arena.client, declared.id)
    assert ("reached" in arena.log(run)) is (level != "sandbox")
    assert "reached" in arena.log(declared)


def test_every_worker_reports_its_isolation_levels(arena: Arena) -> None:
    """In its labels; a task that requests a higher level than the worker's default gets it."""
    offered = {worker.id: worker.labels for worker in arena.client.workers() if worker.id in LEVELS}
    for level in LEVELS:
        assert offered[level]["isolation/process"] in ("cgroup-v2", "cgroup-v1", "rlimits")
        assert offered[level]["isolation/sandbox"] == "bubblewrap"
    task = {"name": "apart", "work": {"shell": "ls -d /proc/[0-9]* | wc -l", "isolation": "sandbox"}}
    run = submit(arena.client, arena.job("none", task))
    assert ended(arena.client, run.id).state == "SUCCEEDED"
    assert int(arena.log(run)) < 10


def test_root_is_refused_unless_allowed() -> None:
    """Never as root unless allowed (WRK-4). An unprivileged user is refused options that need root."""
    command = [sys.executable, "-m", "mainspring.cli.main", "worker", "--server", "http://127.0.0.1:1"]
    words = [] if IS_ROOT else ["--task-user", "nobody"]
    said = subprocess.run([*command, *words], capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == (2 if IS_ROOT else 4)
    assert ("--as-root" if IS_ROOT else "nobody requires root") in said.stderr
