"""In-memory state of a folder's schedule: identity, totals and active runs."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec.structs import asdict

from mainspring.folder.info import ScheduleConfig
from mainspring.folder.state import state_view
from mainspring.folder.state.index import IndexEntry
from mainspring.folder.state.records import RunRecord, ScheduleState
from mainspring.folder.state.state_view import Tally
from mainspring.protocol.rest.runs import RunView
from mainspring.protocol.rest.schedules import ScheduleView


class ActiveRun(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished run."""

    record: RunRecord
    due_at: datetime | None = None
    """When the next retry is due."""
    reported_attempts: int = 0
    """Failed attempts that events were emitted for."""


class TrackedSchedule:
    """One schedule. `known` is its persistent part, `written_state` the content of its state file."""

    def __init__(self, known: IndexEntry) -> None:
        self.schedule_id = known.schedule_id
        self.title = known.pipeline_id
        self.config = ScheduleConfig()
        self.views: dict[str, ScheduleView] = {}
        """The server's views of its schedules, by name."""
        self.running: dict[str, ActiveRun] = {}
        """By run id."""
        self.follow(known)
        self.tally = Tally(**{name: getattr(known, name) for name in Tally.__struct_fields__})
        self.open = known.open
        """Ids of runs that were unfinished in the loaded index."""
        self.may_have_uncounted_runs = False
        """The server may have runs of it that were never counted."""
        self.written_state = self.now()
        """Content of its state file."""

    def follow(self, known: IndexEntry) -> None:
        """Take over what was applied on the server."""
        self.pipeline_id, self.path, self.tenant = known.pipeline_id, known.path, known.tenant
        self.digest, self.names = known.digest, known.names
        self.views = {name: view for name, view in self.views.items() if name in known.names}

    def known(self) -> IndexEntry:
        """Return its index entry."""
        return IndexEntry(
            schedule_id=self.schedule_id, pipeline_id=self.pipeline_id, path=self.path, tenant=self.tenant,
            digest=self.digest, names=self.names, open=tuple(dict.fromkeys((*self.open, *self.running))),
            **asdict(self.tally),
        )  # fmt: skip

    def now(self) -> ScheduleState:
        """Return the content for its state file."""
        newest = max(self.running.values(), key=lambda one: one.record.started_at, default=None)
        return state_view.state_of(
            self.views.get(self.schedule_id),
            self.tally,
            schedule_id=self.schedule_id,
            pipeline_id=self.pipeline_id,
            current=None if newest is None else newest.record,
        )

    def has_counted(self, run: RunView) -> bool:
        """Whether a run is finished and counted."""
        return state_view.has_ended(run) and state_view.is_counted(self.tally, run)
