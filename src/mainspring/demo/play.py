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
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mainspring.client.aio.client import FINAL_RUN_STATES
from mainspring.demo import checks, measures, story
from mainspring.demo.checks import Check
from mainspring.demo.measures import Census
from mainspring.demo.scenario import Timetable
from mainspring.demo.scenes import SCENES, Scene, Set
from mainspring.demo.stage import TENANTS, WORKERS, Stage
from mainspring.demo.story import Line, LineCode
from mainspring.demo.telling import Teller
from mainspring.event_loop import fast_loop
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import MainspringError
from mainspring.protocol.rest.admin import TenantRequest
from mainspring.telemetry.log_output import configure_logging

_INTERRUPTED = 130
_SETTLE_SECONDS = 10.0
"""How long the event stream may lag behind the last scene."""
_LOOK_SECONDS = 0.1
_MOST_SWEEPS = 20


class DemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a demo."""

    port: int
    """Port of the server, or the next free one; 0 for any."""
    speed: float = 1.0
    seconds: float | None = None
    """Duration; None runs until the last scene has ended."""
    keep: bool = False
    """Keep the folder."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
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


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a demo."""

    census: Census
    stopped: int
    """Tasks that were running at the end."""
    workers: int
    """Workers at the end."""
    folder: str
    kept: bool
    was_interrupted: bool


class Audience(Protocol):
    """Receives the events of a demo."""

    def see_opening(self, opening: Opening) -> None:
        """The demo has started."""

    def hear(self, line: Line, at_seconds: float) -> None:
        """A line was reported, at a time since the start."""

    def learn(self, check: Check) -> None:
        """A check completed."""

    def take_over(self) -> None:
        """All scenes have ended; the user can try commands."""


def play(settings: DemoSettings, audience: Audience) -> Ending | None:
    """Run the demo. Returns None if interrupted during startup. Raises MainspringError if it can't start."""
    configure_logging("text", "error")
    folder, clock = Path(tempfile.mkdtemp(prefix="mainspring-demo-")).resolve(), MachineClock()
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(_Play(settings, audience, folder, clock).run())
    finally:
        _clear(folder, settings, clock)


class _Play:
    """One demo run."""

    def __init__(self, settings: DemoSettings, audience: Audience, folder: Path, clock: MachineClock) -> None:
        self._settings = settings
        self._audience = audience
        self._folder = folder
        self._clock = clock
        self._stage = Stage(folder, settings.port, clock)
        self._began_at = clock.wall()
        self._lines: list[Line] = []
        self._told_to_stop = asyncio.Event()
        self._is_open = False

    async def run(self) -> Ending | None:
        """Run from startup to shutdown."""
        self._mind_signals()
        began = self._clock.monotonic()
        try:
            async with self._stage:
                for tenant, title in TENANTS.items():
                    await self._stage.client.put_tenant(tenant, TenantRequest(title=title))
                self._is_open = True
                self._open(self._clock.monotonic() - began)
                await self._perform()
                return await self._close()
        except asyncio.CancelledError:
            if self._is_open or not self._told_to_stop.is_set():
                raise
            return None  # Interrupted during startup, and cleaned up.

    def _open(self, seconds: float) -> None:
        self._began_at = self._clock.wall()
        self._audience.see_opening(
            Opening(
                address=self._stage.address, folder=str(self._folder), kept=self._settings.keep, seconds=seconds,
                workers=len(WORKERS), zones=len(set(WORKERS.values())), tenants=len(TENANTS),
                lasts_seconds=self._settings.seconds,
            )
        )  # fmt: skip

    async def _perform(self) -> None:
        """Play all scenes until the last has ended, the time limit is reached, or a signal arrives."""
        telling = asyncio.create_task(Teller(self._stage.client, self._hear).listen())
        scenes = asyncio.create_task(self._play_scenes())
        enough = asyncio.create_task(self._told_to_stop.wait())
        lasting: list[asyncio.Task[None] | asyncio.Task[Literal[True]]] = [telling, enough]
        if self._settings.seconds is None:
            lasting.append(scenes)
        try:
            await asyncio.wait(lasting, timeout=self._settings.seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in (telling, scenes):
                if task.done():
                    task.result()
        finally:
            for going in (telling, scenes, enough):
                going.cancel()
            await asyncio.gather(telling, scenes, enough, return_exceptions=True)

    async def _play_scenes(self) -> None:
        times = Timetable(speed=self._settings.speed)
        on = Set(self._stage, times, self._clock, self._folder)
        try:
            async with asyncio.TaskGroup() as group:
                for scene in SCENES:
                    group.create_task(self._play_scene(scene, on))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None  # The others were cancelled because of it.
        self._audience.take_over()
        await self._judge_story()

    async def _play_scene(self, scene: Scene, on: Set) -> None:
        await self._clock.sleep(on.times.seconds(scene.at_seconds))
        try:
            async for measure in scene.play(on):
                line = story.sum_up(measure)
                if line is not None:
                    self._hear(line, self._clock.wall())
                for check in checks.judge(measure):
                    self._audience.learn(check)
        except (MainspringError, TimeoutError) as error:
            # The other scenes continue.
            line = Line(glyph="!", subject=scene.name, code=LineCode.SCENE_FAILED, text=f"scene failed: {error}")
            self._hear(line, self._clock.wall())
            self._audience.learn(Check(scene=scene.name, name="scene completes", ok=False, found=str(error)))

    async def _judge_story(self) -> None:
        """Check the lines, after waiting for the event stream to catch up with the scenes."""
        until = self._clock.monotonic() + _SETTLE_SECONDS
        while not all(check.ok for check in checks.judge_story(self._lines)) and self._clock.monotonic() < until:
            await self._clock.sleep(_LOOK_SECONDS)
        for check in checks.judge_story(self._lines):
            self._audience.learn(check)
        for check in checks.judge(await self._census()):
            self._audience.learn(check)

    async def _close(self) -> Ending:
        client = self._stage.client
        running = await client.count_tasks(states=["RUNNING", "ASSIGNED"])
        return Ending(
            census=await self._census(),
            stopped=running.value,
            workers=len(await self._stage.ready_workers()),
            folder=str(self._folder),
            kept=self._settings.keep,
            was_interrupted=self._told_to_stop.is_set(),
        )

    async def _census(self) -> Census:
        client = self._stage.client
        runs = [run async for run in client.runs()]
        going = [run.id for run in runs if run.state not in FINAL_RUN_STATES]
        begun = [run for run in going if any([task.attempt async for task in client.tasks_of(run)])]
        return measures.census(runs, begun)

    def _hear(self, line: Line, at: datetime) -> None:
        self._lines.append(line)
        self._audience.hear(line, (at - self._began_at).total_seconds())

    def _mind_signals(self) -> None:
        """Shut down gracefully on the first signal, immediately on the second."""
        main = asyncio.current_task()

        def stop() -> None:
            if self._told_to_stop.is_set():
                self._stage.kill_all()
                _clear(self._folder, self._settings, self._clock)
                os._exit(_INTERRUPTED)
            self._told_to_stop.set()
            if not self._is_open and main is not None:
                main.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop)


def _clear(folder: Path, settings: DemoSettings, clock: MachineClock) -> None:
    """Remove the folder. Killed processes may still have been writing to it, so this may take several attempts."""
    for _ in range(0 if settings.keep else _MOST_SWEEPS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        clock.pause(_LOOK_SECONDS)
