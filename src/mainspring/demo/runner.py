"""Run the demo: start the cluster, play each scene at its time, and report to an observer.

start   create a folder, start the server and the workers
play    play each scene at its time, and follow the live event stream
stop    after a time limit or on a signal; with checks, after the last scene
        everything is shut down and the folder removed; a second signal does that immediately
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mainspring.client.aio.client import FINAL_RUN_STATES, AsyncClient
from mainspring.demo import checks, console_lines, measures
from mainspring.demo.checks import Check
from mainspring.demo.console_lines import Line, LineCode
from mainspring.demo.demo_cluster import TENANTS, WORKERS, DemoCluster
from mainspring.demo.demo_jobs import Timetable
from mainspring.demo.measures import Census
from mainspring.demo.scenes import SCENES, Scene, SceneContext
from mainspring.event_loop import fast_loop
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import MainspringError, NotFound
from mainspring.protocol.rest.admin import TenantRequest
from mainspring.protocol.rest.runs import RunView, TransitionView
from mainspring.telemetry.log_output import configure_logging

_INTERRUPTED = 130
_CATCH_UP_SECONDS = 10.0
"""How long the event stream may lag behind the last scene."""
_POLL_SECONDS = 0.1
_MAX_CLEANUP_ATTEMPTS = 20


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a demo."""

    port: int
    """Port of the server, or the next free one; 0 for any."""
    speed: float = 1.0
    seconds: float | None = None
    """Duration; None runs until the last scene has ended."""
    keep: bool = False
    """Keep the folder."""


class DemoStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The demo has started."""

    address: str
    folder: str
    kept: bool
    seconds: float
    """Startup time."""
    workers: int
    zones: int
    tenants: int
    lasts_seconds: float | None


class DemoSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a demo."""

    census: Census
    stopped: int
    """Tasks that were running at the end."""
    workers: int
    """Workers at the end."""
    folder: str
    kept: bool
    was_interrupted: bool


class DemoObserver(Protocol):
    """Receives the events of a demo."""

    def on_start(self, started: DemoStarted) -> None:
        """The demo has started."""

    def on_line(self, line: Line, at_seconds: float) -> None:
        """A line was reported, at a time since the start."""

    def on_check(self, check: Check) -> None:
        """A check completed."""

    def on_scenes_finished(self) -> None:
        """All scenes have ended; the user can try commands."""


def play(settings: DemoSettings, observer: DemoObserver) -> DemoSummary | None:
    """Run the demo. Returns None if interrupted during startup. Raises MainspringError if it can't start."""
    configure_logging("text", "error")
    folder, clock = Path(tempfile.mkdtemp(prefix="mainspring-demo-")).resolve(), SystemClock()
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(_DemoRun(settings, observer, folder, clock).run())
    finally:
        _clear(folder, settings, clock)


class _EventFollower:
    """Reports task transitions of all runs, including those that the user started."""

    def __init__(self, client: AsyncClient, on_line: Callable[[Line, datetime], None]) -> None:
        self._client = client
        self._on_line = on_line
        self._runs: dict[str, RunView] = {}
        self._begun: set[str] = set()
        """Runs whose fan-out has been reported."""

    async def listen(self) -> None:
        """Report transitions until cancelled."""
        async with self._client.events() as changes:
            async for change in changes:
                if change is not None and console_lines.is_notable(change):
                    await self._report(change)

    async def _report(self, change: TransitionView) -> None:
        is_begin = change.end == "RUNNING"
        if is_begin and change.run_id in self._begun:
            return
        try:
            run = await self._run(change.run_id)
            task = await self._client.task(change.task_id)
            attempts = [] if is_begin else await self._client.attempts(change.task_id)
        except NotFound:
            return  # The run has moved to history.
        line = console_lines.line_for_change(change, run, task, attempts)
        if line is not None:
            if is_begin:
                self._begun.add(change.run_id)
            self._on_line(line, change.at)

    async def _run(self, run_id: str) -> RunView:
        if run_id not in self._runs:
            self._runs[run_id] = await self._client.run(run_id)
        return self._runs[run_id]


class _DemoRun:
    """One demo run."""

    def __init__(self, settings: DemoSettings, observer: DemoObserver, folder: Path, clock: SystemClock) -> None:
        self._settings = settings
        self._observer = observer
        self._folder = folder
        self._clock = clock
        self._cluster = DemoCluster(folder, settings.port, clock)
        self._began_at = clock.wall()
        self._lines: list[Line] = []
        self._stop_requested = asyncio.Event()
        self._is_open = False

    async def run(self) -> DemoSummary | None:
        """Run from startup to shutdown."""
        self._handle_signals()
        began = self._clock.monotonic()
        try:
            async with self._cluster:
                for tenant, title in TENANTS.items():
                    await self._cluster.client.put_tenant(tenant, TenantRequest(title=title))
                self._is_open = True
                self._open(self._clock.monotonic() - began)
                await self._perform()
                return await self._close()
        except asyncio.CancelledError:
            if self._is_open or not self._stop_requested.is_set():
                raise
            return None  # Interrupted during startup, and cleaned up.

    def _open(self, seconds: float) -> None:
        self._began_at = self._clock.wall()
        self._observer.on_start(
            DemoStarted(
                address=self._cluster.address, folder=str(self._folder), kept=self._settings.keep, seconds=seconds,
                workers=len(WORKERS), zones=len(set(WORKERS.values())), tenants=len(TENANTS),
                lasts_seconds=self._settings.seconds,
            )
        )  # fmt: skip

    async def _perform(self) -> None:
        """Play all scenes until the last has ended, the time limit is reached, or a signal arrives."""
        following = asyncio.create_task(_EventFollower(self._cluster.client, self._on_line).listen())
        scenes = asyncio.create_task(self._play_scenes())
        enough = asyncio.create_task(self._stop_requested.wait())
        lasting: list[asyncio.Task[None] | asyncio.Task[Literal[True]]] = [following, enough]
        if self._settings.seconds is None:
            lasting.append(scenes)
        try:
            await asyncio.wait(lasting, timeout=self._settings.seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in (following, scenes):
                if task.done():
                    task.result()
        finally:
            for pending in (following, scenes, enough):
                pending.cancel()
            await asyncio.gather(following, scenes, enough, return_exceptions=True)

    async def _play_scenes(self) -> None:
        times = Timetable(speed=self._settings.speed)
        context = SceneContext(self._cluster, times, self._clock, self._folder)
        try:
            async with asyncio.TaskGroup() as group:
                for scene in SCENES:
                    group.create_task(self._play_scene(scene, context))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None  # The others were cancelled because of it.
        self._observer.on_scenes_finished()
        await self._check_lines()

    async def _play_scene(self, scene: Scene, context: SceneContext) -> None:
        await self._clock.sleep(context.times.seconds(scene.at_seconds))
        try:
            async for measure in scene.play(context):
                line = console_lines.line_for_measure(measure)
                if line is not None:
                    self._on_line(line, self._clock.wall())
                for check in checks.judge(measure):
                    self._observer.on_check(check)
        except (MainspringError, TimeoutError) as error:
            # The other scenes continue.
            line = Line(glyph="!", subject=scene.name, code=LineCode.SCENE_FAILED, text=f"scene failed: {error}")
            self._on_line(line, self._clock.wall())
            self._observer.on_check(Check(scene=scene.name, name="scene completes", ok=False, found=str(error)))

    async def _check_lines(self) -> None:
        """Check the lines, after waiting for the event stream to catch up with the scenes."""
        until = self._clock.monotonic() + _CATCH_UP_SECONDS
        while not all(check.ok for check in checks.check_lines(self._lines)) and self._clock.monotonic() < until:
            await self._clock.sleep(_POLL_SECONDS)
        for check in checks.check_lines(self._lines):
            self._observer.on_check(check)
        for check in checks.judge(await self._census()):
            self._observer.on_check(check)

    async def _close(self) -> DemoSummary:
        client = self._cluster.client
        running = await client.count_tasks(states=["RUNNING", "ASSIGNED"])
        return DemoSummary(
            census=await self._census(),
            stopped=running.value,
            workers=len(await self._cluster.ready_workers()),
            folder=str(self._folder),
            kept=self._settings.keep,
            was_interrupted=self._stop_requested.is_set(),
        )

    async def _census(self) -> Census:
        client = self._cluster.client
        runs = [run async for run in client.runs()]
        pending = [run.id for run in runs if run.state not in FINAL_RUN_STATES]
        begun = [run for run in pending if any([task.attempt async for task in client.tasks_of(run)])]
        return measures.census(runs, begun)

    def _on_line(self, line: Line, at: datetime) -> None:
        self._lines.append(line)
        self._observer.on_line(line, (at - self._began_at).total_seconds())

    def _handle_signals(self) -> None:
        """Shut down gracefully on the first signal, immediately on the second."""
        main = asyncio.current_task()

        def stop() -> None:
            if self._stop_requested.is_set():
                self._cluster.kill_all()
                _clear(self._folder, self._settings, self._clock)
                os._exit(_INTERRUPTED)
            self._stop_requested.set()
            if not self._is_open and main is not None:
                main.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop)


def _clear(folder: Path, settings: DemoSettings, clock: SystemClock) -> None:
    """Remove the folder. Killed processes may still have been writing to it, so this may take several attempts."""
    for _ in range(0 if settings.keep else _MAX_CLEANUP_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        clock.pause(_POLL_SECONDS)
