"""Mirror runs and schedules from the server to the state files, and emit events.

    change notification ──► note ──► query the server ──► count ──► state file ──► events

1. A note is cheap; many notes about one schedule or run cause one query.
2. Queries return durable state: a note that comes too early is followed by another.
3. Events follow the state file, so a listener finds the run in it.
4. A request that fails because the server stops is not an error: the note stays, and the next start counts the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import structlog
from msgspec.structs import replace

from mainspring.client.aio.client import AsyncClient
from mainspring.folder import discover
from mainspring.folder.schedule_events import (
    ExecutionComplete,
    ExecutionError,
    ExecutionStart,
    FolderEvent,
    PipelineExecutionResult,
    WarningRaised,
)
from mainspring.folder.state import result_files, state_files, state_view
from mainspring.folder.state.records import RunRecord, ScheduleState
from mainspring.folder.state.schedule_state import ActiveRun, TrackedSchedule
from mainspring.folder.state.state_view import Outcome
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import MainspringError, NotFound, Unavailable
from mainspring.protocol.rest.runs import RunView, TaskView
from mainspring.protocol.rest.schedules import ScheduleView

log = structlog.get_logger()
_T = TypeVar("_T")

MAX_TASKS = 1_000
"""Tasks of a run that are read for its error and its outputs."""
_LIST_THRESHOLD = 20
"""From this many schedules on, they are listed instead of fetched one by one."""
MAX_UNCOUNTED_RUNS = 100
"""Runs of one schedule that are counted after a restart."""
_CONCURRENCY = 8
_GATHER_SECONDS = 0.03
"""Short runs start and end within it: one query instead of two."""
_RETRY_SECONDS = 1.0
_OVERDUE_SECONDS = 0.2
_MARGIN = timedelta(minutes=1)


async def when_available(request: Callable[[], Awaitable[_T]], clock: Clock) -> _T:
    """Send a request to the server, and again while it is unavailable."""
    while True:
        try:
            return await request()
        except Unavailable as error:
            log.debug("folder.server_unavailable", error=str(error))
            await clock.sleep(_RETRY_SECONDS)


class Mirror:
    """Keeps the state files of a folder in sync with the server."""

    def __init__(
        self, root: Path, client: AsyncClient, clock: Clock, emit: Callable[[FolderEvent], None], max_history: int
    ) -> None:
        self._root, self._client, self._clock, self._emit, self._max_history = root, client, clock, emit, max_history
        self.tracked_schedules: dict[str, TrackedSchedule] = {}
        """By scheduleId."""
        self._by_server_id: dict[str, TrackedSchedule] = {}
        self._notes: dict[str, dict[str, None]] = {}
        """Schedules to query, by the server's id, each with its runs to query."""
        self._wake = asyncio.Event()
        self._sync_lock = asyncio.Lock()
        self.is_unsaved = False
        """A run was counted since the index was last written."""

    # notes

    def note_run(self, schedule: str, run: str) -> None:
        """Note that a run changed. `schedule` is the server's id."""
        self._notes.setdefault(schedule, {})[run] = None
        self._wake.set()

    def note_schedules(self, schedules: Iterable[str]) -> None:
        """Note that schedules changed."""
        for schedule in schedules:
            self._notes.setdefault(schedule, {})
        self._wake.set()

    # tracked schedules

    def add(self, tracked: TrackedSchedule) -> None:
        """Start tracking a schedule."""
        self.tracked_schedules[tracked.schedule_id] = tracked

    def remove(self, schedule_id: str) -> None:
        """Stop tracking a schedule."""
        tracked = self.tracked_schedules.pop(schedule_id, None)
        self._by_server_id = {one: its for one, its in self._by_server_id.items() if its is not tracked}

    def forget(self, server_id: str) -> None:
        """Drop a server schedule that is no longer tracked."""
        self._by_server_id.pop(server_id, None)

    def update_view(self, view: ScheduleView) -> TrackedSchedule | None:
        """Record the server's view of a schedule; return the tracked schedule, if it is of this folder."""
        tracked = self.tracked_schedules.get(view.name) or self.tracked_schedules.get(view.name.removesuffix("-event"))
        if tracked is not None and view.name in tracked.names:
            tracked.views[view.name] = view
            self._by_server_id[view.id] = tracked
        return tracked

    def write(self, tracked: TrackedSchedule, *, on_disk: ScheduleState | None) -> None:
        """Write the state file of a schedule, if it differs from `on_disk`."""
        tracked.written_state = tracked.now()
        if tracked.written_state != on_disk:
            self.is_unsaved = True
            if not discover.is_behind_symlink(self._root, tracked.path):
                state_files.write_state(self._root / tracked.path, tracked.written_state)

    # the work

    async def work(self) -> None:
        """Process notes, until cancelled."""
        while True:
            await self._wait()
            await self._clock.sleep(_GATHER_SECONDS)
            try:
                await when_available(self.flush, self._clock)
            except MainspringError:
                # The notes are lost for the state files, not on the server: the next note catches up.
                log.exception("folder.not_mirrored")

    async def flush(self) -> None:
        """Process all pending notes. Raises Unavailable, and keeps the notes."""
        async with self._sync_lock:
            notes, self._notes = self._notes, {}
            try:
                await self._sync(notes)
            except (Unavailable, asyncio.CancelledError):
                # Retried when the server is available, or by the next process.
                self.note_schedules(notes)
                for schedule, runs in notes.items():
                    self._notes[schedule].update(runs)
                raise

    async def _wait(self) -> None:
        """Wait for a note, or until a retry is due, for which there is no notification."""
        due = [
            running.due_at
            for tracked in self.tracked_schedules.values()
            for running in tracked.running.values()
            if running.due_at
        ]
        now = self._clock.wall()
        left = max((min(due) - now).total_seconds(), _RETRY_SECONDS) + _OVERDUE_SECONDS if due else None
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            self._note_due_retries(self._clock.wall())
        self._wake.clear()

    def _note_due_retries(self, now: datetime) -> None:
        for server_id, tracked in self._by_server_id.items():
            for run_id, running in tracked.running.items():
                if running.due_at is not None and running.due_at <= now:
                    self.note_run(server_id, run_id)

    async def _sync(self, notes: Mapping[str, Mapping[str, None]]) -> None:
        known = [one for one in notes if one in self._by_server_id]
        await self.read_schedules(known)
        tracked_schedules: dict[str, tuple[TrackedSchedule, dict[str, None]]] = {}
        for server_id in known:
            tracked = self._by_server_id.get(server_id)
            if tracked is not None:
                tracked_schedules.setdefault(tracked.schedule_id, (tracked, {}))[1].update(notes[server_id])
        semaphore = asyncio.Semaphore(_CONCURRENCY)

        async def follow(tracked: TrackedSchedule, ids: Iterable[str]) -> None:
            async with semaphore:
                await self._follow(tracked, ids)

        ends = await asyncio.gather(*(follow(*one) for one in tracked_schedules.values()), return_exceptions=True)
        for error in ends:
            if isinstance(error, Unavailable):
                raise error
            if error is not None:
                # This schedule's state file misses a change until its next run; the others are up to date.
                log.error("folder.not_mirrored", exc_info=error)

    async def read_schedules(self, server_ids: Sequence[str]) -> None:
        """Fetch these schedules."""
        if len(server_ids) >= _LIST_THRESHOLD:
            async for view in self._client.schedules():
                self.update_view(view)
            return
        for server_id in server_ids:
            try:
                self.update_view(await self._client.schedule(server_id))
            except NotFound:
                log.debug("folder.schedule_gone", schedule=server_id)

    async def _follow(self, tracked: TrackedSchedule, ids: Iterable[str]) -> None:
        """Fetch runs of a schedule, and record their changes."""
        events: list[FolderEvent] = []
        for run_id in ids:
            try:
                events += await self._follow_run(tracked, await self._client.run(run_id))
            except NotFound:
                tracked.running.pop(run_id, None)
        self._write_and_emit(tracked, events)

    def _write_and_emit(self, tracked: TrackedSchedule, events: Iterable[FolderEvent]) -> None:
        """Write the state file, then emit the events, unless the schedule was removed meanwhile."""
        if self.tracked_schedules.get(tracked.schedule_id) is tracked:
            previous = tracked.written_state
            self.write(tracked, on_disk=previous)
            for event in (*events, *_disabled_warnings(tracked, previous)):
                self._emit(event)

    async def _follow_run(self, tracked: TrackedSchedule, run: RunView) -> list[FolderEvent]:
        """Record the changes of a run; return its events."""
        has_ended = state_view.has_ended(run)
        running = tracked.running.get(run.id)
        if tracked.has_counted(run):
            tracked.running.pop(run.id, None)
            return []
        events: list[FolderEvent] = []
        if running is None:
            events.append(
                ExecutionStart(schedule_id=tracked.schedule_id, pipeline_id=tracked.pipeline_id, run_id=run.id)
            )
        reported = 0 if running is None else running.reported_attempts
        tasks: list[TaskView] = []
        if has_ended or run.retries or state_view.is_paused(run):
            tasks = [task async for task in self._client.tasks_of(run.id, limit=MAX_TASKS)]
        outcome = state_view.outcome_of(run, tasks)
        events += [
            _retried(tracked, run, number, _last_error(outcome, tasks))
            for number in range(reported + 1, run.retries + 1)
        ]
        if has_ended:
            tracked.running.pop(run.id, None)
            return [*events, self._count(tracked, run, outcome)]
        record = state_view.record_of(run, outcome)
        if state_view.is_paused(run) and (running is None or running.record.error != record.error):
            events.append(_paused_warning(tracked, run, outcome))
        tracked.running[run.id] = ActiveRun(record=record, due_at=outcome.due_at, reported_attempts=run.retries)
        return events

    def _count(self, tracked: TrackedSchedule, run: RunView, outcome: Outcome) -> FolderEvent:
        """Count a finished run, and write its result file; return its final event."""
        directory = self._root / tracked.path
        record = state_view.record_of(run, outcome)
        is_here = not discover.is_behind_symlink(self._root, tracked.path)
        if is_here and outcome.result_file is None:
            file = result_files.result_of(run.id, tracked.pipeline_id, run.state, record, outcome.outputs)
            if (written := result_files.write_result(directory, file)) is not None:
                record = replace(record, result_file=written)
        if is_here:
            result_files.delete_old(directory)
        tracked.tally = state_view.count(tracked.tally, run, record, max_history=self._max_history)
        return _end(tracked, run, result_of(run, outcome, record))

    # runs that ended while no scheduler was running

    async def note_past_runs(self, tracked: TrackedSchedule) -> None:
        """Note the runs of a schedule from before it was tracked."""
        for server_id in [one for one, its in self._by_server_id.items() if its is tracked]:
            async for run in self._client.runs(q=f"schedule:{server_id}", limit=MAX_UNCOUNTED_RUNS):
                self.note_run(server_id, run.id)

    async def catch_up(self, since: datetime | None) -> None:
        """Count runs that ended while no scheduler was running, `since` the last saved index, or all if None."""
        found = await self._uncounted_runs(since)
        for tracked in list(self.tracked_schedules.values()):
            async with self._sync_lock:
                runs = [run for run in found.get(tracked.schedule_id, {}).values() if not tracked.has_counted(run)]
                events: list[FolderEvent] = []
                for run in sorted(runs, key=lambda one: one.created_at):
                    reported = await self._follow_run(tracked, run)
                    events += [] if state_view.has_ended(run) else reported
                tracked.open, tracked.may_have_uncounted_runs = (), False
                if runs:
                    self._write_and_emit(tracked, events)

    async def _uncounted_runs(self, since: datetime | None) -> dict[str, dict[str, RunView]]:
        """Runs that may not have been counted, by scheduleId and id."""
        found: dict[str, dict[str, RunView]] = {}
        for server_id, tracked in list(self._by_server_id.items()):
            if tracked.may_have_uncounted_runs:
                wanted = self._client.runs(q=f"schedule:{server_id}", limit=MAX_UNCOUNTED_RUNS)
                found.setdefault(tracked.schedule_id, {}).update({run.id: run async for run in wanted})
        for tracked in list(self.tracked_schedules.values()):
            for run_id in tracked.open:
                try:
                    found.setdefault(tracked.schedule_id, {})[run_id] = await self._client.run(run_id)
                except NotFound:
                    log.debug("folder.run_gone", run=run_id)
        if since is None:
            return found
        async for run in self._client.runs():
            if run.created_at < since - _MARGIN:
                break
            if (owner := self._by_server_id.get(run.schedule_id or "")) is not None:
                found.setdefault(owner.schedule_id, {})[run.id] = run
        return found


def result_of(run: RunView, outcome: Outcome, record: RunRecord) -> PipelineExecutionResult:
    """Return the result of a run."""
    return PipelineExecutionResult(
        run_id=run.id,
        success=record.success,
        state=run.state,
        outputs=outcome.outputs,
        items_processed=outcome.items_processed,
        result_file=record.result_file if isinstance(record.result_file, str) else None,
        error=outcome.error,
        duration=record.duration if isinstance(record.duration, int) else 0,
    )


def _paused_warning(tracked: TrackedSchedule, run: RunView, outcome: Outcome) -> WarningRaised:
    action = f"check `mainspring show {run.id}`, then `mainspring resume {run.id}` or `mainspring cancel {run.id}`"
    return WarningRaised(message=f"{tracked.pipeline_id} is paused and needs manual action: {outcome.error}; {action}")


def _disabled_warnings(tracked: TrackedSchedule, previous: ScheduleState) -> list[FolderEvent]:
    """Return a warning if a schedule was disabled although its file enables it."""
    view = tracked.views.get(tracked.schedule_id)
    if not previous.enabled or tracked.written_state.enabled or view is None or not tracked.config.enabled:
        return []
    message = f"{tracked.pipeline_id} was disabled: {view.because}. To resume: mainspring resume {tracked.pipeline_id}"
    return [WarningRaised(message=message)]


def _retried(tracked: TrackedSchedule, run: RunView, number: int, error: str) -> ExecutionError:
    return ExecutionError(
        schedule_id=tracked.schedule_id, pipeline_id=tracked.pipeline_id, run_id=run.id, error=error, will_retry=True,
        retry_attempt=number,
    )  # fmt: skip


def _end(tracked: TrackedSchedule, run: RunView, result: PipelineExecutionResult) -> FolderEvent:
    if result.success:
        return ExecutionComplete(
            schedule_id=tracked.schedule_id, pipeline_id=tracked.pipeline_id, run_id=run.id, result=result,
            duration=result.duration,
        )  # fmt: skip
    return ExecutionError(
        schedule_id=tracked.schedule_id, pipeline_id=tracked.pipeline_id, run_id=run.id,
        error=result.error or run.state,
        will_retry=False, retry_attempt=run.retries,
    )  # fmt: skip


def _last_error(outcome: Outcome, tasks: Sequence[TaskView]) -> str:
    """The error of the latest failed attempt, even if the next attempt has started."""
    if outcome.error is not None:
        return outcome.error
    return next((error for task in tasks if (error := state_view.error_of(task)) is not None), "an attempt failed")
