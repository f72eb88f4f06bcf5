"""Sync the server with the files of a folder: execute the plan of `reconcile.py`, and record it in the index.

    scan the directories ─► reconcile ─► apply ─► delete stale objects ─► state files, webhooks, index ─► events

The process may be killed after any step. The next one finds on the server what was applied but not recorded
(`reconcile.FolderSnapshot.on_server`) and applies it again, which is idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Literal

import msgspec
import structlog
from msgspec.structs import replace

from mainspring.client.aio.client import AsyncClient
from mainspring.client.responses import error_of_problem
from mainspring.definitions.pipeline_checks import unknown_afters
from mainspring.definitions.pipeline_file import Pipeline, locate_faults
from mainspring.folder import discover
from mainspring.folder.info import config_of
from mainspring.folder.mirror import Mirror
from mainspring.folder.notify_webhooks import FolderWebhooks
from mainspring.folder.reconcile import (
    ADDED,
    DesiredPipeline,
    FolderSnapshot,
    Identity,
    Kind,
    Plan,
    definitions,
    is_schedule,
    reconcile,
)
from mainspring.folder.scan import FolderScan, file_of
from mainspring.folder.schedule_events import FileBroken, FileFixed, FolderEvent, ScheduleChanged, WarningRaised
from mainspring.folder.shared_groups import follow_groups
from mainspring.folder.state import state_files, state_view
from mainspring.folder.state.index import Index, IndexEntry
from mainspring.folder.state.records import ScheduleState, ScheduleStatus
from mainspring.folder.state.schedule_state import TrackedSchedule
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Conflict, NotFound, Refused
from mainspring.protocol.rest.apply import ApplyItem, ApplyItemResult, ScheduleItem
from mainspring.protocol.rest.runs import Problem
from mainspring.protocol.rest.schedules import ScheduleView

log = structlog.get_logger()

_APPLY_REASON = "synced from the folder's files"
_DELETE_REASON = "its file was removed from the folder"
_FRESH_KINDS = frozenset({Kind.NEW, Kind.COPY, Kind.RESTORED})
"""Missed windows of these do not run."""


class FolderSync:
    """Syncs one folder to a server."""

    def __init__(
        self, root: Path, client: AsyncClient, clock: Clock, mirror: Mirror, random: Random, max_history: int
    ) -> None:
        self._root, self._client, self._clock, self._mirror = root, client, clock, mirror
        self._random, self._max_history = random, max_history
        self._scan = FolderScan(root)
        self._webhooks = FolderWebhooks(client)
        self._index = Index(root)
        self._save_lock = asyncio.Lock()
        self._unscheduled: dict[str, IndexEntry] = {}
        """Pipelines without a schedule."""
        self._server_ids: dict[str, str] = {}
        """Server ids of schedules, by their names on the server."""
        self.counted_until: datetime | None = None
        """Runs that ended before this were counted by an earlier process; None if unknown."""
        self.is_caught_up = False
        """Runs that ended since then have been counted too."""
        self.broken: dict[str, str] = {}
        """Errors of invalid pipeline files, by directory."""
        self.warnings: tuple[str, ...] = ()
        """Current warnings about the folder."""

    @property
    def pipelines(self) -> list[Pipeline]:
        """Pipelines with a valid file."""
        return [
            scanned.pipeline
            for path, scanned in self._scan.scanned.items()
            if scanned.pipeline and path not in self.broken
        ]

    # full and incremental sync

    async def begin(self) -> None:
        """Sync the folder for the first time in this process."""
        self._index = await asyncio.to_thread(Index.load, self._root)
        self.counted_until = self._index.saved_at
        for key, known in self._index.entries.items():
            if is_schedule(key):
                self._mirror.add(tracked := TrackedSchedule(known))
                tracked.may_have_uncounted_runs = self.counted_until is None
            else:
                self._unscheduled[key] = known
        await asyncio.to_thread(self._scan.scan_all, self._scheduled())
        views = [view async for view in self._client.schedules()]
        self._update_views(views)
        has_unscheduled = self._unscheduled or any(not one.is_scheduled for one in self._scan.directories())
        jobs = frozenset([job.name async for job in self._client.jobs()]) if has_unscheduled else None
        await self._webhooks.load()
        plan = self._plan(on_server={view.name: view.job for view in views}, jobs=jobs)
        refused = await self._execute(plan)
        if plan.wanted or plan.adopted:
            self._update_views([view async for view in self._client.schedules()])
        self.write_states(keep_newer=True)
        orphaned = [] if self._scan.unreadable else self._webhooks.orphaned_keys(self._known())
        await self._sync_webhooks(plan, [*(one.schedule_id for one in plan.identities), *orphaned])
        self._record_file_errors(refused)
        await self.save()

    async def sync_changes(self, paths: Iterable[str] | None) -> list[FolderEvent]:
        """Sync changes of these directories, or of all of them, and return the events to emit."""
        if paths is None:
            await asyncio.to_thread(self._scan.scan_all, self._scheduled())
        elif not await asyncio.to_thread(self._scan.rescan, paths, self._scheduled()):
            return []
        before, warned = dict(self.broken), set(self.warnings)
        plan = self._plan()
        schedules = self._mirror.tracked_schedules
        gone = {key: schedules[key] for key in plan.forgotten if key in schedules}
        refused = await self._execute(plan)
        accepted = [one for one in plan.wanted if one.identity.path not in refused]
        await self._refresh_schedules(accepted)
        rewritten = [one.schedule_id for one in plan.identities if one.kind is Kind.RECREATED]
        for key in {*(one.identity.schedule_id for one in accepted), *rewritten}:
            if key in schedules:
                self._mirror.write(schedules[key], on_disk=None)
        await self._sync_webhooks(plan, [one.identity.schedule_id for one in accepted])
        self._record_file_errors(refused)
        if accepted or plan.forgotten:
            await self.save()
        return [
            *(WarningRaised(message=one) for one in self.warnings if one not in warned),
            *self._file_events(before),
            *(
                _changed(one.identity, "added" if one.identity.kind in ADDED else "updated")
                for one in accepted
                if one.names
            ),
            *(_changed(tracked, "removed") for key, tracked in gone.items() if key not in schedules),
        ]

    def write_states(self, *, keep_newer: bool = False) -> None:
        """Write every state file.

        A file can be ahead of the index if the previous process was killed. `keep_newer` keeps such a file until its
        runs have been counted again.
        """
        for tracked in self._mirror.tracked_schedules.values():
            state = self._scan.state(tracked.path)
            is_ahead = state is not None and state.stats.total_runs > tracked.tally.stats.total_runs
            if not (keep_newer and is_ahead):
                self._mirror.write(tracked, on_disk=state)

    async def save(self) -> None:
        """Write the index."""
        async with self._save_lock:
            self._mirror.is_unsaved = False
            self._index.saved_at = self._clock.wall() if self.is_caught_up else self.counted_until
            self._index.entries = self._known()
            await asyncio.to_thread(self._index.save)

    # executing the plan

    def _plan(self, on_server: dict[str, str] | None = None, jobs: frozenset[str] | None = None) -> Plan:
        return reconcile(
            FolderSnapshot(
                directories=self._scan.directories(), known=self._known(), on_server=on_server, jobs_on_server=jobs,
                unreadable=self._scan.unreadable,
            ),
            self._random,
        )  # fmt: skip

    async def _execute(self, plan: Plan) -> dict[str, str]:
        """Apply the plan to the server and the state files; return the server's refusals by path."""
        refused: dict[str, str] = {}
        warnings = await follow_groups(self._client, [one.pipeline for one in plan.wanted])
        lines = [line async for line in self._client.apply([self._item(one) for one in plan.wanted], why=_APPLY_REASON)]
        for wanted, line in zip(plan.wanted, lines, strict=True):
            if line.problem is not None:
                refused[wanted.identity.path] = _format_refusal(wanted.pipeline, line.problem)
            else:
                await self._delete_from_previous_tenant(wanted)
                self._accept(wanted, line)
        for identity in plan.adopted:
            self._adopt(identity)
        await self._forget(plan, refused)
        for path in plan.archived:
            if path not in refused:
                state_files.archive_state(self._root / path)
        for path in plan.deleted:
            if not discover.is_behind_symlink(self._root, path):
                state_files.drop_state(self._root / path)
        for identity in plan.identities:
            self._describe(identity)
        self.warnings = (*self._scan.faults, *self._file_warnings(), *plan.warnings, *warnings)
        return refused

    def _item(self, wanted: DesiredPipeline) -> ApplyItem:
        identity = wanted.identity
        past = self._previous_state(wanted)
        is_paused = past is not None and past.status is ScheduleStatus.PAUSED
        since = None if past is None or is_paused else state_view.missed_since(past, self._clock.wall())
        return ApplyItem(
            job=msgspec.Raw(wanted.pipeline.job),
            schedules=[
                ScheduleItem(
                    definition=msgspec.Raw(text), since=since, paused=is_paused and name == identity.schedule_id
                )
                for name, text in definitions(wanted.pipeline, identity.schedule_id)
            ],
            tenant=wanted.pipeline.tenant,
        )

    def _previous_state(self, wanted: DesiredPipeline) -> ScheduleState | None:
        """Return the last state of a schedule that the server does not have, to continue from."""
        identity = wanted.identity
        if not wanted.is_missing or identity.kind in _FRESH_KINDS:
            return None
        tracked = self._mirror.tracked_schedules.get(identity.schedule_id)
        return self._scan.state(identity.path) or (None if tracked is None else tracked.written_state)

    def _accept(self, wanted: DesiredPipeline, line: ApplyItemResult) -> None:
        """Record a definition that the server accepted."""
        identity = wanted.identity
        self._server_ids.update({one.name: one.id for one in line.schedules if one.id is not None})
        known = IndexEntry(
            schedule_id=identity.schedule_id, pipeline_id=identity.pipeline_id, path=identity.path,
            tenant=wanted.pipeline.tenant, digest=wanted.digest, names=wanted.names,
        )  # fmt: skip
        tracked = self._mirror.tracked_schedules.get(identity.schedule_id)
        if not wanted.names:
            self._unscheduled[identity.schedule_id] = known
        elif tracked is not None:
            tracked.follow(known)
        else:
            self._track(known, identity.kind, is_on_server=not wanted.is_missing)

    def _adopt(self, identity: Identity) -> None:
        """Track a schedule that the server has and whose file is invalid."""
        names = [name for name in (identity.schedule_id, f"{identity.schedule_id}-event") if name in self._server_ids]
        known = IndexEntry(
            schedule_id=identity.schedule_id, pipeline_id=identity.pipeline_id, path=identity.path, names=tuple(names)
        )
        self._track(known, identity.kind, is_on_server=True)

    def _track(self, known: IndexEntry, kind: Kind, *, is_on_server: bool) -> None:
        """Track a new schedule, with the history from its state file."""
        state = self._scan.state(known.path)
        if kind in {Kind.IMPORTED, Kind.RESTORED} and state is not None:
            tally = state_view.import_tally(
                state, self._clock.wall(), is_on_server=is_on_server, max_history=self._max_history
            )
            known = replace(known, stats=tally.stats, history=tally.history, counted_until=tally.counted_until)
        tracked = TrackedSchedule(known)
        tracked.may_have_uncounted_runs = is_on_server
        self._mirror.add(tracked)

    def _describe(self, identity: Identity) -> None:
        tracked = self._mirror.tracked_schedules.get(identity.schedule_id)
        pipeline = self._scan.scanned[identity.path].pipeline
        if tracked is not None and pipeline is not None:
            tracked.title, tracked.config = pipeline.title, config_of(pipeline)

    async def _forget(self, plan: Plan, refused: Mapping[str, str]) -> None:
        """Drop removed pipelines, except those whose replacement the server refused.

        Schedules and jobs that are missing, or in use elsewhere, are skipped.
        """
        known = self._known()
        untouched = {one.identity.schedule_id for one in plan.wanted if one.identity.path in refused}
        untouched |= {key for key in plan.forgotten if known[key].path in refused}
        for name in plan.dropped_schedules:
            if name not in untouched and name.removesuffix("-event") not in untouched:
                await self._delete_schedule(self._server_ids.pop(name, name))
        for job, tenant in plan.dropped_jobs.items():
            await self._delete_job(job, tenant)
        for key in plan.forgotten:
            if key not in untouched:
                self._unscheduled.pop(key, None)
                self._mirror.remove(key)

    async def _delete_from_previous_tenant(self, wanted: DesiredPipeline) -> None:
        """Delete the objects of a pipeline that moved to another tenant."""
        tracked = self._mirror.tracked_schedules.get(wanted.identity.schedule_id)
        if tracked is None or tracked.tenant == wanted.pipeline.tenant:
            return
        for name in tracked.names:
            if (server_id := self._server_ids.pop(name, None)) is not None:
                self._mirror.forget(server_id)
                await self._delete_schedule(server_id)
        await self._delete_job(tracked.pipeline_id, tracked.tenant)

    async def _delete_schedule(self, server_id: str) -> None:
        try:
            await self._client.delete_schedule(server_id, _DELETE_REASON)
        except NotFound:
            log.debug("folder.schedule_gone", schedule=server_id)

    async def _delete_job(self, job: str, tenant: str | None) -> None:
        try:
            await self._client.delete_job(job, _DELETE_REASON, tenant=tenant)
        except (NotFound, Conflict) as error:
            log.info("folder.job_kept", job=job, because=str(error))

    async def _refresh_schedules(self, accepted: Sequence[DesiredPipeline]) -> None:
        """Fetch the schedules that were just applied, and their past runs."""
        await self._mirror.read_schedules([self._server_ids[name] for one in accepted for name in one.names])
        for one in accepted:
            if one.is_missing and (tracked := self._mirror.tracked_schedules.get(one.identity.schedule_id)) is not None:
                await self._mirror.note_past_runs(tracked)

    def _update_views(self, views: Iterable[ScheduleView]) -> None:
        for view in views:
            self._server_ids[view.name] = view.id
            self._mirror.update_view(view)

    async def _sync_webhooks(self, plan: Plan, keys: Iterable[str]) -> None:
        paths = {one.schedule_id: one.path for one in plan.identities}
        warnings: list[str] = []
        for key in (*keys, *plan.forgotten):
            pipeline = self._scan.scanned[paths[key]].pipeline if key in paths else None
            warnings += await self._webhooks.follow(key, pipeline)
        self.warnings = (*self.warnings, *warnings)

    # errors and warnings

    def _record_file_errors(self, refused: dict[str, str]) -> None:
        unread = {path: scanned.errors for path, scanned in self._scan.scanned.items() if scanned.pipeline is None}
        self.broken = {**unread, **self._scan.cycles, **refused}

    def _file_warnings(self) -> list[str]:
        pipelines = [scanned.pipeline for scanned in self._scan.scanned.values() if scanned.pipeline is not None]
        ignored_fields = [fault for pipeline in pipelines for fault in pipeline.warnings]
        ids = {scanned.found.pipeline_id for scanned in self._scan.scanned.values()}
        return [f"{fault.where}: {fault.why}" for fault in (*ignored_fields, *unknown_afters(pipelines, ids))]

    def _file_events(self, before: dict[str, str]) -> list[FolderEvent]:
        used = self._scheduled() | {known.path for known in self._unscheduled.values()}
        fixed = [path for path in before if path not in self.broken and path in self._scan.scanned]
        return [
            *(
                FileBroken(file=file_of(path), errors=errors, keeps_running=path in used)
                for path, errors in self.broken.items()
                if before.get(path) != errors
            ),
            *(FileFixed(file=file_of(path)) for path in fixed),
        ]

    def _known(self) -> dict[str, IndexEntry]:
        return self._unscheduled | {key: one.known() for key, one in self._mirror.tracked_schedules.items()}

    def _scheduled(self) -> set[str]:
        """The paths of scheduled pipelines."""
        return {tracked.path for tracked in self._mirror.tracked_schedules.values()}


def _changed(schedule: Identity | TrackedSchedule, change: Literal["added", "updated", "removed"]) -> ScheduleChanged:
    return ScheduleChanged(schedule_id=schedule.schedule_id, pipeline_id=schedule.pipeline_id, change=change)


def _format_refusal(pipeline: Pipeline, problem: Problem) -> str:
    """Format the server's refusal of a pipeline, with lines of its file where they are known."""
    error = error_of_problem(problem)
    if isinstance(error, Refused) and error.faults:
        return str(locate_faults(pipeline, error.faults))
    return f"{pipeline.file}: {error}"
