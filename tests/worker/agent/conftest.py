"""A fake server and an agent per test. No process of a test may remain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from random import Random

import msgspec
import psutil
import pytest

from mainspring.protocol.clock import SystemClock
from mainspring.protocol.wire import Offer
from mainspring.worker.agent.agent import Agent, AgentSettings
from mainspring.worker.supervisor.supervisor_settings import SETTINGS_FILE, SupervisorSettings
from tests.worker.agent.fake_server import FakeServer, open_fake_server


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on real time, because of processes."""
    return {"real": asyncio.new_event_loop}


class AgentHarness:
    """Successive agents on one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        state_dir.mkdir()
        self.code = state_dir.parent / "code"
        self.code.mkdir()
        supervisor = SupervisorSettings(
            children=1, orphan_seconds=3.0, orphan_grace_seconds=0.1, python_path=(str(self.code),)
        )
        (state_dir / SETTINGS_FILE).write_bytes(msgspec.json.encode(supervisor))
        self.agent: Agent | None = None
        self._working: asyncio.Task[None] | None = None

    def open(
        self, *servers: str, token: str = "", drain_seconds: float = 20.0, max_spool_bytes: int = 1 << 28
    ) -> Agent:
        """Start an agent."""
        settings = AgentSettings(
            name="w1",
            servers=servers,
            state_dir=self.state_dir,
            offer=Offer(2_000, 1 << 30),
            labels={"disk": "ssd", "handler/load": ""},
            zone="eu",
            token=token,
            drain_seconds=drain_seconds,
            max_spool_bytes=max_spool_bytes,
        )
        self.agent = Agent(settings, SystemClock(), Random(7))
        self._working = asyncio.create_task(self.agent.run())
        return self.agent

    async def crash(self) -> None:
        """Crash the agent without notifying its supervisor."""
        assert self._working is not None
        self._working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._working

    async def left(self) -> None:
        """Wait until the agent has exited by itself."""
        assert self._working is not None
        async with asyncio.timeout(30):
            await self._working

    def processes(self, part: str = "mainspring.worker.supervisor.supervisor") -> list[psutil.Process]:
        """Return processes of this directory with this in their command line."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                command = process.cmdline()
                if part in " ".join(command) and (
                    str(self.state_dir) in command or part != "mainspring.worker.supervisor.supervisor"
                ):
                    found.append(process)
        return found

    async def end(self) -> None:
        """End everything that still runs."""
        if self._working is not None and not self._working.done():
            assert self.agent is not None
            self.agent.leave()
            self.agent.leave()
            with contextlib.suppress(TimeoutError):
                await self.left()
        for process in self.processes():
            process.terminate()
            await asyncio.to_thread(process.wait, 10)


@pytest.fixture
async def fake_server() -> AsyncIterator[FakeServer]:
    """A fake server."""
    async with open_fake_server() as fake_server:
        yield fake_server


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[AgentHarness]:
    """A state directory with its agents."""
    harness = AgentHarness(tmp_path / "state")
    yield harness
    await harness.end()
