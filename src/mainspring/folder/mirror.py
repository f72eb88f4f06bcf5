"""Mirror runs and schedules from the server to the state files, and emit events.

    change notification ──► note ──► query the server ──► count ──► state file ──► events

1. A note is cheap; many notes about one schedule or run cause one query.
2. Queries return durable state: a note that comes too early is followed by another.
3. Events follow the state file, so a listener finds the run in it.
4. A request that fails because the server stops is not an error: the note stays, and the next start counts the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from mainspring.client.aio.client import AsyncClient
from mainspring.folder import discover
from mainspring.folder.schedule_events import (
    ExecutionComplete,
    ExecutionError,
    ExecutionStart,
    FolderEvent,
    PipelineExecutionResult,
    Warned,
)
from mainspring.folder.state import result_files, state_files, state_view
from mainspring.folder.state.records import RunRecord, ScheduleState
from mainspring.folder.state.schedule_state import Live, Running
from mainspring.folder.state.state_view import Outcome
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import MainspringError, NotFound, Unavailable
from mainspring.protocol.rest.runs import RunView, TaskView
from mainspring.protocol.rest.schedules import ScheduleView

log = structlog.get_logger()

MOST_TASKS = 1_000
"""Tasks of a run that are read for its error and its outputs."""
LISTED_AT = 20
"""From this many schedules on, they are listed instead of fetched one by one."""
MOST_UNWATCHED = 100
"""Runs of one schedule that are counted after a restart."""
_AT_ONCE = 8
_GATHER_SECONDS = 0.03
"""Short runs start and end within it: one query instead of two."""
_AGAIN_SECONDS = 1.0
_OVERDUE_SECONDS = 0.2
_MARGIN = timedelta(minutes=1)


class Mirror:
    """Keeps the state files of a folder in sync with the server."""

    def __init__(
        self, root: Path, client: AsyncClient, clock: Clock, tell: Callable[[FolderEvent], None], most_history: int
    ) -> None:
        self._root, self._client, self._clock, self._tell, self._most = root, client, clock, tell, most_history
        self.lives: dict[str, Live] = {}
        """By scheduleId."""
        self._by_server_id: dict[str, Live] = {}
        self._runs: dict[str, dict[str, None]] = {}
        """Runs to query, by the server's id of their schedule."""
        self._touched: set[str] = set()
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()
        self.is_unsaved = False
        """A run was counted since the index was last written."""

    # notes

    def note_run(self, schedule: str, run: str) -> None:
        """Note that a run changed. `schedule` is the server's id."""
        self._runs.setdefault(schedule, {})[run] = None
        self._wake.set()

    def note_schedules(self, schedules: Iterable[str]) -> None:
        """Note that schedules changed."""
        self._touched.update(schedules)
        self._wake.set()

    # tracked schedules

    def add(self, live: Live) -> None:
        """Start tracking a schedule."""
        self.lives[live.schedule_id] = live

    def remove(self, schedule_id: str) -> Live | None:
        """Stop tracking a schedule."""
        live = self.lives.pop(schedule_id, None)
        for server_id in [one for one, its in self._by_server_id.items() if its is live]:
            del self._by_server_id[server_id]
        return live

    def forget(self, server_id: str) -> None:
        """Drop a server schedule that is no longer tracked."""
        self._by_server_id.pop(server_id, None)

    def take(self, view: ScheduleView) -> Live | None:
        """Record the server's view of a schedule; return the tracked schedule, if it is of this folder."""
        live = self.lives.get(view.name) or self.lives.get(view.name.removesuffix("-event"))
        if live is not None and view.name in live.names:
            live.views[view.name] = view
            self._by_server_id[view.id] = live
        return live

    def write(self, live: Live, *, on_disk: ScheduleState | None) -> None:
        """Write the state file of a schedule, if it differs from `on_disk`."""
        live.shown = live.now()
        if live.shown != on_disk:
            self.is_unsaved = True
            if not discover.leads_elsewhere(self._root, live.path):
                state_files.write_state(self._root / live.path, live.shown)

    # the work

    async def work(self) -> None:
        """Process notes, until cancelled."""
        while True:
            await self._wait()
            await self._clock.sleep(_GATHER_SECONDS)
            try:
                await self.settle()
            except Unavailable as error:
                log.debug("folder.server_unavailable", error=str(error))
                await self._clock.sleep(_AGAIN_SECONDS)
            except MainspringError:
                # The notes are lost for the state files, not on the server: the next note catches up.
                log.exception("folder.not_mirrored")

    async def settle(self) -> None:
        """Process all pending notes. Raises Unavailable, and keeps the notes."""
        async with self._looking:
            runs, self._runs = self._runs, {}
            touched, self._touched = self._touched, set()
            try:
                await self._look(touched, runs)
            except (Unavailable, asyncio.CancelledError):
                # Retried when the server is available, or by the next process.
                self.note_schedules(touched)
                for schedule, ids in runs.items():
                    for run in ids:
                        self.note_run(schedule, run)
                raise

    async def _wait(self) -> None:
        """Wait for a note, or until a retry is due, for which there is no notification."""
        due = [running.due_at for live in self.lives.values() for running in live.running.values() if running.due_at]
        now = self._clock.wall()
        left = max((min(due) - now).total_seconds(), _AGAIN_SECONDS) + _OVERDUE_SECONDS if due else None
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            self._note_tries(self._clock.wall())
        self._wake.clear()

    def _note_tries(self, now: datetime) -> None:
        for server_id, live in self._by_server_id.items():
            for run_id, running in live.running.items():
                if running.due_at is not None and running.due_at <= now:
                    self.note_run(server_id, run_id)

    async def _look(self, touched: set[str], runs: dict[str, dict[str, None]]) -> None:
        known = [one for one in (touched | runs.keys()) if one in self._by_server_id]
        await self.read_schedules(known)
        lives: dict[str, tuple[Live, dict[str, None]]] = {}
        for server_id in known:
            live = self._by_server_id.get(server_id)
            if live is not None:
                lives.setdefault(live.schedule_id, (live, {}))[1].update(runs.get(server_id, {}))
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def follow(live: Live, ids: Iterable[str]) -> None:
            async with at_once:
                await self._follow(live, ids)

        ends = await asyncio.gather(*(follow(*one) for one in lives.values()), return_exceptions=True)
        for error in ends:
            if isinstance(error, Unavailable):
                raise error
            if error is not None:
                # This schedule's state file misses a change until its next run; the others are up to date.
                log.error("folder.not_mirrored", exc_info=error)

    async def read_schedules(self, server_ids: Sequence[str]) -> None:
        """Fetch these schedules."""
        if len(server_ids) >= LISTED_AT:
            async for view in self._client.schedules():
                self.take(view)
            return
        for server_id in server_ids:
            try:
                self.take(await self._client.schedule(server_id))
            except NotFound:
                log.debug("folder.schedule_gone", schedule=server_id)

    async def _follow(self, live: Live, ids: Iterable[str]) -> None:
        """Fetch runs of a schedule, and record their changes."""
        events: list[FolderEvent] = []
        for run_id in ids:
            try:
                events += await self._follow_run(live, await self._client.run(run_id))
            except NotFound:
                live.running.pop(run_id, None)
        self._say(live, events)

    def _say(self, live: Live, events: Iterable[FolderEvent]) -> None:
        """Write the state file, then emit the events, unless the schedule was removed meanwhile."""
        if self.lives.get(live.schedule_id) is live:
            was = live.shown
            self.write(live, on_disk=was)
            for event in (*events, *_given_up(live, was)):
                self._tell(event)

    async def _follow_run(self, live: Live, run: RunView) -> list[FolderEvent]:
        """Record the changes of a run; return its events."""
        is_over = state_view.is_over(run)
        running = live.running.get(run.id)
        if live.has_counted(run):
            live.running.pop(run.id, None)
            return []
        events: list[FolderEvent] = [] if running is not None else [_start(live, run)]
        told = 0 if running is None else running.tries_told
        tasks: list[TaskView] = []
        if is_over or run.retries or state_view.is_held(run):
            tasks = [task async for task in self._client.tasks_of(run.id, limit=MOST_TASKS)]
        outcome = state_view.outcome_of(run, tasks)
        events += [
            _retried(live, run, number, _last_error(outcome, tasks)) for number in range(told + 1, run.retries + 1)
        ]
        if is_over:
            live.running.pop(run.id, None)
            return [*events, self._count(live, run, outcome)]
        record = state_view.record_of(run, outcome)
        if state_view.is_held(run) and (running is None or running.record.error != record.error):
            events.append(_held(live, run, outcome))
        live.running[run.id] = Running(record=record, due_at=outcome.due_at, tries_told=run.retries)
        return events

    def _count(self, live: Live, run: RunView, outcome: Outcome) -> FolderEvent:
        """Count a finished run, and write its result file; return its final event."""
        directory = self._root / live.path
        record = state_view.record_of(run, outcome)
        is_here = not discover.leads_elsewhere(self._root, live.path)
        if is_here and outcome.result_file is None:
            file = result_files.result_of(run.id, live.pipeline_id, run.state, record, outcome.outputs)
            record = state_view.with_result(record, result_files.write_result(directory, file))
        if is_here:
            result_files.delete_old(directory)
        live.tally = state_view.count(live.tally, run, record, most=self._most)
        return _end(live, run, result_of(run, outcome, record))

    # runs that ended while no scheduler was running

    async def look_back(self, live: Live) -> None:
        """Note the runs of a schedule from before it was tracked."""
        for server_id in [one for one, its in self._by_server_id.items() if its is live]:
            async for run in self._client.runs(q=f"schedule:{server_id}", limit=MOST_UNWATCHED):
                self.note_run(server_id, run.id)

    async def catch_up(self, since: datetime | None) -> None:
        """Count runs that ended while no scheduler was running, `since` the last saved index, or all if None."""
        found = await self._unwatched(since)
        for live in list(self.lives.values()):
            async with self._looking:
                runs = [run for run in found.get(live.schedule_id, {}).values() if not live.has_counted(run)]
                events: list[FolderEvent] = []
                for run in sorted(runs, key=lambda one: one.created_at):
                    told = await self._follow_run(live, run)
                    events += [] if state_view.is_over(run) else told
                live.open, live.is_unsure = (), False
                if runs:
                    self._say(live, events)

    async def _unwatched(self, since: datetime | None) -> dict[str, dict[str, RunView]]:
        """Runs that may not have been counted, by scheduleId and id."""
        found: dict[str, dict[str, RunView]] = {}
        for server_id, live in list(self._by_server_id.items()):
            if live.is_unsure:
                wanted = self._client.runs(q=f"schedule:{server_id}", limit=MOST_UNWATCHED)
                found.setdefault(live.schedule_id, {}).update({run.id: run async for run in wanted})
        for live in list(self.lives.values()):
            for run_id in live.open:
                try:
                    found.setdefault(live.schedule_id, {})[run_id] = await self._client.run(run_id)
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


def _held(live: Live, run: RunView, outcome: Outcome) -> Warned:
    act = f"check `mainspring show {run.id}`, then `mainspring resume {run.id}` or `mainspring cancel {run.id}`"
    return Warned(message=f"{live.pipeline_id} is paused and needs manual action: {outcome.error}; {act}")


def _given_up(live: Live, was: ScheduleState) -> list[FolderEvent]:
    """Return a warning if a schedule was disabled although its file enables it."""
    view = live.views.get(live.schedule_id)
    if not was.enabled or live.shown.enabled or view is None or not live.config.enabled:
        return []
    message = f"{live.pipeline_id} was disabled: {view.because}. To resume: mainspring resume {live.pipeline_id}"
    return [Warned(message=message)]


def _start(live: Live, run: RunView) -> ExecutionStart:
    return ExecutionStart(schedule_id=live.schedule_id, pipeline_id=live.pipeline_id, run_id=run.id)


def _retried(live: Live, run: RunView, number: int, error: str) -> ExecutionError:
    return ExecutionError(
        schedule_id=live.schedule_id, pipeline_id=live.pipeline_id, run_id=run.id, error=error, will_retry=True,
        retry_attempt=number,
    )  # fmt: skip


def _end(live: Live, run: RunView, result: PipelineExecutionResult) -> FolderEvent:
    if result.success:
        return ExecutionComplete(
            schedule_id=live.schedule_id, pipeline_id=live.pipeline_id, run_id=run.id, result=result,
            duration=result.duration,
        )  # fmt: skip
    return ExecutionError(
        schedule_id=live.schedule_id, pipeline_id=live.pipeline_id, run_id=run.id, error=result.error or run.state,
        will_retry=False, retry_attempt=run.retries,
    )  # fmt: skip


def _last_error(outcome: Outcome, tasks: Sequence[TaskView]) -> str:
    """The error of the latest failed attempt, even if the next attempt has started."""
    if outcome.error is not None:
        return outcome.error
    return next((error for task in tasks if (error := state_view.error_of(task)) is not None), "an attempt failed")
