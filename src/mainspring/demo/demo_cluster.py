"""The demo cluster: a server in this process and six worker processes, in one folder.

1. It listens only on loopback and stores everything in the folder.
2. No process outlives the block: workers are terminated, and killed with all their processes if they don't stop.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from mainspring.app.server import ServerSettings, assemble
from mainspring.app.standalone import SINGLE_USER_SETTINGS, claim_port
from mainspring.client.aio.client import AsyncClient
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Broken
from mainspring.protocol.rest.runs import WorkerView
from mainspring.worker.supervisor.process_groups import kill_with_marker, supervisor_marker

WORKERS: Mapping[str, str] = {
    "w-01": "north", "w-02": "north", "w-03": "center", "w-04": "center", "w-05": "south", "w-06": "south",
}  # fmt: skip
"""Workers and their zones."""
TENANTS: Mapping[str, str] = {"default": "Default", "acme": "Acme", "media": "Media"}
"""Tenants and their titles."""
CORES = 4
"""Cores per worker. Tasks mostly sleep, so the total may exceed the machine."""
MEMORY = "2Gi"
SILENCE = ("suspect_after_seconds=6", "lost_after_seconds=12")
"""Shortest allowed heartbeat timeouts."""
_ENV_PREFIX = "MAINSPRING_"
_SUPERVISOR_MODULE = "mainspring.worker.supervisor.supervisor"
_START_SECONDS = 60.0
_SHUTDOWN_SECONDS = 8.0
_POLL_SECONDS = 0.05


class DemoCluster:
    """A server and its workers, started and stopped by `async with`."""

    def __init__(self, folder: Path, port: int, clock: Clock) -> None:
        self._folder = folder
        self._port = port
        self._clock = clock
        self._stack = AsyncExitStack()
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self.address = ""
        self.clients: dict[str, AsyncClient] = {}
        """Client of each tenant."""
        self.client: AsyncClient
        """Client for all tenants."""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def kill(self, worker: str) -> None:
        """Kill a worker as a power loss would: agent, supervisor and tasks at once."""
        state_dir, agent = self._state_of(worker), self._workers[worker]
        supervisors = _supervisors_of(state_dir)
        with suppress(psutil.NoSuchProcess):
            if agent.poll() is None:
                _kill_tree(psutil.Process(agent.pid))
                agent.wait()
        for supervisor_process in supervisors:
            _kill_tree(supervisor_process)
        # Processes that a supervisor started meanwhile are orphans now, but carry its mark.
        kill_with_marker(supervisor_marker(state_dir))

    def kill_all(self) -> None:
        """Kill every worker."""
        for worker in self._workers:
            self.kill(worker)

    async def ready_workers(self) -> list[WorkerView]:
        """Return the workers that are ready."""
        return [worker async for worker in self.client.workers() if worker.status == "ready"]

    async def _start(self) -> None:
        listener = claim_port(self._port)
        self._stack.callback(listener.close)
        store = self._folder / "server" / "mainspring.db"
        store.parent.mkdir(parents=True)
        settings = ServerSettings(
            store=f"sqlite:///{store}",
            port=listener.getsockname()[1],
            scheduler_settings=(*SILENCE, *SINGLE_USER_SETTINGS),
        )
        _, ready = await self._stack.enter_async_context(assemble(settings, listener))
        self.address = ready.address
        _clear_environment()
        self.client = await self._stack.enter_async_context(AsyncClient(self.address))
        for tenant in TENANTS:
            self.clients[tenant] = await self._stack.enter_async_context(AsyncClient(self.address, tenant=tenant))
        self._stack.push_async_callback(self._stop_workers)
        for name, zone in WORKERS.items():
            self._start_worker(name, zone)
        await self._until_ready()

    def _start_worker(self, name: str, zone: str) -> None:
        words = ["--server", self.address, "--name", name, "--zone", zone, "--state-dir", str(self._state_of(name))]
        words += ["--cpu", str(CORES), "--memory", MEMORY, "--children", "1", "--drain-seconds", "0"]
        words += ["--isolation", "none", "--as-root"]  # the tasks are our own
        with (self._folder / f"{name}.log").open("wb") as log:
            self._workers[name] = subprocess.Popen(
                [sys.executable, "-m", "mainspring.cli.main", "worker", *words, "--log-level", "warning"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
            )  # fmt: skip

    async def _until_ready(self) -> None:
        deadline = self._clock.monotonic() + _START_SECONDS
        while len(await self.ready_workers()) < len(WORKERS):
            ended = [name for name, worker in self._workers.items() if worker.poll() is not None]
            if ended or self._clock.monotonic() > deadline:
                logs = "\n".join((self._folder / f"{name}.log").read_text() for name in ended)
                raise Broken(f"the workers did not start ({', '.join(ended) or 'timeout'})\n{logs}".rstrip())
            await self._clock.sleep(_POLL_SECONDS)

    async def _stop_workers(self) -> None:
        """Terminate the workers, and kill those that don't stop in time."""
        for worker in self._workers.values():
            worker.send_signal(signal.SIGTERM)
        deadline = self._clock.monotonic() + _SHUTDOWN_SECONDS
        while any(worker.poll() is None for worker in self._workers.values()) and self._clock.monotonic() < deadline:
            await self._clock.sleep(_POLL_SECONDS)
        self.kill_all()

    def _state_of(self, worker: str) -> Path:
        return self._folder / worker


def _clear_environment() -> None:
    """Remove settings from the environment: they are meant for another server."""
    for name in [name for name in os.environ if name.startswith(_ENV_PREFIX)]:
        del os.environ[name]


def _supervisors_of(state_dir: Path) -> list[psutil.Process]:
    """Find the supervisors of a worker, usually one, which is not our child process."""
    every = psutil.process_iter(["cmdline"])
    return [
        process
        for process in every
        if process.info["cmdline"] and [*process.info["cmdline"]][-2:] == [_SUPERVISOR_MODULE, str(state_dir)]
    ]


def _kill_tree(root: psutil.Process) -> None:
    """Kill a process and its descendants."""
    with suppress(psutil.NoSuchProcess):
        for victim in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
