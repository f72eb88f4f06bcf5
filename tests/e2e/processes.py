"""Hosts in separate processes, for tests and benchmarks that kill and stop them."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

DEADLINE_SECONDS = 90


class HostProcess:
    """A host in a separate process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, url: str, workers: int = 2) -> HostProcess:
        """Start a host, and wait until it is ready."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.e2e.host_process", url, str(workers), stdout=asyncio.subprocess.PIPE
        )
        host = cls(process)
        await host.says("ready")
        return host

    async def says(self, start: str) -> str:
        """Return the next line with this prefix."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not (line := await self._lines.get()).startswith(start):
                pass
            return line

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the process, and return its exit code."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self._process.wait()

    async def end(self) -> None:
        """Kill it if it is still running."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        await self._process.wait()
        self._reading.cancel()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._lines.put_nowait(line.decode().strip())


@asynccontextmanager
async def hosts() -> AsyncIterator[Callable[[str], Awaitable[HostProcess]]]:
    """Start hosts; kill those that are left at the end."""
    started: list[HostProcess] = []

    async def start(url: str) -> HostProcess:
        started.append(await HostProcess.start(url))
        return started[-1]

    try:
        yield start
    finally:
        for host in started:
            await host.end()
