"""Sync the server with the files of a folder: execute the plan of `reconcile.py`, and record it in the index.

    scan the directories ─► reconcile ─► apply ─► delete stale objects ─► state files, webhooks, index ─► events

The process may be killed after any step. The next one finds on the server what was applied but not recorded
(`reconcile.World.on_server`) and applies it again, which is idempotent.
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
from mainspring.definitions.pipeline_file import Pipeline, blame
from mainspring.folder import discover
from mainspring.folder.info import config_of
from mainspring.folder.mirror import LISTED_AT, Mirror
from mainspring.folder.notices import Notices
from mainspring.folder.reconcile import (
    ADDED,
    Identity,
    Kind,
    Plan,
    Wanted,
    World,
    definitions,
    is_schedule,
    reconcile,
)
from mainspring.folder.scan import Look, file_of
from mainspring.folder.schedule_events import FileBroken, FileFixed, FolderEvent, ScheduleChanged, Warned
from mainspring.folder.shared_groups import follow_groups
from mainspring.folder.state import state_files, state_view
from mainspring.folder.state.index import Index, Known
from mainspring.folder.state.records import ScheduleState, ScheduleStatus
from mainspring.folder.state.schedule_state import Live
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Conflict, NotFound, Refused
from mainspring.protocol.rest.apply import ApplyItem, ApplyLine, WantedSchedule
from mainspring.protocol.rest.runs import Problem
from mainspring.protocol.rest.schedules import ScheduleView

log = structlog.get_logger()

_WHY = "synced from the folder's files"
_GONE = "its file was removed from the folder"
_STARTING_AFRESH = frozenset({Kind.NEW, Kind.COPY, Kind.RESTORED})
"""Missed windows of these do not run."""


class Upkeep:
    """Syncs one folder to a server."""

    def __init__(
        self, root: Path, client: AsyncClient, clock: Clock, mirror: Mirror, random: Random, most_history: int
    ) -> None:
        self._root, self._client, self._clock, self._mirror = root, client, clock, mirror
        self._random, self._most = random, most_history
        self._look = Look(root)
        self._notices = Notices(client)
        self._index = Index(root)
        self._saving = asyncio.Lock()
        self._plain: dict[str, Known] = {}
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
        return [seen.pipeline for path, seen in self._look.seen.items() if seen.pipeline and path not in self.broken]

    # full and incremental sync

    async def begin(self) -> None:
        """Sync the folder for the first time in this process."""
        self._index = await asyncio.to_thread(Index.load, self._root)
        self.counted_until = self._index.saved_at
        for key, known in self._index.entries.items():
            if is_schedule(key):
                self._mirror.add(live := Live(known))
                live.is_unsure = self.counted_until is None
            else:
                self._plain[key] = known
        await asyncio.to_thread(self._look.at_all, self._scheduled())
        views = [view async for view in self._client.schedules()]
        self._take(views)
        has_plain = self._plain or any(not one.is_scheduled for one in self._look.directories())
        jobs = frozenset([job.name async for job in self._client.jobs()]) if has_plain else None
        await self._notices.load()
        plan = self._plan(on_server={view.name: view.job for view in views}, jobs=jobs)
        refused = await self._carry_out(plan)
        if plan.wanted or plan.adopted:
            self._take([view async for view in self._client.schedules()])
        self.write_states(unless_ahead=True)
        await self._tell_notices(plan, [*(one.schedule_id for one in plan.identities), *self._notices_of_nobody()])
        self._note_flaws(refused)
        await self.save()

    async def again(self, paths: Iterable[str] | None) -> list[FolderEvent]:
        """Sync changes of these directories, or of all of them, and return the events to emit."""
        if paths is None:
            await asyncio.to_thread(self._look.at_all, self._scheduled())
        elif not await asyncio.to_thread(self._look.at_some, paths, self._scheduled()):
            return []
        before, warned = dict(self.broken), set(self.warnings)
        plan = self._plan()
        kinds = {one.schedule_id: one.kind for one in plan.identities}
        gone = {key: live for key in plan.forgotten if (live := self._mirror.lives.get(key)) is not None}
        refused = await self._carry_out(plan)
        accepted = [one for one in plan.wanted if one.identity.path not in refused]
        await self._hear_of(accepted)
        rewritten = [key for key, kind in kinds.items() if kind is Kind.RECREATED]
        for key in {*(one.identity.schedule_id for one in accepted), *rewritten}:
            if (live := self._mirror.lives.get(key)) is not None:
                self._mirror.write(live, on_disk=None)
        await self._tell_notices(plan, [one.identity.schedule_id for one in accepted])
        self._note_flaws(refused)
        if accepted or plan.forgotten:
            await self.save()
        return [
            *(Warned(message=one) for one in self.warnings if one not in warned),
            *self._said_of_files(before),
            *(_changed(one.identity, kinds[one.identity.schedule_id]) for one in accepted if one.names),
            *(_removed(live) for key, live in gone.items() if key not in self._mirror.lives),
        ]

    def write_states(self, *, unless_ahead: bool = False) -> None:
        """Write every state file.

        A file can be ahead of the index if the previous process was killed. `unless_ahead` keeps such a file until its
        runs have been counted again.
        """
        for live in self._mirror.lives.values():
            state = self._look.state(live.path)
            is_ahead = state is not None and state.stats.total_runs > live.tally.stats.total_runs
            if not (unless_ahead and is_ahead):
                self._mirror.write(live, on_disk=state)

    async def save(self) -> None:
        """Write the index."""
        async with self._saving:
            self._mirror.is_unsaved = False
            self._index.saved_at = self._clock.wall() if self.is_caught_up else self.counted_until
            self._index.entries = self._known()
            await asyncio.to_thread(self._index.save)

    # executing the plan

    def _plan(self, on_server: dict[str, str] | None = None, jobs: frozenset[str] | None = None) -> Plan:
        return reconcile(
            World(
                directories=self._look.directories(), known=self._known(), on_server=on_server, jobs_on_server=jobs,
                unseen=self._look.unseen,
            ),
            self._random,
        )  # fmt: skip

    async def _carry_out(self, plan: Plan) -> dict[str, str]:
        """Apply the plan to the server and the state files; return the server's refusals by path."""
        refused: dict[str, str] = {}
        warnings = await follow_groups(self._client, [one.pipeline for one in plan.wanted])
        lines = [line async for line in self._client.apply([self._item(one) for one in plan.wanted], why=_WHY)]
        for wanted, line in zip(plan.wanted, lines, strict=True):
            if line.problem is not None:
                refused[wanted.identity.path] = _say_refusal(wanted.pipeline, line.problem)
            else:
                await self._leave_tenant(wanted)
                self._accept(wanted, line)
        for identity in plan.adopted:
            self._adopt(identity)
        await self._forget(plan, refused)
        for path in plan.archived:
            if path not in refused:
                state_files.archive_state(self._root / path)
        for path in plan.deserted:
            if not discover.leads_elsewhere(self._root, path):
                state_files.drop_state(self._root / path)
        for identity in plan.identities:
            self._describe(identity)
        self.warnings = (*self._look.faults, *self._said_in_files(), *plan.warnings, *warnings)
        return refused

    def _item(self, wanted: Wanted) -> ApplyItem:
        identity = wanted.identity
        past = self._past(wanted)
        is_paused = past is not None and past.status is ScheduleStatus.PAUSED
        since = None if past is None or is_paused else state_view.since_of(past, self._clock.wall())
        return ApplyItem(
            job=msgspec.Raw(wanted.pipeline.job),
            schedules=[
                WantedSchedule(
                    definition=msgspec.Raw(text), since=since, paused=is_paused and name == identity.schedule_id
                )
                for name, text in definitions(wanted.pipeline, identity.schedule_id)
            ],
            tenant=wanted.pipeline.tenant,
        )

    def _past(self, wanted: Wanted) -> ScheduleState | None:
        """Return the last state of a schedule that the server does not have, to continue from."""
        identity = wanted.identity
        if not wanted.is_missing or identity.kind in _STARTING_AFRESH:
            return None
        live = self._mirror.lives.get(identity.schedule_id)
        return self._look.state(identity.path) or (None if live is None else live.shown)

    def _accept(self, wanted: Wanted, line: ApplyLine) -> None:
        """Record a definition that the server accepted."""
        identity = wanted.identity
        self._server_ids.update({one.name: one.id for one in line.schedules if one.id is not None})
        known = Known(
            schedule_id=identity.schedule_id, pipeline_id=identity.pipeline_id, path=identity.path,
            tenant=wanted.pipeline.tenant, digest=wanted.digest, names=wanted.names,
        )  # fmt: skip
        live = self._mirror.lives.get(identity.schedule_id)
        if not wanted.names:
            self._plain[identity.schedule_id] = known
        elif live is not None:
            live.follow(known)
        else:
            self._meet(known, identity.kind, is_on_server=not wanted.is_missing)

    def _adopt(self, identity: Identity) -> None:
        """Track a schedule that the server has and whose file is invalid."""
        names = [name for name in (identity.schedule_id, f"{identity.schedule_id}-event") if name in self._server_ids]
        known = Known(
            schedule_id=identity.schedule_id, pipeline_id=identity.pipeline_id, path=identity.path, names=tuple(names)
        )
        self._meet(known, identity.kind, is_on_server=True)

    def _meet(self, known: Known, kind: Kind, *, is_on_server: bool) -> None:
        """Track a new schedule, with the history from its state file."""
        state = self._look.state(known.path)
        if kind in {Kind.IMPORTED, Kind.RESTORED} and state is not None:
            tally = state_view.import_tally(state, self._clock.wall(), is_on_server=is_on_server, most=self._most)
            known = replace(known, stats=tally.stats, history=tally.history, counted_until=tally.counted_until)
        live = Live(known)
        live.is_unsure = is_on_server
        self._mirror.add(live)

    def _describe(self, identity: Identity) -> None:
        live = self._mirror.lives.get(identity.schedule_id)
        pipeline = self._look.seen[identity.path].pipeline
        if live is not None and pipeline is not None:
            live.title, live.config = pipeline.title, config_of(pipeline)

    async def _forget(self, plan: Plan, refused: Mapping[str, str]) -> None:
        """Drop removed pipelines, except those whose replacement the server refused."""
        known = self._known()
        untouched = {one.identity.schedule_id for one in plan.wanted if one.identity.path in refused}
        untouched |= {key for key in plan.forgotten if known[key].path in refused}
        await self._drop(plan, untouched)
        for key in plan.forgotten:
            if key not in untouched:
                self._plain.pop(key, None)
                self._mirror.remove(key)

    async def _drop(self, plan: Plan, untouched: set[str]) -> None:
        """Delete stale schedules and jobs. Objects that are missing, or in use elsewhere, are skipped."""
        for name in plan.dropped_schedules:
            if name not in untouched and name.removesuffix("-event") not in untouched:
                await self._delete_schedule(self._server_ids.pop(name, name))
        for job, tenant in plan.dropped_jobs.items():
            await self._delete_job(job, tenant)

    async def _leave_tenant(self, wanted: Wanted) -> None:
        """Delete the objects of a pipeline that moved to another tenant."""
        live = self._mirror.lives.get(wanted.identity.schedule_id)
        if live is None or live.tenant == wanted.pipeline.tenant:
            return
        for name in live.names:
            if (server_id := self._server_ids.pop(name, None)) is not None:
                self._mirror.forget(server_id)
                await self._delete_schedule(server_id)
        await self._delete_job(live.pipeline_id, live.tenant)

    async def _delete_schedule(self, server_id: str) -> None:
        try:
            await self._client.delete_schedule(server_id, _GONE)
        except NotFound:
            log.debug("folder.schedule_gone", schedule=server_id)

    async def _delete_job(self, job: str, tenant: str | None) -> None:
        try:
            await self._client.delete_job(job, _GONE, tenant=tenant)
        except (NotFound, Conflict) as error:
            log.info("folder.job_kept", job=job, because=str(error))

    async def _hear_of(self, accepted: Sequence[Wanted]) -> None:
        """Fetch the schedules that were just applied, and their past runs."""
        names = [name for one in accepted for name in one.names]
        if len(names) >= LISTED_AT:
            self._take([view async for view in self._client.schedules()])
        else:
            self._take([await self._client.schedule(self._server_ids[name]) for name in names])
        for one in accepted:
            if one.is_missing and (live := self._mirror.lives.get(one.identity.schedule_id)) is not None:
                await self._mirror.look_back(live)

    def _take(self, views: Iterable[ScheduleView]) -> None:
        for view in views:
            self._server_ids[view.name] = view.id
            self._mirror.take(view)

    async def _tell_notices(self, plan: Plan, keys: Iterable[str]) -> None:
        paths = {one.schedule_id: one.path for one in plan.identities}
        warnings: list[str] = []
        for key in (*keys, *plan.forgotten):
            pipeline = self._look.seen[paths[key]].pipeline if key in paths else None
            warnings += await self._notices.follow(key, pipeline)
        self.warnings = (*self.warnings, *warnings)

    def _notices_of_nobody(self) -> list[str]:
        return [] if self._look.unseen else self._notices.strangers([*self._mirror.lives, *self._plain])

    # errors and warnings

    def _note_flaws(self, refused: dict[str, str]) -> None:
        unread = {path: seen.flaws for path, seen in self._look.seen.items() if seen.pipeline is None}
        self.broken = {**unread, **self._look.circles, **refused}

    def _said_in_files(self) -> list[str]:
        pipelines = [seen.pipeline for seen in self._look.seen.values() if seen.pipeline is not None]
        unheeded = [fault for pipeline in pipelines for fault in pipeline.warnings]
        lonely = unknown_afters(pipelines, {seen.found.pipeline_id for seen in self._look.seen.values()})
        return [f"{fault.where}: {fault.why}" for fault in (*unheeded, *lonely)]

    def _said_of_files(self, before: dict[str, str]) -> list[FolderEvent]:
        used = self._scheduled() | {known.path for known in self._plain.values()}
        events: list[FolderEvent] = [
            FileBroken(file=file_of(path), flaws=flaws, keeps_running=path in used)
            for path, flaws in self.broken.items()
            if before.get(path) != flaws
        ]
        events += [
            FileFixed(file=file_of(path)) for path in before if path not in self.broken and path in self._look.seen
        ]
        return events

    def _known(self) -> dict[str, Known]:
        return {**self._plain, **{key: live.known() for key, live in self._mirror.lives.items()}}

    def _scheduled(self) -> set[str]:
        """The paths of scheduled pipelines."""
        return {live.path for live in self._mirror.lives.values()}


def _changed(identity: Identity, kind: Kind) -> ScheduleChanged:
    change: Literal["added", "updated"] = "added" if kind in ADDED else "updated"
    return ScheduleChanged(schedule_id=identity.schedule_id, pipeline_id=identity.pipeline_id, change=change)


def _removed(live: Live) -> ScheduleChanged:
    return ScheduleChanged(schedule_id=live.schedule_id, pipeline_id=live.pipeline_id, change="removed")


def _say_refusal(pipeline: Pipeline, problem: Problem) -> str:
    """Format the server's refusal of a pipeline, with lines of its file where they are known."""
    error = error_of_problem(problem)
    if isinstance(error, Refused) and error.faults:
        return str(blame(pipeline, error.faults))
    return f"{pipeline.file}: {error}"
