"""A cluster of real servers and workers as processes, for tests and benchmarks that use, stop and kill them.

    with ServerCluster(tmp_path, store_url) as cluster:
        server = cluster.server()
        worker = cluster.worker(server, cpu=4)
        run = submit(server.client(), job)

All processes are killed when the block ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

import psutil

from mainspring.client.client import Client
from mainspring.protocol.rest.runs import RunView, TaskView
from tests.server_settings import SET_GENEROUS

T = TypeVar("T")
Json = Mapping[str, object]

DEADLINE_SECONDS = 90.0
ENDED = frozenset({"SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED"})


def until(ask: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """Poll until `ask` returns a true value, and return it; fail with `what` after a timeout."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"in {seconds:.0f} s it did not happen: {what}"
        time.sleep(0.05)  # tidy: sleeps because another process can't be waited on
    return answer


class Process:
    """A `mainspring` command as a process, with its output in a file."""

    def __init__(self, folder: Path, name: str, arguments: Iterable[str], environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        self._ready = folder / f"{name}.ready"
        self._ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mainspring.cli.main", *arguments, "--ready-file", str(self._ready)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ready(self) -> str:
        """Wait until it is ready, and return the content of its ready file."""
        until(lambda: self._ready.exists() or self._process.poll() is not None, f"{self.name} is ready")
        assert self._ready.exists(), f"{self.name} ended with {self._process.returncode}:\n{self.log.read_text()}"
        return self._ready.read_text()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def ended(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Wait for it, and return its exit code."""
        return self._process.wait(timeout=seconds)

    def finish(self) -> None:
        """Kill it if it is still running."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()


class Server(Process):
    """A server."""

    address = ""

    def wait_until_ready(self) -> None:
        """Wait until it is ready, and store its address."""
        self.address = str(json.loads(self.ready())["address"])

    def client(self, tenant: str | None = None) -> Client:
        """Return a client of this server."""
        return Client(server=self.address, tenant=tenant)


class ServerCluster:
    """Servers on one store, and workers."""

    def __init__(self, folder: Path, store_url: str | None = None) -> None:
        self.folder = folder
        self.store_url = store_url or f"sqlite:///{folder / 'store' / 'mainspring.db'}"
        self._processes: list[Process] = []
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.finish()
        for left in self.supervisors():
            left.kill()

    def server(self, *extra: str, port: int = 0, environment: Mapping[str, str] | None = None) -> Server:
        """Start a server, with `GENEROUS` limits by default, and wait until it is ready."""
        server = self._start_server(*extra, port=port, environment=environment)
        server.wait_until_ready()
        return server

    def servers(self, count: int, *extra: str) -> list[Server]:
        """Start several servers in parallel, and wait until all are ready. Any of them may lead."""
        started = [self._start_server(*extra) for _ in range(count)]
        for server in started:
            server.wait_until_ready()
        return started

    def worker(
        self,
        *servers: Server,
        name: str = "",
        cpu: float = 4,
        extra: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Process:
        """Start a worker, and wait until it is connected. A worker of the same name reuses its state directory.

        Without `wait`, call `ready()` before it is needed.
        """
        self._count += 1
        name = name or f"worker-{self._count}"
        options = ["--name", name, "--cpu", str(cpu), "--memory", "64Gi", "--state-dir", str(self.state_of(name))]
        if "--task-user" not in extra:
            options += ["--as-root"]
        for server in servers:
            options += ["--server", server.address]
        worker = Process(self.folder, name, ["worker", *options, *extra], environment or {})
        self._processes.append(worker)
        if wait:
            worker.ready()
        return worker

    def _start_server(self, *extra: str, port: int = 0, environment: Mapping[str, str] | None = None) -> Server:
        self._count += 1
        name = f"server-{self._count}"
        where = ["--store", self.store_url, "--port", str(port), "--data-dir", str(self.folder / name)]
        server = Server(self.folder, name, ["server", *where, *SET_GENEROUS, *extra], environment or {})
        self._processes.append(server)
        return server

    def state_of(self, worker: str) -> Path:
        """The state directory of a worker."""
        return self.folder / "state" / worker

    def supervisors(self, worker: str = "") -> list[psutil.Process]:
        """The supervisors of a worker, or of all workers."""
        wanted = str(self.state_of(worker) if worker else self.folder / "state")
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "mainspring.worker.supervisor.supervisor" in words and any(word.startswith(wanted) for word in words):
                found.append(process)
        return found


def submit(client: Client, job: Json) -> RunView:
    """Submit a run of a job definition."""
    return client.submit(client.submit_job(job).id)


def ended(client: Client, run_id: str, seconds: float = DEADLINE_SECONDS) -> RunView:
    """Wait for a run to end."""
    return until(lambda: _if(client.run(run_id), lambda run: run.state in ENDED), f"{run_id} ends", seconds)


def in_state(client: Client, run_id: str, state: str, count: int) -> list[TaskView]:
    """Wait until at least `count` tasks of a run are in this state, and return them."""
    return until(
        lambda: _if(
            [task for task in tasks_of(client, run_id) if task.state == state], lambda some: len(some) >= count
        ),
        f"{count} tasks of {run_id} are {state}",
    )


def tasks_of(client: Client, run_id: str) -> list[TaskView]:
    """List the tasks of a run."""
    return list(client.tasks_of(run_id))


def workers_of(client: Client, run_id: str) -> set[str]:
    """The workers of the last attempts of a run's tasks."""
    return {client.attempts(task.id)[-1].worker for task in tasks_of(client, run_id)}


def _if(value: T, holds: Callable[[T], bool]) -> T | None:
    return value if holds(value) else None
