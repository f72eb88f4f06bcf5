"""A folder with a real server, worker and source, for integration tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.standalone import Standalone, StandaloneSettings
from mainspring.client.aio.client import AsyncClient
from mainspring.folder.schedule_events import FolderEvent
from mainspring.folder.source import FolderSource, FolderSummary
from mainspring.folder.state.records import OWN_DIRECTORY, STATE_FILE
from mainspring.protocol.clock import SystemClock

DEADLINE_SECONDS = 60
NEVER = "0 0 1 1 *"
"""A cron expression that does not fire during tests, except on New Year's Eve."""


def text(*, name: str = "A report", cron: str | None = NEVER, run: str = "echo hi", more: str = "") -> str:
    """A pipeline file with one task."""
    schedule = "" if cron is None else f"schedule:\n  cron: '{cron}'\n  timezone: UTC\n{more}"
    return f'name: "{name}"\n{schedule}tasks:\n  - {{id: only, shell: "{run}"}}\n'


class FolderHarness:
    """A running server with its folder source."""

    def __init__(self, root: Path, box: Standalone) -> None:
        self.root = root
        self.box = box
        self.events: list[FolderEvent] = []
        self._received = asyncio.Event()
        self._read = 0
        self.source = FolderSource(root, box.client, SystemClock(), on_event=self._hear)
        self.beginning: FolderSummary

    @property
    def client(self) -> AsyncClient:
        """A client of the server."""
        return self.box.client

    def _hear(self, event: FolderEvent) -> None:
        self.events.append(event)
        self._received.set()

    async def wait_for_event(self, name: str, **fields: object) -> Any:
        """Wait for the next event with this name and these fields; skip earlier ones."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                while self._read < len(self.events):
                    event = self.events[self._read]
                    self._read += 1
                    if event.event == name and all(getattr(event, key) == value for key, value in fields.items()):
                        return event
                self._received.clear()
                await self._received.wait()

    async def server_schedules(self) -> dict[str, str]:
        """The schedules on the server: their names and jobs."""
        return {view.name: view.job async for view in self.client.schedules()}

    async def server_jobs(self) -> set[str]:
        """The jobs on the server."""
        return {job.name async for job in self.client.jobs()}

    async def run_now(self, reference: str) -> str:
        """Trigger a schedule, wait for its events, and return the run's id."""
        fire = await self.client.trigger(self.source.server_id(reference))
        assert fire.run_id is not None
        await self.client.wait(fire.run_id)
        await self.source.result_of(self.source.find(reference).schedule_id, fire.run_id)
        return fire.run_id


def put(root: Path, path: str, content: str) -> Path:
    """Write a pipeline file, and return its directory."""
    directory = root / path
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pipeline.yaml").write_text(content)
    return directory


def state(root: Path, path: str) -> dict[str, Any]:
    """Read a state file."""
    said: dict[str, Any] = msgspec.json.decode((root / path / STATE_FILE).read_bytes())
    return said


@asynccontextmanager
async def running_folder(root: Path, *, fires: bool = False, watches: bool = True) -> AsyncIterator[FolderHarness]:
    """Start a harness. Without `watches` only the initial sync runs, and it is left as if killed."""
    harnesses: list[FolderHarness] = []

    def on_run(schedule: str, run: str) -> None:
        for harness in harnesses:
            harness.source.run_changed(schedule, run)

    def on_schedules(schedules: Sequence[str]) -> None:
        for harness in harnesses:
            harness.source.schedule_changed(schedules)

    settings = StandaloneSettings(directory=root / OWN_DIRECTORY, port=0, fires=False)
    async with Standalone(settings, on_run=on_run, on_schedules=on_schedules) as box:
        harness = FolderHarness(root, box)
        harnesses.append(harness)
        harness.beginning = await harness.source.begin()
        if fires:
            box.release()
        if not watches:
            yield harness
            return
        following = asyncio.create_task(harness.source.run())
        try:
            yield harness
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await harness.source.close()
