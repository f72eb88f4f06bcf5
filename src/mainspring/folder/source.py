"""A folder as a source of pipelines: syncs its files to a server, and results back to state files (FLD-1 to FLD-6).

    begin   scan the folder and sync the server, before schedules fire
    run     watch the files (`watcher.py`), sync changes (`apply.py`), mirror the schedules' runs (`mirror.py`)
    close   write pending state

The server is reached only through its client. Change notifications (`run_changed`, `schedule_changed`) come in process
and are cheap; the changes themselves are then queried.
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
from mainspring.folder.apply import FolderSync
from mainspring.folder.info import ScheduleInfo
from mainspring.folder.mirror import MAX_TASKS, Mirror, result_of, when_available
from mainspring.folder.scan import file_of
from mainspring.folder.schedule_events import FolderEvent, PipelineExecutionResult
from mainspring.folder.state import state_view
from mainspring.folder.state.schedule_state import TrackedSchedule
from mainspring.folder.watcher import Watcher
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import MainspringError, NotFound, Unavailable
from mainspring.protocol.ids import entropy

log = structlog.get_logger()

_SAVE_SECONDS = 1.0
"""The index is written with this delay; the server still has what is lost by a crash."""
_SAVE_SHARE = 50
"""Writing the index takes at most a fiftieth of the time: slow writes are less frequent."""


class FolderSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the initial sync of a folder."""

    pipelines: tuple[str, ...]
    """Ids of valid pipelines."""
    schedules: tuple[ScheduleInfo, ...]
    errors: dict[str, str]
    """Errors of invalid files, by path relative to the folder."""
    warnings: tuple[str, ...]


class FolderSource:
    """One folder, synced to one server. All methods run in one event loop."""

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
        self._emit = on_event
        self._mirror = Mirror(self._root, client, clock, on_event, max_history_entries)
        self._sync = FolderSync(self._root, client, clock, self._mirror, Random(entropy()), max_history_entries)
        self._has_begun = False
        self._caught_up = asyncio.Event()

    async def begin(self) -> FolderSummary:
        """Scan the folder and sync the server. Call it before the server fires schedules."""
        await self._sync.begin()
        self._has_begun = True
        return FolderSummary(
            pipelines=tuple(pipeline.id for pipeline in self._sync.pipelines),
            schedules=tuple(self.schedules()),
            errors={file_of(path): errors for path, errors in self._sync.broken.items()},
            warnings=self._sync.warnings,
        )

    async def run(self) -> None:
        """Sync the files and the server, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._follow_server())
            group.create_task(self._save_periodically())

    async def close(self) -> None:
        """Write pending state. The server may have stopped already."""
        if not self._has_begun:
            return
        try:
            await self._mirror.flush()
        except Unavailable as error:
            log.info("folder.closed_without_server", because=str(error))
        await self._sync.save()

    # change notifications

    def run_changed(self, schedule: str, run: str) -> None:
        """Note a durable change of a run of a schedule, by the server's ids."""
        self._mirror.note_run(schedule, run)

    def schedule_changed(self, schedules: Sequence[str]) -> None:
        """Note changes of schedules, by the server's ids."""
        self._mirror.note_schedules(schedules)

    # queries

    def schedules(self) -> list[ScheduleInfo]:
        """All schedules of the folder, sorted by pipeline id."""
        ordered = sorted(self._mirror.tracked_schedules.values(), key=lambda one: one.pipeline_id)
        return [self._info(one) for one in ordered]

    def find(self, reference: str) -> ScheduleInfo:
        """Find a schedule by scheduleId, pipelineId or a unique prefix. Raises NotFound."""
        schedules = self._mirror.tracked_schedules.values()
        exact = [one for one in schedules if reference in (one.schedule_id, one.pipeline_id)]
        prefixed = [one for one in schedules if reference and one.schedule_id.startswith(reference)]
        for found in (exact, prefixed):
            if len(found) == 1:
                return self._info(found[0])
        if len(prefixed) > 1:
            names = ", ".join(sorted(one.schedule_id for one in prefixed)[:3])
            raise NotFound(f"{reference} is ambiguous, {len(prefixed)} schedules match: {names}, ..")
        known = [name for one in schedules for name in (one.schedule_id, one.pipeline_id)]
        raise NotFound(f"no schedule {reference}{did_you_mean(reference, known)}")

    def server_id(self, reference: str) -> str:
        """Return the server's id of a schedule; a name is unique in one tenant only. Raises NotFound."""
        schedule_id = self.find(reference).schedule_id
        view = self._mirror.tracked_schedules[schedule_id].views.get(schedule_id)
        if view is None:
            raise NotFound(f"the server does not have {schedule_id} yet")
        return view.id

    async def result_of(self, schedule_id: str, run_id: str) -> PipelineExecutionResult:
        """Return the result of a finished run, once its state file has it."""
        await self._mirror.flush()
        run = await self._client.run(run_id)
        tasks = [task async for task in self._client.tasks_of(run_id, limit=MAX_TASKS)]
        outcome = state_view.outcome_of(run, tasks)
        record = state_view.record_of(run, outcome)
        tracked = self._mirror.tracked_schedules.get(schedule_id)
        history = tracked.tally.history if tracked is not None else ()
        return result_of(run, outcome, next((one for one in history if one.started_at == record.started_at), record))

    async def caught_up(self) -> None:
        """Wait until `run` has counted the runs that ended before this process started."""
        await self._caught_up.wait()

    def _info(self, tracked: TrackedSchedule) -> ScheduleInfo:
        due, view = tracked.written_state.next_run, tracked.views.get(tracked.schedule_id)
        return ScheduleInfo(
            schedule_id=tracked.schedule_id,
            pipeline_id=tracked.pipeline_id,
            pipeline_name=tracked.title,
            pipeline_directory=str(self._root / tracked.path),
            config=tracked.config,
            state=tracked.written_state,
            trigger="" if view is None else view.trigger,
            next_run_in=None if due is None else max(0, round((due - self._clock.wall()).total_seconds() * 1_000)),
        )

    # background loops

    async def _watch(self) -> None:
        """Sync changes of the folder, first those since the initial scan."""
        async with Watcher(self._root, self._clock) as watcher:
            await self._follow(None)
            async for paths in watcher:
                await self._follow(paths)

    async def _follow(self, paths: frozenset[str] | None) -> None:
        try:
            events = await when_available(lambda: self._sync.sync_changes(paths), self._clock)
        except (MainspringError, OSError) as error:
            # The server keeps its last state; the next change is synced again.
            log.exception("folder.not_followed", error=str(error))
            return
        for event in events:
            self._emit(event)

    async def _follow_server(self) -> None:
        """Count runs that ended while no scheduler ran, then mirror changes, so that totals never shrink."""
        await when_available(lambda: self._mirror.catch_up(self._sync.counted_until), self._clock)
        self._sync.is_caught_up = True
        self._sync.write_states()
        self._caught_up.set()
        await self._mirror.work()

    async def _save_periodically(self) -> None:
        pause = _SAVE_SECONDS
        while True:
            await self._clock.sleep(pause)
            if self._mirror.is_unsaved:
                began = self._clock.monotonic()
                await self._sync.save()
                pause = max(_SAVE_SECONDS, _SAVE_SHARE * (self._clock.monotonic() - began))
