"""A folder as a source of pipelines for a server: what its files say is what the server has, and back (FLD-1 to FLD-6).

    begin   look at everything, tell the server, before it fires anything
    run     watch the files (`watcher.py`), follow them (`apply.py`); mirror what the schedules do (`mirror.py`)
    close   write what is still to be written

The server is reached only through its client. That something happened there is told in process (`run_changed`,
`schedule_changed`), which costs nothing; what happened is then asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec
import structlog

from mainspring.client.aio.client import AsyncClient
from mainspring.core.text.suggestions import did_you_mean
from mainspring.folder.apply import Upkeep
from mainspring.folder.info import ScheduleInfo
from mainspring.folder.mirror import MOST_TASKS, Mirror, result_of
from mainspring.folder.scan import file_of
from mainspring.folder.schedule_events import FolderEvent, PipelineExecutionResult
from mainspring.folder.state import state_view
from mainspring.folder.state.schedule_state import Live
from mainspring.folder.watcher import Watcher
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import MainspringError, NotFound, Unavailable
from mainspring.protocol.ids import entropy

__all__ = ["Beginning", "FolderSource", "ScheduleInfo"]

log = structlog.get_logger()

_SAVE_SECONDS = 1.0
"""The index is written so much later than what it says; what is lost with it, the server still knows."""
_SAVE_SHARE = 50
"""If that takes long, it is done less often: at most a fiftieth of the time."""
_AGAIN_SECONDS = 1.0


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder was found to be."""

    pipelines: tuple[str, ...]
    """The ids of those that can be used."""
    schedules: tuple[ScheduleInfo, ...]
    flaws: dict[str, str]
    """By file, below the folder: why it can't be used."""
    warnings: tuple[str, ...]


class FolderSource:
    """One folder, for one server. Its methods are called in one event loop."""

    def __init__(
        self,
        root: Path,
        client: AsyncClient,
        clock: Clock,
        *,
        max_history_entries: int = 50,
        on_event: Callable[[FolderEvent], None],
    ) -> None:
        self._root = root.absolute()
        self._client = client
        self._clock = clock
        self._tell = on_event
        self._mirror = Mirror(self._root, client, clock, on_event, max_history_entries)
        self._upkeep = Upkeep(self._root, client, clock, self._mirror, Random(entropy()), max_history_entries)
        self._has_begun = False
        self._caught_up = asyncio.Event()

    async def begin(self) -> Beginning:
        """Look at the folder, and let the server have what it says. Call it before the server fires schedules."""
        await self._upkeep.begin()
        self._has_begun = True
        return Beginning(
            pipelines=tuple(pipeline.id for pipeline in self._upkeep.pipelines),
            schedules=tuple(self.schedules()),
            flaws={file_of(path): flaws for path, flaws in self._upkeep.broken.items()},
            warnings=self._upkeep.warnings,
        )

    async def run(self) -> None:
        """Follow the files and the server, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._follow_server())
            group.create_task(self._save_now_and_then())

    async def close(self) -> None:
        """Write what is still to be written. The server may be gone already."""
        if not self._has_begun:
            return
        try:
            await self._mirror.settle()
        except Unavailable as error:
            log.info("folder.closed_without_server", because=str(error))
        await self._upkeep.save()

    # told in process

    def run_changed(self, schedule: str, run: str) -> None:
        """Something became of a run of a schedule, by the server's ids; it is durable."""
        self._mirror.note_run(schedule, run)

    def schedule_changed(self, schedules: Sequence[str]) -> None:
        """Something became of schedules, by the server's ids."""
        self._mirror.note_schedules(schedules)

    # questions

    def schedules(self) -> list[ScheduleInfo]:
        """All schedules of the folder, by the ids of their pipelines."""
        return [self._info(live) for live in sorted(self._mirror.lives.values(), key=lambda one: one.pipeline_id)]

    def find(self, reference: str) -> ScheduleInfo:
        """A schedule by its scheduleId or pipelineId, or by a beginning that only it has. Raises NotFound."""
        lives = self._mirror.lives
        exact = [live for live in lives.values() if reference in (live.schedule_id, live.pipeline_id)]
        begun = [live for live in lives.values() if reference and live.schedule_id.startswith(reference)]
        for found in (exact, begun):
            if len(found) == 1:
                return self._info(found[0])
        if len(begun) > 1:
            names = ", ".join(sorted(live.schedule_id for live in begun)[:3])
            raise NotFound(f"{reference} is the beginning of {len(begun)} schedules: {names}, ..")
        known = [name for live in lives.values() for name in (live.schedule_id, live.pipeline_id)]
        raise NotFound(f"there is no schedule {reference}{did_you_mean(reference, known)}")

    def server_id(self, reference: str) -> str:
        """The server's id of a schedule, for acts: a name alone would be looked for in one tenant. Raises NotFound."""
        schedule_id = self.find(reference).schedule_id
        view = self._mirror.lives[schedule_id].views.get(schedule_id)
        if view is None:
            raise NotFound(f"the server does not have {schedule_id} yet")
        return view.id

    async def result_of(self, schedule_id: str, run_id: str) -> PipelineExecutionResult:
        """What became of a run that is over; its state file says it too by then."""
        await self._mirror.settle()
        run = await self._client.run(run_id)
        tasks = [task async for task in self._client.tasks_of(run_id, limit=MOST_TASKS)]
        outcome = state_view.outcome_of(run, tasks)
        record = state_view.record_of(run, outcome)
        live = self._mirror.lives.get(schedule_id)
        history = live.tally.history if live is not None else ()
        return result_of(run, outcome, next((one for one in history if one.started_at == record.started_at), record))

    async def caught_up(self) -> None:
        """Come back when `run` has counted what ended while nobody watched."""
        await self._caught_up.wait()

    def _info(self, live: Live) -> ScheduleInfo:
        due, view = live.shown.next_run, live.views.get(live.schedule_id)
        return ScheduleInfo(
            schedule_id=live.schedule_id,
            pipeline_id=live.pipeline_id,
            pipeline_name=live.title,
            pipeline_directory=str(self._root / live.path),
            config=live.config,
            state=live.shown,
            trigger="" if view is None else view.trigger,
            next_run_in=None if due is None else max(0, round((due - self._clock.wall()).total_seconds() * 1_000)),
        )

    # what goes on

    async def _watch(self) -> None:
        """Follow what changes in the folder; first what changed since it was looked at."""
        async with Watcher(self._root, self._clock) as watcher:
            await self._follow(None)
            async for paths in watcher:
                await self._follow(paths)

    async def _follow(self, paths: frozenset[str] | None) -> None:
        while True:
            try:
                events = await self._upkeep.again(paths)
            except Unavailable as error:
                log.debug("folder.server_unavailable", error=str(error))
                await self._clock.sleep(_AGAIN_SECONDS)
                continue
            except (MainspringError, OSError) as error:
                # The next change is followed all the same: a folder that can't be told of stays as it was.
                log.exception("folder.not_followed", error=str(error))
                return
            for event in events:
                self._tell(event)
            return

    async def _follow_server(self) -> None:
        """Count what ended while nobody watched, then follow what happens: so no total is ever seen to shrink."""
        while not self._caught_up.is_set():
            try:
                await self._mirror.catch_up(self._upkeep.counted_until)
            except Unavailable as error:
                log.debug("folder.server_unavailable", error=str(error))
                await self._clock.sleep(_AGAIN_SECONDS)
            else:
                self._upkeep.is_caught_up = True
                self._upkeep.write_states()
                self._caught_up.set()
        await self._mirror.work()

    async def _save_now_and_then(self) -> None:
        pause = _SAVE_SECONDS
        while True:
            await self._clock.sleep(pause)
            if self._mirror.is_unsaved:
                began = self._clock.monotonic()
                await self._upkeep.save()
                pause = max(_SAVE_SECONDS, _SAVE_SHARE * (self._clock.monotonic() - began))
